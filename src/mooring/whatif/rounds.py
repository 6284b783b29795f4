"""Filling nodes in rounds: a quick way to the same answer for pods that see nothing but the node they go to.

If every filter that concerns a pod reads only the row of a node, then what is placed on one node never matters to
another. In which order nodes are filled cannot matter either: in the end each has as many as it can take. So a round
gives one copy to every node that can take one, and the last round is when none can. Scores decide the order alone, and
are not needed.
"""

from __future__ import annotations

from mooring.framework.cycle_state import CycleState
from mooring.framework.guarded import CycleError
from mooring.framework.runtime import Profile
from mooring.state.pod_info import PodInfo
from mooring.whatif.placing import Placing


def nodes_with_room(placing: Placing, pod: PodInfo) -> list[str] | None:
    """The nodes that can take one copy each; None if copies must be placed one by one.

    That is so if a plugin may look further than the row: a user's own, one that counts pods elsewhere, one that reads
    volumes or devices; and if extenders or nominated pods have a say.
    """
    profile = placing.profile_of(pod.pod)
    engine = placing.built.engine
    if engine.extenders is not None or engine.nominator.nominated_nodes() or not _are_ours(profile):
        return None
    if pod.shape.volumes or pod.pod.spec.resource_claims or pod.pod.spec.scheduling_gates:
        return None
    nodes, state = placing.state.nodes(), CycleState()
    try:
        pre = profile.run_pre_filter(state, pod, nodes)
        plan = profile.filter_plan(state)
        if not pre.status.is_success or pre.node_names is not None or not plan.keeps_all(pod):
            return None
        feasible = profile.run_filters(state, pod, nodes, plan.active).feasible
    except CycleError:
        return None
    infos = nodes.infos
    return [infos[row].name for row in feasible.nonzero()[0].tolist()]


def _are_ours(profile: Profile) -> bool:
    plugins = (*profile.pre_enqueue, *profile.judges, *profile.reserve)
    return all(type(each.plugin).__module__.startswith("mooring.plugins.") for each in plugins)
