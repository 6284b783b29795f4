"""The whole state, for a keyframe, in an order from which the same state can be built again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.api.core import Pod
from mooring.observe.observer import Observed
from mooring.record.entries import Assumed, Nominated, Queued
from mooring.record.writer import Item
from mooring.state.cluster import Cluster


def state_of(scheduler: Observed) -> list[Item]:
    """The state of a scheduler. Only references are taken: objects do not change once a scheduler has them."""
    waiting = scheduler.waiting_pods
    items = objects_of(scheduler.cluster, scheduler.pods, lambda uid: waiting.get(uid) is not None)
    nominator = scheduler.queue.nominator
    items += [
        Nominated(node, tuple(info.uid for info in nominator.nominated_pods(node)))
        for node in nominator.nominated_nodes()
    ]
    now, wall = scheduler.clock.monotonic(), scheduler.clock.now()
    for info, place in scheduler.queue.places():
        since, added = wall - (now - info.timestamp), wall - (now - info.added_timestamp)
        plugins, uid = tuple(sorted(info.rejectors)), info.pod_info.pod.metadata.uid
        items.append(Queued(info.key, uid, place, info.attempts, since, added, "", "", info.message, plugins))
    return items


def size_of_state(scheduler: Observed) -> int:
    """How many items that would be, about."""
    cluster, num_pods = scheduler.cluster, len(scheduler.pods)
    num_waiting = num_pods - cluster.num_pods
    return len(cluster.table.nodes) + len(cluster.objects) + num_pods + num_waiting


def objects_of(cluster: Cluster, pods: Mapping[str, Pod], is_waiting: Callable[[str], bool]) -> list[Item]:
    """Nodes zone by zone, other objects, pods in the order in which they were counted, the rest of the pods."""
    items: list[Item] = [*cluster.table.nodes_by_zone(), *cluster.objects]
    rest = dict(pods)
    for info in cluster.pods():
        key = info.pod.key
        if not cluster.is_assumed(info.uid):
            items.append(rest.pop(key, info.pod))
            continue
        known = rest.get(key)
        if known is not None and known.uid == info.uid:
            items.append(rest.pop(key))
            items.append(Assumed(info.uid, info.pod.spec.node_name, is_waiting(info.uid)))
    items += rest.values()
    return items
