"""NodeAffinity: nodeSelector, required and preferred node affinity, and affinity added by the profile."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from mooring.api.core import Node, NodeSelectorRequirement, Pod, PreferredSchedulingTerm
from mooring.api.meta import Object
from mooring.config.types import NodeAffinityArgs
from mooring.errors import ConfigError
from mooring.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import PreFilterResult, Scores
from mooring.framework.remedies import Remedy
from mooring.framework.scoring import default_normalize
from mooring.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status
from mooring.framework.traits import Reads, Traits
from mooring.framework.verdict import Verdict
from mooring.plugins import node_affinity_remedies
from mooring.state.node_requirements import NodeRequirements, node_requirements
from mooring.state.node_rows import NodeRows
from mooring.state.node_selector import NAME_FIELD, CompiledTerm, compile_node_selector, compile_term
from mooring.state.pod_info import PodInfo

ENFORCED = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
MISMATCH = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
CONFLICT = Status.unresolvable("pod affinity terms conflict")


class NodeAffinity:
    """Rejects nodes whose labels do not meet the demands (unresolvable), and adds the weights of met wishes."""

    name: ClassVar[str] = "NodeAffinity"
    traits: ClassVar[Traits] = Traits(
        filter_reads=Reads.NODE, score_reads=Reads.NODE, uses_volumes=False, even_normalize=True
    )

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
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
        return node_affinity_remedies.facts(pod.pod, NodeRows(nodes.table).infos)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return node_affinity_remedies.remedies(pod.pod, nodes)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self._after_node_change),)

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A node that matches now, and did not before."""
        assert isinstance(new, Node)
        if self._added_required is not None and not self._added_required.matches(new.name, new.labels):
            return Hint.SKIP
        wanted = NodeRequirements(pod.spec)
        if not wanted.matches(new.name, new.labels):
            return Hint.SKIP
        return Hint.SKIP if old is not None and wanted.matches(old.name, old.labels) else Hint.QUEUE


def compile_preferred(terms: list[PreferredSchedulingTerm]) -> list[tuple[int, CompiledTerm]]:
    """(weight, term), without the terms that cannot count: weight 0 or an empty preference."""
    compiled = ((term.weight, compile_term(term.preference)) for term in terms if term.weight)
    return [(weight, term) for weight, term in compiled if term.error or not term.is_void]


def _names_of(fields: list[NodeSelectorRequirement]) -> set[str] | None:
    """The node names that a term's fields allow; None if they do not narrow them down."""
    names: set[str] | None = None
    for field in fields:
        if field.key == NAME_FIELD and field.operator == "In":
            names = set(field.values) if names is None else names & set(field.values)
    return names
