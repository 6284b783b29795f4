"""What a running scheduler shows of itself: its queue, and whether its cache agrees with the watches (SIGUSR2)."""

from __future__ import annotations

from typing import Any

from mooring.api.core import Node
from mooring.api.times import format_time
from mooring.client.informer import InformerSet
from mooring.observe.logs import get_logger
from mooring.scheduler.assembly import Scheduler
from mooring.state.cluster import Cluster
from mooring.state.node_info import NodeInfo

log = get_logger("mooring.scheduler.dump")


def queue_content(scheduler: Scheduler) -> dict[str, Any]:
    """All waiting pods: since when, why, and which events would wake them."""
    pods = [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "schedulerName": pod.scheduler_name,
            "queue": pod.queue,
            "priority": pod.priority,
            "attempts": pod.attempts,
            "added": format_time(pod.added),
            "since": format_time(pod.since),
            "backoffLeftSeconds": round(pod.backoff_left_s, 3),
            "plugins": list(pod.plugins),
            "message": pod.message,
            "wakes": list(pod.wakes),
        }
        | ({"group": pod.group} if pod.group else {})
        for pod in scheduler.queue.pending_pods()
    ]
    waiting = [
        {"pod": waiting.pod.pod.key, "node": waiting.node_name, "plugins": list(waiting.pending_plugins)}
        for waiting in scheduler.waiting_pods.all()
    ]
    return {"counts": scheduler.queue.counts(), "pods": pods, "waitingOnPermit": waiting}


def dump(scheduler: Scheduler, informers: InformerSet) -> None:
    """Compare the cache with what the watches say, and write both and the queue to the log."""
    cluster = scheduler.cluster
    cached_nodes = {name for name, info in cluster.table.nodes.items() if info.node is not None}
    _compare("nodes", cached_nodes, {node.name for node in informers["nodes"] if isinstance(node, Node)})
    cached = {pod.pod.key for pod in cluster.pods() if not cluster.is_assumed(pod.uid)}
    _compare("pods", cached, {pod.key for pod in informers["pods"] if pod.spec.node_name})
    for name in sorted(cached_nodes):
        info = cluster.table.nodes[name]
        log.info("Dump of cached NodeInfo", node=name, count=len(info.pods), pods=_keys(cluster, info))
    for pod in scheduler.queue.pending_pods():
        key = f"{pod.namespace}/{pod.name}"
        log.info("Dump of scheduling queue", pod=key, queue=pod.queue, attempts=pod.attempts)


def _compare(what: str, cached: set[str], watched: set[str]) -> None:
    missing, redundant = sorted(watched - cached), sorted(cached - watched)
    if missing or redundant:
        log.warning(f"Cache mismatch of {what}", missing=missing, redundant=redundant)
    else:
        log.info(f"Cache of {what} agrees with the watches", count=len(cached))


def _keys(cluster: Cluster, info: NodeInfo) -> str:
    return " ".join(pod.pod.key + (" (assumed)" if cluster.is_assumed(uid) else "") for uid, pod in info.pods.items())
