"""What the process of a soak holds, counted by kind: data kept on purpose can be told from a leak.

Memory alone says little in a process that is an API server and two schedulers at once. Beside it stand the numbers of
what each part keeps, and when the cluster has come to rest, most of them must be exactly what the API server has, or 0.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable

from mooring.controlplane.registry.catalog import NODES, PODS, STORED, by_resource
from mooring.controlplane.server import ControlPlane
from mooring.live.live_scheduler import LiveScheduler

EVENTS = by_resource("events")
Holdings = dict[str, int]
TASKS, OPEN_FILES, BLOCKS = "process: tasks", "process: open files", "process: blocks of memory"


def count_holdings(plane: ControlPlane, schedulers: Iterable[LiveScheduler]) -> Holdings:
    """Everything that could grow: in the API server, in the schedulers together, in the process."""
    store = plane.store
    stored = {kind: store.count(kind) for kind in STORED}
    held = {
        "API server: pods": stored[PODS],
        "API server: events": stored[EVENTS],
        "API server: other objects": sum(stored.values()) - stored[PODS] - stored[EVENTS],
        "API server: watch history": sum(len(store.events_since(kind, store.oldest(kind))) for kind in STORED),
        "API server: watches": plane.hub.count(),
    }
    for scheduler in schedulers:
        for name, count in count_scheduler(scheduler).items():
            held[f"schedulers: {name}"] = held.get(f"schedulers: {name}", 0) + count
    return held | {
        TASKS: len(asyncio.all_tasks()),
        OPEN_FILES: len(os.listdir("/proc/self/fd")),
        BLOCKS: sys.getallocatedblocks(),
    }


def count_scheduler(live: LiveScheduler) -> Holdings:
    scheduler, queue = live.scheduler, live.scheduler.queue
    counted = scheduler.cluster.pods()
    return {
        "nodes": sum(info.node is not None for info in scheduler.cluster.table.nodes.values()),
        "nodes known only from pods": sum(info.node is None for info in scheduler.cluster.table.nodes.values()),
        "pods": len(scheduler.pods),
        "pods on nodes": len(counted),
        "pods assumed": scheduler.cluster.num_assumed,
        "pods in the queue": sum(queue.counts().values()),
        "pods in flight": queue.in_flight_count,
        "events kept for pods in flight": queue.in_flight_event_count,
        "pods waiting on permit": len(scheduler.waiting_pods.all()),
        "writes under way": scheduler.in_flight,
        "events to be written": live.recorder.pending,
        "events remembered as series": live.recorder.known,
    }


def left_behind(plane: ControlPlane, live: LiveScheduler) -> list[str]:
    """What a scheduler at rest holds although nothing is pending, or does not hold although it is there."""
    held = count_scheduler(live)
    pods, nodes = plane.store.count(PODS), plane.store.count(NODES)
    wanted = dict.fromkeys(held, 0) | {"nodes": nodes, "pods": pods, "pods on nodes": pods}
    del wanted["events remembered as series"]  # for six minutes after the last of each
    return [f"{name}: {held[name]} instead of {want}" for name, want in wanted.items() if held[name] != want]
