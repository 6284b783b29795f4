"""The whole state of a scheduler, for a keyframe, in an order from which the same state can be built again."""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.observe.observer import Observed
from mooring.record.entries import Assumed, Nominated, Queued
from mooring.record.writer import Item


def state_of(scheduler: Observed) -> list[Item]:
    """Nodes zone by zone, other objects, pods in the order in which they were counted, the rest of the pods, the queue.

    Only references are taken: objects do not change once a scheduler has them.
    """
    cluster = scheduler.cluster
    items: list[Item] = [*cluster.table.nodes_by_zone(), *cluster.objects]
    pods: dict[str, Pod] = dict(scheduler.pods)
    for info in cluster.pods():
        key = info.pod.key
        if not cluster.is_assumed(info.uid):
            items.append(pods.pop(key, info.pod))
            continue
        known = pods.get(key)
        if known is not None and known.uid == info.uid:
            items.append(pods.pop(key))
            is_waiting = scheduler.waiting_pods.get(info.uid) is not None
            items.append(Assumed(info.uid, info.pod.spec.node_name, is_waiting))
    items += pods.values()
    nominator = scheduler.queue.nominator
    items += [
        Nominated(node, tuple(info.uid for info in nominator.nominated_pods(node)))
        for node in nominator.nominated_nodes()
    ]
    items += [
        Queued(
            f"{each.namespace}/{each.name}" if each.namespace else each.name,
            each.uid,
            each.queue,
            each.attempts,
            each.since,
            each.added,
            "",
            each.message,
            each.plugins,
        )
        for each in scheduler.queue.pending_pods()
    ]
    return items
