"""What a scheduler holds, counted by kind: at rest it is exactly what the API server has, and nothing is under way."""

from __future__ import annotations

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.plugins.volume_binding import VolumeBinding
from mooring.live.live_scheduler import LiveScheduler

Holdings = dict[str, int]


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
        **count_reservations(live),
        "events to be written": live.recorder.pending,
        "events remembered as series": live.recorder.known,
    }


def count_reservations(live: LiveScheduler) -> Holdings:
    """What is set aside for pods, and what no API server knows: devices, claims and volumes of pods under way."""
    session, queue = live.scheduler.session, live.scheduler.queue
    devices = session.handle.devices
    nominator = queue.nominator
    found = {"nominated pods": sum(1 for node in nominator.nominated_nodes() for _ in nominator.nominated_pods(node))}
    if isinstance(devices, ClusterDevices):
        allocations = filter(None, (claim.status.allocation for claim in devices.claims()))
        held = sum(not result.admin_access for each in allocations for result in each.devices.results)
        found["devices reserved"] = len(devices._in_flight)
        found["devices that no claim holds"] = sum(devices.allocated().devices.values()) - held
    for profile in session.profiles.values():
        plugin = profile.plugins.get(VolumeBinding.name)
        if plugin is not None and isinstance(plugin.plugin, VolumeBinding):
            for name, cache in (("volumes", plugin.plugin._volumes), ("claims", plugin.plugin._claims)):
                reserved = sum(cache.get(key) is not cache.stored(key) for key in tuple(cache._assumed))
                found[f"{name} reserved"] = found.get(f"{name} reserved", 0) + reserved
    return found


def left_behind(plane: ControlPlane, live: LiveScheduler) -> list[str]:
    """What a scheduler at rest holds although nothing is pending, or does not hold although it is there."""
    held = count_scheduler(live)
    pods, nodes = plane.store.count(PODS), plane.store.count(NODES)
    wanted = dict.fromkeys(held, 0) | {"nodes": nodes, "pods": pods, "pods on nodes": pods}
    del wanted["events remembered as series"]  # for six minutes after the last of each
    return [f"{name}: {held[name]} instead of {want}" for name, want in wanted.items() if held[name] != want]
