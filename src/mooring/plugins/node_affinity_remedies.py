"""What would help a pod whose node selector or node affinity keeps it away from nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mooring.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from mooring.api.selectors import requirement
from mooring.api.wording import expression_text, label_fact
from mooring.errors import ParseError
from mooring.framework.remedies import Change, Remedy, few
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.node_selector import compile_node_selector


def facts(pod: Pod, nodes: Sequence[NodeInfo]) -> Iterator[str]:
    """For each label that the pod asks for and that no node has so: how it is on the nodes."""
    for wanted in _label_requirements(pod):
        try:
            selector = compile_node_selector(NodeSelector([NodeSelectorTerm([wanted])]))
        except ParseError:
            continue
        if not any(selector.matches(node.name, node.labels) for node in nodes):
            yield label_fact(wanted.key, [node.labels for node in nodes])


def _label_requirements(pod: Pod) -> Iterator[NodeSelectorRequirement]:
    for key, value in (pod.spec.node_selector or {}).items():
        yield NodeSelectorRequirement(key, "In", [value])
    for term in _required_terms(pod):
        yield from term.match_expressions


def remedies(pod: Pod, nodes: NodeRows) -> Iterator[Remedy]:
    """Label the node as the pod wishes, or wish for less."""
    for node in few(nodes):
        yield from _remedies(pod, node.name, node.labels)


def _remedies(pod: Pod, name: str, labels: dict[str, str]) -> Iterator[Remedy]:
    missing = {key: value for key, value in (pod.spec.node_selector or {}).items() if labels.get(key) != value}
    terms = _required_terms(pod)
    without_selector = tuple(_without_selector(key, value) for key, value in missing.items())
    if not terms:
        yield _labelled(name, missing)
        yield without_selector
        return
    for term in terms:
        wanted = _labels_for(term, labels)
        if wanted is not None:
            yield _labelled(name, missing | wanted)
    if any(_holds(term, name, labels) for term in terms):
        yield without_selector
    else:
        yield (*without_selector, _without_node_affinity(terms))


def _required_terms(pod: Pod) -> list[NodeSelectorTerm]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return [] if affinity is None or affinity.required is None else affinity.required.node_selector_terms


def _met(expression: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    try:
        return requirement(expression.key, expression.operator, expression.values, node=True).matches(labels)
    except ParseError:
        return False


def _holds(term: NodeSelectorTerm, name: str, labels: dict[str, str]) -> bool:
    return all(_met(expression, labels) for expression in term.match_expressions) and all(
        (name in field.values) == (field.operator == "In") for field in term.match_fields
    )


def _labels_for(term: NodeSelectorTerm, labels: dict[str, str]) -> dict[str, str] | None:
    """Labels that would make the term hold; None if adding labels is not enough."""
    if term.match_fields:
        return None
    wanted: dict[str, str] = {}
    for expression in term.match_expressions:
        if _met(expression, labels):
            continue
        if expression.operator == "In" and expression.values:
            wanted[expression.key] = expression.values[0]
        elif expression.operator == "Exists":
            wanted[expression.key] = "true"
        else:
            return None
    return wanted


def _labelled(name: str, labels: Mapping[str, str]) -> Remedy:
    return tuple(_label(name, key, value) for key, value in labels.items())


def _label(name: str, key: str, value: str) -> Change:
    def edit_node(node: Node) -> None:
        node.metadata.labels = {**node.metadata.labels, key: value}

    return Change(f"label {key}={value} on {{node}}", "label", 2.0, node=name, edit_node=edit_node)


def _without_selector(key: str, value: str) -> Change:
    def edit(pod: Pod) -> None:
        if pod.spec.node_selector is not None:
            pod.spec.node_selector.pop(key, None)

    return Change(f"without nodeSelector {key}={value}", "nodeSelector", 3.0, edit=edit)


def _without_node_affinity(terms: list[NodeSelectorTerm]) -> Change:
    texts = [
        " and ".join(
            expression_text(e.key, e.operator, e.values) for e in (*term.match_expressions, *term.match_fields)
        )
        for term in terms
    ]

    def edit(pod: Pod) -> None:
        if pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None:
            pod.spec.affinity.node_affinity.required = None

    return Change(f"without the required node affinity ({' or '.join(texts)})", "nodeAffinity", 4.0, edit=edit)
