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
    for each in scheduler.queue.pending_pods():
        key = f"{each.namespace}/{each.name}" if each.namespace else each.name
        plugins, message = each.plugins, each.message
        items.append(Queued(key, each.uid, each.queue, each.attempts, each.since, each.added, "", "", message, plugins))
    return items


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
