"""DefaultPreemption: for a pod that fits nowhere, finds a node where evicting lower-priority pods makes room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from mooring.api.core import Pod
from mooring.api.pod_groups import PodGroup
from mooring.core.config.types import DefaultPreemptionArgs
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import CandidateLimits, Handle
from mooring.core.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult, Tried
from mooring.core.framework.status import SUCCESS, Code, NodeStatuses, PostFilterResult, Status
from mooring.core.state.cluster import group_of
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

_NAME = "DefaultPreemption"
# Signed and created once: when a victim ends, all waiting preemptors are asked for them.
_WAITS = Status.unresolvable("waiting for the preemption for this pod to be finished").by(_NAME)
_GROUP_WAITS = Status.unresolvable("waiting for the preemption for this pod group to be finished").by(_NAME)


class DefaultPreemption:
    """Asks the engine for a node and its victims; see :mod:`mooring.core.engine`.

    The scheduler evicts the victims after the decision. The pod is nominated to the node and retried.
    """

    name: ClassVar[str] = _NAME

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._limits = CandidateLimits(args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute)
        self._handle = handle
        self._says_where = handle.is_enabled("PreemptorIsToldItsPlace")
        self._knows_groups = handle.is_enabled("GenericWorkload")

    def pre_enqueue(self, pod: Pod) -> Status:
        preemptions = self._handle.preemptions
        if preemptions is not None and self._knows_groups and (key := group_of(pod)):
            group = self._handle.cluster.objects.get(PodGroup, key)
            if group is not None and preemptions.is_running(group.uid):
                return _GROUP_WAITS
            return SUCCESS
        if preemptions is not None and preemptions.is_running(pod.metadata.uid):
            return _WAITS
        return SUCCESS

    def events_to_register(self) -> Sequence[EventRegistration]:
        # A victim's end wakes the pod through the plugin that rejected it; here it only opens the gate again.
        return (on(EventResource.POD, ActionType.DELETE, lambda pod, old, new: Hint.SKIP),)

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        self._handle.meters(pod.pod.spec.scheduler_name).preemption_attempted()
        assert self._handle.preemption is not None, "a profile gives its plugins one"
        result = self._handle.preemption.preempt(state, pod, nodes, statuses, self._limits)
        said = result.status.message
        if result.status.is_success and self._says_where:
            node, n = result.nominated_node, len(result.victims)
            said = f"found a potential placement for pod on node {node}, preempting {n} victims"
        if not said:
            return result
        status = _said(result.status.code, said)
        return PostFilterResult(status, result.nominated_node, result.victims, result.pdb_violations)

    def pod_group_post_filter(self, group: PodGroupInfo, tried: Sequence[Tried]) -> PodGroupPostFilterResult:
        assert self._handle.preemption is not None, "a profile gives its plugins one"
        result = self._handle.preemption.preempt_group(group)
        self._handle.meters(group.pods[0].pod.spec.scheduler_name).group_preemption_attempted(result.status.code)
        said = (f"pod group preemption: {result.status.message}",) if result.status.message else ()
        return replace(result, status=Status(result.status.code, said))


@lru_cache(maxsize=256)
def _said(code: Code, text: str) -> Status:
    """Return a status, shared by the thousands of pods that get the same message."""
    return Status(code, (f"preemption: {text}",))
