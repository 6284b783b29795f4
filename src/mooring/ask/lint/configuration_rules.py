"""Rules about scheduler configurations: settings that change no decision on this cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from mooring.api.errors import MooringError
from mooring.api.text import count_of
from mooring.ask.diff import diff
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule

_KIND = "KubeSchedulerConfiguration"
_FIT = "NodeResourcesFit"


@rule("profile-unused", Severity.NOTE, needs_cluster=True)
def profile_unused(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A profile that no pod uses.

    No pod of the cluster and no pod of the manifests names it in `spec.schedulerName`. Perhaps the name is misspelt
    there, or the profile is not needed any more.
    """
    pods = [pod for pods in context.pods_in.values() for pod in pods]
    pods += [each.pod for each in context.subjects if each.pod is not None]
    used = {pod.spec.scheduler_name for pod in pods}
    for i, profile in _profiles(subject):
        name = str(profile.get("schedulerName", "default-scheduler"))
        if pods and name not in used:
            message = f"no pod has schedulerName: {name}; there are pods for {', '.join(sorted(used))}"
            yield Problem(("profiles", i, "schedulerName"), message, "remove the profile, or name it in pods")


@rule("strategy-outvoted", Severity.WARNING, needs_cluster=True)
def strategy_outvoted(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A scoring strategy that changes no placement on this cluster.

    All pods are placed again, with the strategy and with the default one, `LeastAllocated`. If none of them goes to
    another node, other scores outweigh the strategy. A profile that is to pack nodes needs a larger weight for
    `NodeResourcesFit`, or `NodeResourcesBalancedAllocation` and `PodTopologySpread` disabled.
    """
    for i, profile in _profiles(subject):
        for j, each in enumerate(_list(profile, "pluginConfig")):
            strategy = (each.get("args") or {}).get("scoringStrategy") if each.get("name") == _FIT else None
            if not isinstance(strategy, Mapping) or strategy.get("type", "LeastAllocated") == "LeastAllocated":
                continue

            def without(config: dict[str, Any], i: int = i, j: int = j) -> None:
                del config["profiles"][i]["pluginConfig"][j]["args"]["scoringStrategy"]

            count = _unmoved(subject, context, without)
            if count:
                yield Problem(
                    ("profiles", i, "pluginConfig", j, "args", "scoringStrategy"),
                    f"{strategy['type']} moves none of {count_of(count, 'pod')}: other scores outvote it",
                    f"give {_FIT} a larger weight, or disable scores that pull the other way",
                )


@rule("score-never-matters", Severity.NOTE, needs_cluster=True)
def score_never_matters(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A score plugin with a weight that changes no placement on this cluster.

    All pods are placed again, with the plugin's score and without it. If none of them goes to another node, the weight
    has no effect here.
    """
    for i, profile in _profiles(subject):
        plugins = profile.get("plugins")
        enabled = _list(plugins.get("score"), "enabled") if isinstance(plugins, Mapping) else []
        for j, each in enumerate(enabled):
            name = each.get("name")
            if not name or name == "*":
                continue

            def without(config: dict[str, Any], i: int = i, j: int = j, name: Any = name) -> None:
                score = config["profiles"][i]["plugins"]["score"]
                del score["enabled"][j]
                score["disabled"] = [*(score.get("disabled") or ()), {"name": name}]

            count = _unmoved(subject, context, without)
            if count:
                message = f"{name} with weight {each.get('weight', 1)} moves none of {count_of(count, 'pod')}"
                path: FieldPath = ("profiles", i, "plugins", "score", "enabled", j)
                yield Problem(path, message, "leave it out, or give it a larger weight")


def _profiles(subject: Subject) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if subject.kind == _KIND:
        yield from ((i, each) for i, each in enumerate(_list(subject.value, "profiles")))


def _list(value: Any, name: str) -> list[Mapping[str, Any]]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _unmoved(subject: Subject, context: LintContext, change: Callable[[dict[str, Any]], None]) -> int:
    """Return how many pods were compared, if none moves after a change of the configuration; otherwise 0."""
    other = deepcopy(dict(subject.value))
    change(other)
    assert context.cluster is not None
    try:
        found = diff(context.scheduler_with(subject.value), context.scheduler_with(other), "all")
    except MooringError:
        return 0  # `mooring config check` reports the mistake
    return 0 if found.moved or found.equally_good else found.pods  # tie-breaking between equal nodes matters as well
