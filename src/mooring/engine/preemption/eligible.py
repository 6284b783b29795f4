"""Whether a pod may evict others now."""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.status import Code
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


def objection(pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> str:
    """Why this pod may not evict others now, or nothing."""
    if pod.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    name = pod.pod.status.nominated_node_name
    if name and statuses.get(name).code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        info = nodes.table.nodes.get(name)
        if info is not None and any(
            other.priority < pod.priority and goes_for_preemption(other.pod) for other in info.pods.values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def goes_for_preemption(pod: Pod) -> bool:
    """Whether the pod is going because it was evicted for another."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
