"""NodeAffinity: nodeSelector, required and preferred node affinity, and affinity added by the profile."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from mooring.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from mooring.api.errors import ConfigError, ParseError
from mooring.api.meta import Object
from mooring.api.selectors import requirement
from mooring.api.text import expression_text, label_fact
from mooring.core.config.types import NodeAffinityArgs
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change, PreFilterResult, Remedy, Scores, default_normalize, few
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_selector import (
    NAME_FIELD,
    CompiledTerm,
    compile_node_selector,
    compile_term,
    node_requirements,
)
from mooring.core.state.pod_info import PodInfo

ENFORCED = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
MISMATCH = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
CONFLICT = Status.unresolvable("pod affinity terms conflict")


class NodeAffinity:
    """Rejects nodes that do not match required terms (unresolvable), and scores by the weights of preferred terms."""

    name: ClassVar[str] = "NodeAffinity"
    traits: ClassVar[Traits] = Traits(
        filter_reads=Reads.NODE, score_reads=Reads.NODE, uses_volumes=False, even_normalize=True
    )

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        self._cluster = handle.cluster
        added = args.added_affinity
        required = added.required if added is not None else None
        self._added_required = None if required is None else compile_node_selector(required)
        self._added_preferred = [] if added is None else compile_preferred(added.preferred)
        terms = self._added_required.terms if self._added_required is not None else ()
        problem = next((term.error for term in (*terms, *(t for _, t in self._added_preferred)) if term.error), "")
        if problem:
            raise ConfigError(f"addedAffinity: {problem}")

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_node_affinity

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        spec = pod.shape.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        if required is None and self._added_required is None and spec.node_selector is None:
            return SKIP_FOR_TEMPLATE
        if required is None or not required.node_selector_terms:
            return SUCCESS_FOR_TEMPLATE
        names: set[str] = set()
        for term in required.node_selector_terms:
            named = _names_of(term.match_fields)
            if named is None:
                return SUCCESS_FOR_TEMPLATE  # this term may hold on any node
            names |= named
        return PreFilterResult(frozenset(names)) if names else CONFLICT

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        fits = node_requirements(pod.shape).mask(nodes)
        ids = np.where(fits, 0, 2)
        if self._added_required is not None:
            ids[~self._added_required.mask(nodes)] = 1
        return Verdict.choose(ids, (ENFORCED, MISMATCH)) if ids.any() else None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        preferred = self._preferred(pod)
        if not preferred and not self._added_preferred:
            return SKIP_FOR_TEMPLATE
        for term in compile_preferred(preferred):
            if term[1].error:
                return Status.error(term[1].error)
        return SUCCESS_FOR_TEMPLATE

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        total = np.zeros(len(nodes), np.int64)
        for weight, term in (*self._added_preferred, *compile_preferred(self._preferred(pod))):
            total += weight * term.mask(nodes)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        return default_normalize(scores, reverse=False)

    @staticmethod
    def _preferred(pod: PodInfo) -> list[PreferredSchedulingTerm]:
        affinity = pod.shape.spec.affinity
        return [] if affinity is None or affinity.node_affinity is None else affinity.node_affinity.preferred

    # ---- what would help ---------------------------------------------------------------------------------------

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        return facts(pod.pod, NodeRows(nodes.table).infos)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return remedies(pod.pod, nodes)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self._after_node_change),)

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A node newly matches."""
        assert isinstance(new, Node)
        if self._added_required is not None and not self._added_required.matches(new.name, new.labels):
            return Hint.SKIP
        wanted = node_requirements(self._cluster.info(pod).shape)  # compiled once, not for every node that changes
        if not wanted.matches(new.name, new.labels):
            return Hint.SKIP
        return Hint.SKIP if old is not None and wanted.matches(old.name, old.labels) else Hint.QUEUE


def compile_preferred(terms: list[PreferredSchedulingTerm]) -> list[tuple[int, CompiledTerm]]:
    """Return (weight, term), without the terms that cannot count: weight 0 or an empty preference."""
    compiled = ((term.weight, compile_term(term.preference)) for term in terms if term.weight)
    return [(weight, term) for weight, term in compiled if term.error or not term.is_void]


def _names_of(fields: list[NodeSelectorRequirement]) -> set[str] | None:
    """Return the node names that a term's fields allow; None if they do not restrict them."""
    names: set[str] | None = None
    for field in fields:
        if field.key == NAME_FIELD and field.operator == "In":
            names = set(field.values) if names is None else names & set(field.values)
    return names


# ---- remedies for a pod whose node selector or node affinity rejects nodes
# ---------------------------------------------


def facts(pod: Pod, nodes: Sequence[NodeInfo]) -> Iterator[str]:
    """Yield, for each requested label that no node has, the values that nodes have."""
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
    """Yield labels for the node that the pod requires, or relaxed requirements."""
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
    """Return labels that would make the term match; None if adding labels is not enough."""
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
