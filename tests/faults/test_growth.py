"""What passes through a scheduler leaves nothing behind, however long it runs.

Nodes, namespaces, pods, claims and device slices come, are used and go, each under a name, with labels and taints that
never come again: what a cluster with an autoscaler and jobs does in a year. Whatever can be reached from the scheduler
afterwards is counted; caches are made small, so that they are full in time.
"""

from __future__ import annotations

import gc
import itertools
import random
import types
from collections import Counter
from types import SimpleNamespace

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.config.load import config_from_dict
from mooring.core.engine import columns, nominated
from mooring.core.engine import victims as dry_run_columns
from mooring.core.framework import runtime
from mooring.core.plugins import image_locality, pod_topology_spread
from mooring.core.plugins.devices import cel, pools
from mooring.core.queue import sub_queues
from mooring.core.state import node_table, pod_index, pod_info, sharing
from mooring.live.context import SchedulerOptions
from mooring.live.scheduler import Scheduler
from mooring.live.writer import ApiWriter
from mooring.net.connect import HttpAnswer
from mooring.testing import bound, make_node, make_object, make_pod

SMALL = 5
CACHES = {
    columns: {"MAX_BYTES": 1 << 16, "MAX_SEEN": SMALL, "MAX_MEMO": SMALL},
    nominated: {"MAX_KEPT": SMALL},
    image_locality: {"MAX_KEPT": SMALL},
    pod_topology_spread: {"MAX_KEPT": SMALL},
    dry_run_columns: {"MAX_BYTES": 0, "MAX_SEEN": SMALL},
    cel: {"_MAX_CACHED_VERDICTS": SMALL, "_MAX_CACHED_DEVICES": SMALL, "_MAX_CACHED_EXPRESSIONS": SMALL},
    pools: {"MAX_REACHES": SMALL, "MAX_CONTENTS": SMALL},
    sharing: {"MAX_ENTRIES": SMALL},
    sub_queues: {"_SLACK": SMALL},
    node_table: {"SLACK": SMALL},
    pod_index: {"MAX_COLUMNS": SMALL, "MAX_REMEMBERED": SMALL},
    pod_info: {"MAX_PLACEMENTS": SMALL},
    runtime: {"MAX_SETTLED": SMALL},
}
NOT_COUNTED = (int, float, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


@pytest.fixture
def small_caches(monkeypatch):
    for module, limits in CACHES.items():
        for name, limit in limits.items():
            monkeypatch.setattr(module, name, limit, raising=False)  # one that has another name now shows as growth


class _Client:
    """Grants every wish."""

    async def create(self, path, body):
        return HttpAnswer(201, {}, b"{}")

    async def patch(self, path, body, *, content_type=""):
        return HttpAnswer(200, {}, b"{}")

    delete = update = create


@pytest.fixture
async def scheduler(small_caches):
    recorder = SimpleNamespace(record=lambda *about, **more: None)
    made = Scheduler(
        config_from_dict(None),
        lambda pods: ApiWriter(_Client(), recorder, pods),
        recorder,
        SchedulerOptions(clock=VirtualClock(1_000_000.0), rng=random.Random(0)),
    )
    made.put(make_node("stays", cpu="64", pods=500))
    return made


def reachable(root) -> Counter[str]:
    """How many objects of each type can be reached, without code, and without numbers: large ones are objects."""
    seen, found, todo = {id(root)}, Counter(), [root]
    while todo:
        each = todo.pop()
        found[type(each).__name__] += 1
        # Structs that the garbage collector does not look at keep their parts to themselves.
        parts = [getattr(each, name) for name in getattr(each, "__struct_fields__", ())] or gc.get_referents(each)
        for part in parts:
            if id(part) not in seen and not isinstance(part, NOT_COUNTED):
                seen.add(id(part))
                todo.append(part)
    return found


def _device_slice(node, i):
    device = {"name": "gpu", "attributes": {"uuid": {"string": f"gpu-{i}"}}}
    spec = {"driver": "gpu.example", "nodeName": node, "devices": [device]}
    spec["pool"] = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return make_object("ResourceSlice", f"slice-{i}", spec=spec)


def _claim(namespace, i):
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount"}}
    return make_object("ResourceClaim", f"claim-{i}", namespace, spec={"devices": {"requests": [request]}})


def _pods(namespace, i):
    labels = {"job": f"job-{i}"}
    selector = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    spread = {**selector, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    hard = {**selector, "maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    wish = {"weight": 1, "podAffinityTerm": selector}
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [selector],
            "preferredDuringSchedulingIgnoredDuringExecution": [wish],
        }
    }
    common = {"namespace": namespace}
    yield make_pod(
        "spread", cpu=f"{100 + i}m", spec={"topologySpreadConstraints": [spread, hard]}, labels=labels, **common
    )
    yield make_pod("apart", memory=f"{100 + i}Mi", spec={"affinity": affinity}, host_ports=[1000 + i], **common)
    yield make_pod("selects", spec={"nodeSelector": {"kubernetes.io/hostname": f"node-{i}"}}, image=f"i:{i}", **common)
    yield make_pod("too-large", cpu="1000", priority=i, **common)
    claims = [{"name": "gpu", "resourceClaimName": f"claim-{i}"}]
    yield make_pod("has-a-claim", spec={"resourceClaims": claims, "nodeSelector": {"zone": f"zone-{i}"}}, **common)


async def pass_through(scheduler, i):
    """One node, one namespace and a few pods come, do what they came for, and go."""
    name, namespace = f"node-{i}", f"namespace-{i}"
    labels = {"kubernetes.io/hostname": name, "zone": f"zone-{i}"}
    node = make_node(name, cpu="8", labels=labels, images={f"i:{i}": 1 << 30})
    marked = make_node(name, cpu="8", labels=labels, taints=[f"deletion-candidate={i}:PreferNoSchedule"])
    others = [
        make_object("Namespace", namespace),
        make_object("Service", "service", namespace, spec={"selector": {"job": f"job-{i}"}}),
        make_object("PersistentVolumeClaim", "data", namespace),
        _device_slice(name, i),
        _claim(namespace, i),
    ]
    for each in (node, *others):
        scheduler.put(each)
    pods = list(_pods(namespace, i))
    for pod in pods:
        scheduler.put(pod)
    for _ in range(2 * len(pods)):
        info = scheduler.queue.pop()
        if info is None:
            break
        scheduler.schedule_one(info)
        assert await scheduler.drain(5.0)
    placed = []
    for pod in pods:
        counted = scheduler.cluster.pod(pod.uid)
        if counted is not None:
            placed.append(pod.name)
            scheduler.put(bound(pod, counted.pod.spec.node_name))
    scheduler.put(marked)
    for pod in pods:
        scheduler.delete(scheduler.pods.get(pod.key, pod))
    for each in (marked, *reversed(others)):
        scheduler.delete(each)
    scheduler.cluster.nodes()
    return placed


async def test_nodes_pods_and_namespaces_that_came_and_went_leave_nothing_behind(scheduler):
    """Caches fill and are emptied: the most that is held in some rounds is compared with the most much later."""
    numbers = itertools.count()

    async def most_in(rounds) -> Counter[str]:
        most: Counter[str] = Counter()
        for _ in range(rounds):
            assert await pass_through(scheduler, next(numbers)) == ["spread", "apart", "selects", "has-a-claim"]
            most |= reachable(scheduler)
        return most

    scheduler.put(make_object("DeviceClass", "gpu", spec={}))
    await most_in(2 * SMALL)
    before = await most_in(3 * SMALL)
    await most_in(6 * SMALL)
    after = await most_in(3 * SMALL)
    one_per_round = 9 * SMALL
    grown = {name: (before[name], count) for name, count in after.items() if count > before[name] + one_per_round / 2}
    assert grown == {}
