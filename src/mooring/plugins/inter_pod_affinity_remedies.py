"""What would help a pod that other pods keep away, or that waits for pods to be near to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mooring.api.core import Pod, PodAffinity, PodAffinityTerm
from mooring.api.wording import MAX_VALUES, missing_label_fact, selector_text
from mooring.errors import ParseError
from mooring.framework.remedies import Change, Remedy
from mooring.state.cluster import Cluster
from mooring.state.node_info import NodeInfo
from mooring.state.pod_info import PodInfo, compile_term

MAX_BLOCKERS = 3


def facts(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """For each required affinity that no pod meets: that there is none, or only in other namespaces."""
    for term in _affinity(pod).required:
        try:
            compiled = compile_term(term, pod.namespace)
        except ParseError:
            continue
        text = selector_text(term.label_selector)
        alike = [other.cls for other in cluster.pods() if compiled.selector.matches(other.cls.labels)]
        if not alike:
            yield f"no pod has {text}" if term.label_selector else "a pod affinity without labelSelector matches no pod"
        elif not any(
            compiled.matches(cls.namespace, cls.labels, cluster.namespace_labels(cls.namespace)) for cls in alike
        ):
            spaces = sorted({cls.namespace for cls in alike})
            more = f" and {len(spaces) - MAX_VALUES} more" if len(spaces) > MAX_VALUES else ""
            yield f"pods with {text} are only in the namespace {', '.join(spaces[:MAX_VALUES])}{more}"
        else:
            fact = missing_label_fact(term.topology_key, [node.labels for node in cluster.nodes().infos])
            if fact:
                yield fact


def without_affinity(pod: Pod) -> Iterator[Remedy]:
    """Give up one of the pod's required affinity terms, or all of them."""
    terms = _affinity(pod).required
    yield from _without_terms(terms, range(len(terms)), is_anti=False)


def without_anti_affinity(pod: Pod, broken: Sequence[int]) -> Iterator[Remedy]:
    """Give up one of the required anti-affinity terms that are broken, or all of these."""
    yield from _without_terms(_anti_affinity(pod).required, broken, is_anti=True)


def without_objectors(pod: Pod, node: NodeInfo, cluster: Cluster) -> Iterator[Remedy]:
    """Name the running pods whose anti-affinity keeps the pod away from the node."""
    objectors = [other.pod for other in _objectors(pod, node, cluster)]
    if 0 < len(objectors) <= MAX_BLOCKERS:
        keys = ", ".join(other.key for other in objectors)
        text = f"without {keys}, whose anti-affinity keeps this pod away from {node.name}"
        yield (Change(text, "removePod", 4.0 + 2.0 * len(objectors), removes=tuple(objectors)),)


def _affinity(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None) or PodAffinity()


def _anti_affinity(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None) or PodAffinity()


def _without_terms(terms: Sequence[PodAffinityTerm], which: Sequence[int], *, is_anti: bool) -> Iterator[Remedy]:
    for i in which:
        yield (_without_term(i, terms[i], is_anti=is_anti),)
    if len(which) > 1:  # the last one first, so that the numbers of the others hold
        yield tuple(_without_term(i, terms[i], is_anti=is_anti) for i in reversed(which))


def _without_term(index: int, term: PodAffinityTerm, *, is_anti: bool) -> Change:
    def edit(pod: Pod) -> None:
        del (_anti_affinity(pod) if is_anti else _affinity(pod)).required[index]

    what = "anti-affinity" if is_anti else "affinity"
    text = f"without the required {what} term on {term.topology_key} ({selector_text(term.label_selector)})"
    return Change(text, "podAntiAffinity" if is_anti else "podAffinity", 4.0, edit=edit)


def _objectors(pod: Pod, node: NodeInfo, cluster: Cluster) -> Iterator[PodInfo]:
    """Running pods whose required anti-affinity means this pod, and whose domain the node is in."""
    namespace_labels = cluster.namespace_labels(pod.namespace)
    nodes = cluster.table.nodes
    for other in cluster.pods():
        labels = nodes[other.pod.spec.node_name].labels
        for term in other.terms.required_anti_affinity:
            value = node.labels.get(term.topology_key)
            is_near = value is not None and labels.get(term.topology_key) == value
            if is_near and term.matches(pod.namespace, pod.labels, namespace_labels):
                yield other
                break
