"""Plans: which nodes to add so that pods fit, and which can be emptied and removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Configuration, PluginReference, Scheduler
from mooring.whatif.adding import Adding, Plan
from mooring.whatif.daemons import Daemons
from mooring.whatif.node_types import read_types, types_of_cluster
from mooring.whatif.placing import Placing
from mooring.whatif.removing import Progress, Removal, Removing
from mooring.whatif.wanted import Wanted, pods_of, waiting_pods

Types = str | Path | Mapping[str, Any] | None
"""The path of a file with types of nodes, or the same as a dict; None: the kinds of nodes that the cluster has."""


def plan(
    cluster: Cluster,
    types: Types = None,
    pods: Mapping[str, int | None] | Iterable[str] = (),
    *,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Plan:
    """Find the cheapest nodes to add so that all pods that wait fit; or these ``pods``, with their numbers of copies.

    The cluster stays as it is. The plan is proved: all pods were placed with it, one after another.
    """
    return plan_with(Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version), types, pods)


def plan_with(scheduler: Scheduler, types: Types = None, pods: Mapping[str, int | None] | Iterable[str] = ()) -> Plan:
    """The same, asked of a scheduler and its cluster."""
    placing = Placing.of(scheduler)
    variants = types_of_cluster(placing.state) if types is None else read_types(types, placing.state)
    asked = pods if isinstance(pods, Mapping) else dict.fromkeys(pods)
    wanted = pods_of(asked, scheduler, placing) if asked else Wanted(waiting_pods(scheduler.cluster, placing))
    daemons = Daemons(placing.state, wanted.daemons)
    for pod in [pod for node in scheduler.cluster.nodes for pod in Daemons(Cluster().state, wanted.daemons).on(node)]:
        placing.state.set_pod(pod)  # they come to the old nodes, too
    found = Adding(placing, wanted.pods, variants, daemons).plan()
    if types is None and found.nodes:
        found.notes.append("without types, one more node of any kind that the cluster has costs 1")
    return found


def plan_removal(
    cluster: Cluster,
    *,
    delete_emptydir_data: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Removal:
    """Find nodes that can be emptied and removed, and the moves that empty them. The cluster stays as it is."""
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return removal_with(scheduler, delete_emptydir_data=delete_emptydir_data)


def removal_with(
    scheduler: Scheduler, *, delete_emptydir_data: bool = False, progress: Progress = lambda done, total: None
) -> Removal:
    """The same, asked of a scheduler and its cluster."""
    return Removing(Placing.of(scheduler), delete_emptydir_data=delete_emptydir_data, progress=progress).plan()
