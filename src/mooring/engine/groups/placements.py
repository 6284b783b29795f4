"""Placements: the parts of the cluster, such as racks, in which a whole group may be placed, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.framework.guarded import CycleError, guarded
from mooring.framework.interfaces import MAX_NODE_SCORE
from mooring.framework.pod_groups import PlacedGroup, Placement, PodGroupInfo
from mooring.framework.runtime import Profile
from mooring.framework.status import Status
from mooring.state.node_rows import NodeRows


def generate(profile: Profile, info: PodGroupInfo, nodes: NodeRows) -> Sequence[Placement]:
    """The placements to try; without a plugin there is one, the whole cluster. None at all is a CycleError."""
    if not profile.placement_generate:
        return [Placement("", nodes)]
    plugin = profile.placement_generate[0]
    placements: Sequence[Placement] = guarded(plugin.name, "{1}", plugin.generate_placements, info, nodes)
    if not placements:
        raise CycleError(Status.unschedulable("no feasible placements found").by(plugin.name))
    return placements


def best_placement(profile: Profile, info: PodGroupInfo, placed: Sequence[PlacedGroup]) -> int:
    """The position of the placement with the highest score; of equals the first, where upstream takes any."""
    if len(placed) == 1:
        return 0
    totals = [0] * len(placed)
    for plugin, weight in profile.placement_score:
        text = 'running PlacementScore plugins: plugin "{}" failed with: {}'
        scores = [guarded(plugin.name, text, plugin.score_placement, info, each) for each in placed]
        if plugin.normalize_placements is not None:
            text = 'running NormalizePlacementScore on PlacementScore plugins: plugin "{}" failed with: {}'
            scores = list(guarded(plugin.name, text, plugin.normalize_placements, info, scores))
        for i, score in enumerate(scores):
            if not 0 <= score <= MAX_NODE_SCORE:
                raise CycleError(
                    Status.error(
                        f'plugin "{plugin.name}" returns an invalid score {score}, it should in the range of '
                        f"[0, {MAX_NODE_SCORE}] after normalizing"
                    )
                )
            totals[i] += score * weight
    return max(range(len(placed)), key=totals.__getitem__)
