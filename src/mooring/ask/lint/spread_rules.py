"""Rules about spreading and (anti-)affinity: topology keys, selectors, and demands that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mooring.api.core import Pod, TopologySpreadConstraint
from mooring.api.selectors import compile_selector
from mooring.api.text import count_of, nearest, selector_text
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_HARD = ("DoNotSchedule", "")  # what is not written means this


@rule("unknown-topology-key", Severity.ERROR, needs_cluster=True)
def unknown_topology_key(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A topology key that no node has.

    With a key that no node has, required affinity and spreading that must hold keep the pods waiting for ever,
    and anti-affinity and wishes have no effect. Write the key of a label that nodes carry.
    """
    if subject.pod is None or not len(context.nodes):
        return
    keys = context.label_keys
    for path, key in _topology_keys(subject):
        if key and key not in keys:
            near = nearest(key, keys)
            fix = f"write {near}" if near else "write the key of a label that nodes have"
            yield Problem(path, f"no node has the label {key}", fix)


@rule("spread-cannot-hold", Severity.ERROR, needs_cluster=True)
def spread_cannot_hold(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """Spreading and anti-affinity that cannot hold together for all replicas.

    Required anti-affinity among a workload's own pods allows one pod per domain, such as a node. Spreading that
    must hold allows the domains to differ by at most `maxSkew`. The rule counts the domains of the nodes that
    the pod may go to, and how many pods they can take under both; if the workload wants more, the rest waits
    for ever. Ask for fewer replicas, make the demand a wish (`preferredDuringScheduling…`, `ScheduleAnyway`),
    or add nodes.
    """
    pod = subject.pod
    if pod is None or subject.kind in ("Pod", "DaemonSet") or subject.copies < 2:
        return
    keys, hard = _own_anti_affinity(pod), _hard_constraints(pod)
    nodes = _own_nodes(pod, context) if keys or hard else []
    if not nodes:
        return
    limits = [(f"anti-affinity over {key}", most) for key in keys if (most := _distinct(nodes, key)) is not None]
    for constraint in hard:
        most = _most_spread(nodes, constraint, keys)
        if most is not None:
            beside = " beside the anti-affinity" if keys else ""
            limits.append((f"spreading over {constraint.topology_key}{beside}", most))
    if not limits:
        return
    why, most = min(limits, key=lambda limit: limit[1])
    if subject.copies > most:
        field: FieldPath = ("spec", "parallelism" if subject.kind == "Job" else "replicas")
        yield Problem(
            field,
            f"{why} leaves room for {count_of(most, 'pod')} of {subject.copies}",
            f"ask for at most {most}, or make the demand a wish",
        )


@rule("spread-misses-own-pods", Severity.WARNING)
def spread_misses_own_pods(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A spread constraint whose selector does not select the pod itself.

    It counts other pods, and this workload's own pods are not spread. Most often the labels of the template
    were changed and the selector was not. Use the labels of the template in `labelSelector`.
    """
    if subject.pod is None:
        return
    for i, constraint in enumerate(subject.pod.spec.topology_spread_constraints):
        if not compile_selector(constraint.label_selector).matches(subject.pod.labels):
            yield Problem(
                (*subject.pod_spec, "topologySpreadConstraints", i),
                f"it counts {selector_text(constraint.label_selector)}, and the pod itself is not among them",
                "use the labels of the pod in labelSelector",
            )


# ---- counting ----------------------------------------------------------------------------------------------------


def _own_nodes(pod: Pod, context: LintContext) -> list[dict[str, str]]:
    """Labels of the nodes that the pod may go to."""
    allowed = context.passes("NodeAffinity", pod) & context.passes("TaintToleration", pod)
    infos = context.nodes.infos
    return [node.labels for i in np.flatnonzero(allowed) if (node := infos[int(i)].node) is not None]


def _own_anti_affinity(pod: Pod) -> list[str]:
    """The topology keys over which the pod does not want to be with others like itself."""
    anti = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    terms = anti.required if anti is not None else ()
    return [
        term.topology_key
        for term in terms
        if compile_selector(term.label_selector).matches(pod.labels)
        and (not term.namespaces or pod.namespace in term.namespaces)
    ]


def _hard_constraints(pod: Pod) -> list[TopologySpreadConstraint]:
    return [
        each
        for each in pod.spec.topology_spread_constraints
        if each.when_unsatisfiable in _HARD and compile_selector(each.label_selector).matches(pod.labels)
    ]


def _most_spread(nodes: list[dict[str, str]], constraint: TopologySpreadConstraint, keys: list[str]) -> int | None:
    """How many pods fit if domains differ by at most maxSkew; None if there is no bound."""
    domains = _domains(nodes, constraint.topology_key, keys)
    if not domains:
        return 0
    skew, wanted = max(1, constraint.max_skew), constraint.min_domains or 1
    rooms = [domain.room for domain in domains]
    fewest: int | None = 0 if len(domains) < wanted else _least(rooms)
    if fewest is None:
        return None
    return sum(fewest + skew if room is None else min(room, fewest + skew) for room in rooms)


@dataclass(frozen=True, slots=True)
class _Domain:
    name: str
    room: int | None  # None: nothing bounds it


def _domains(nodes: list[dict[str, str]], key: str, anti_affinity: list[str]) -> list[_Domain]:
    """The domains of a key, and how many pods anti-affinity allows in each."""
    inside: dict[str, list[dict[str, str]]] = {}
    for labels in nodes:
        if key in labels:
            inside.setdefault(labels[key], []).append(labels)
    return [
        _Domain(name, _least([1 if other == key else _distinct(members, other) for other in anti_affinity]))
        for name, members in inside.items()
    ]


def _distinct(members: list[dict[str, str]], key: str) -> int | None:
    """How many domains of a key there are; None where nodes are without it, which nothing bounds."""
    if any(key not in labels for labels in members):
        return None
    return len({labels[key] for labels in members})


def _least(rooms: list[int | None]) -> int | None:
    known = [room for room in rooms if room is not None]
    return min(known) if known else None


# ---- places ------------------------------------------------------------------------------------------------------


def _topology_keys(subject: Subject) -> Iterator[tuple[FieldPath, str]]:
    assert subject.pod is not None
    spec, root = subject.pod.spec, subject.pod_spec
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield (*root, "topologySpreadConstraints", i, "topologyKey"), constraint.topology_key
    if spec.affinity is None:
        return
    for field, terms in (
        ("podAffinity", spec.affinity.pod_affinity),
        ("podAntiAffinity", spec.affinity.pod_anti_affinity),
    ):
        if terms is None:
            continue
        for i, term in enumerate(terms.required):
            yield (*root, "affinity", field, _REQUIRED, i, "topologyKey"), term.topology_key
        for i, weighted in enumerate(terms.preferred):
            place = (*root, "affinity", field, _PREFERRED, i, "podAffinityTerm", "topologyKey")
            yield place, weighted.pod_affinity_term.topology_key
