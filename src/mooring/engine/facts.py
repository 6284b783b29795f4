"""The facts behind a refusal: what the cluster has where a pod asks for something else.

"node(s) didn't match Pod's node affinity/selector" is true and helps little; "disk is ssd on 4 nodes, hdd on 6" shows
the misspelt value. Each function states facts about one plugin's refusals, and nothing where it has none to state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from mooring.api.quantity import milli_value_of, value_of
from mooring.engine.amounts import written
from mooring.engine.proposals import selector_text
from mooring.errors import ParseError
from mooring.state.cluster import Cluster
from mooring.state.node_info import NodeInfo
from mooring.state.node_selector import compile_node_selector
from mooring.state.pod_info import PodInfo, compile_term
from mooring.state.requests import CPU

MAX_VALUES = 4
_INSUFFICIENT = "Insufficient "


class Refused(Protocol):
    """Nodes that a plugin refused, and why."""

    @property
    def plugin(self) -> str: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...


def facts(pod: PodInfo, cluster: Cluster, refusals: Iterable[Refused]) -> list[str]:
    """What the cluster has, for each plugin that refused a node."""
    infos = [info for info in cluster.table.infos if info.node is not None]
    by_plugin: dict[str, list[Refused]] = {}
    for refusal in refusals:
        by_plugin.setdefault(refusal.plugin, []).append(refusal)
    found: list[str] = []
    for plugin, mine in by_plugin.items():
        state = _STATED_BY.get(plugin)
        if state is not None:
            found += state(pod, cluster, infos, mine)
    return list(dict.fromkeys(found))


# ---- labels of nodes --------------------------------------------------------------------------------------------


def _about_labels(
    pod: PodInfo, cluster: Cluster, infos: Sequence[NodeInfo], refused: Sequence[Refused]
) -> Iterator[str]:
    """For each label that the pod asks for and that no node has so: how it is on the nodes."""
    for wanted in _label_requirements(pod.pod):
        try:
            selector = compile_node_selector(NodeSelector([NodeSelectorTerm([wanted])]))
        except ParseError:
            continue
        if not any(selector.matches(info.name, info.labels) for info in infos):
            yield label_fact(wanted.key, [info.labels for info in infos])


def _label_requirements(pod: Pod) -> Iterator[NodeSelectorRequirement]:
    for key, value in (pod.spec.node_selector or {}).items():
        yield NodeSelectorRequirement(key, "In", [value])
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        for term in affinity.required.node_selector_terms:
            yield from term.match_expressions


def label_fact(key: str, labels: Sequence[Mapping[str, str]]) -> str:
    """``disk is ssd on 4 nodes, hdd on 6``, or that no node has the label."""
    values = Counter(each[key] for each in labels if key in each)
    if not values:
        near = get_close_matches(key, {name for each in labels for name in each}, n=1, cutoff=0.8)
        return f"no node has the label {key}" + (f"; did you mean {near[0]}?" if near else "")
    (first, count), *rest = values.most_common(MAX_VALUES)
    parts = [f"{first or 'empty'} on {_nodes(count)}", *(f"{value or 'empty'} on {count}" for value, count in rest)]
    if len(values) > MAX_VALUES:
        parts.append(f"and {len(values) - MAX_VALUES} other values")
    without = len(labels) - values.total()
    return f"{key} is {', '.join(parts)}" + (f"; {_nodes(without)} without it" if without else "")


def _about_topology(
    pod: PodInfo, cluster: Cluster, infos: Sequence[NodeInfo], refused: Sequence[Refused]
) -> Iterator[str]:
    """For each key that the pod is spread over: how many nodes lack it."""
    for constraint in pod.pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == "DoNotSchedule":
            yield from _missing_key(constraint.topology_key, infos)


def _missing_key(key: str, infos: Sequence[NodeInfo]) -> Iterator[str]:
    lacking = sum(key not in info.labels for info in infos)
    if lacking == len(infos):
        yield label_fact(key, [info.labels for info in infos])
    elif lacking:
        yield f"{lacking} of {_nodes(len(infos))} without the label {key}"


# ---- other pods -------------------------------------------------------------------------------------------------


def _about_pods(pod: PodInfo, cluster: Cluster, infos: Sequence[NodeInfo], refused: Sequence[Refused]) -> Iterator[str]:
    """For each pod affinity that no pod fulfils: that there is none, or only in other namespaces."""
    affinity = pod.pod.spec.affinity.pod_affinity if pod.pod.spec.affinity is not None else None
    for term in affinity.required if affinity is not None else ():
        try:
            compiled = compile_term(term, pod.pod.namespace)
        except ParseError:
            continue
        text = selector_text(term.label_selector)
        alike = [other for other in cluster.pods() if compiled.selector.matches(other.cls.labels)]
        if not alike:
            yield f"no pod has {text}" if term.label_selector else "a pod affinity without labelSelector matches no pod"
        elif not any(
            compiled.matches(other.cls.namespace, other.cls.labels, cluster.namespace_labels(other.cls.namespace))
            for other in alike
        ):
            spaces = sorted({other.cls.namespace for other in alike})
            more = f" and {len(spaces) - MAX_VALUES} more" if len(spaces) > MAX_VALUES else ""
            yield f"pods with {text} are only in the namespace {', '.join(spaces[:MAX_VALUES])}{more}"
        else:
            yield from _missing_key(term.topology_key, infos)


# ---- resources --------------------------------------------------------------------------------------------------


def _about_resources(
    pod: PodInfo, cluster: Cluster, infos: Sequence[NodeInfo], refused: Sequence[Refused]
) -> Iterator[str]:
    """For each resource that is short: how much is asked for, and the most that is free where it is short."""
    short: dict[str, set[str]] = {}
    for refusal in refused:
        for reason in refusal.reasons:
            if reason.startswith(_INSUFFICIENT):
                short.setdefault(reason.removeprefix(_INSUFFICIENT), set()).update(refusal.nodes)
    for resource, names in short.items():
        asked = pod.shape.requests.get(resource, 0)
        there = [info for info in infos if info.name in names]
        if not any(_allocatable(info, resource) for info in there):
            yield f"no {resource} at all on {_nodes(len(there))}"
            continue
        free, name = max((_free(info, resource), info.name) for info in there)
        most = written(resource, max(0, free))
        yield f"{resource}: {written(resource, asked)} asked for, at most {most} free (on {name})"


def _allocatable(info: NodeInfo, resource: str) -> int:
    assert info.node is not None
    text = info.node.status.allocatable.get(resource, 0)
    try:
        return milli_value_of(text) if resource == CPU else value_of(text)
    except ParseError:
        return 0


def _free(info: NodeInfo, resource: str) -> int:
    return _allocatable(info, resource) - sum(pod.shape.requests.get(resource, 0) for pod in info.pods.values())


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


_State = Callable[[PodInfo, Cluster, Sequence[NodeInfo], Sequence[Refused]], Iterator[str]]
_STATED_BY: dict[str, _State] = {
    "NodeAffinity": _about_labels,
    "PodTopologySpread": _about_topology,
    "InterPodAffinity": _about_pods,
    "NodeResourcesFit": _about_resources,
}
