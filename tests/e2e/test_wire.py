"""What is written to the API server, compared with what kube-scheduler v1.36.4 was recorded to write, field by field.

Names, numbers and times that differ from run to run are replaced on both sides. The order of requests of different
workers means nothing, so they are compared as a set; where order matters it is checked.

Deliberate differences, which this file knows of and ``docs/parity.md`` explains:

- our user agent is ours;
- before a volume is written it is read (a GET more);
- ResourceClaims are patched instead of written whole; what is stored in the end is compared;
- after a conflict the pod is looked up (a GET more);
- nothing is patched into a pod that is gone (404 upstream).
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from mooring.controlplane.serving.faults import FaultRule
from mooring.net.rest import RestClient, with_query

pytestmark = pytest.mark.e2e

RECORDED = Path(__file__).parent.parent / "live" / "wire" / "api.jsonl.gz"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
EVENT_NAME = re.compile(r"\.[0-9a-f]{16}\b")
WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


@pytest.fixture(scope="module")
def recorded():
    found: dict[str, list[dict]] = {}
    with gzip.open(RECORDED, "rt") as lines:
        for line in lines:
            request = json.loads(line)
            found.setdefault(request["scenario"], []).append(request)
    return found


def steady(value):
    """Replace what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: "<version>" if key == "resourceVersion" else steady(item)
            for key, item in value.items()
            if key != "managedFields"
        }
    if isinstance(value, list):
        return [steady(item) for item in value]
    if isinstance(value, str):
        return EVENT_NAME.sub(".<time>", TIME.sub("<time>", UID.sub("<uid>", value)))
    return value


def wanted(requests, *, claims=False):
    return sorted(
        json.dumps(
            [r["method"], EVENT_NAME.sub(".<time>", r["uri"]), r["contentType"], steady(r["body"])], sort_keys=True
        )
        for r in requests
        if r["method"] in WRITES and (claims or "/resourceclaims" not in r["uri"])
    )


def _of_this_pod_only(request):
    """A victim is deleted by its uid, too: another pod may have its name by now."""
    if request["method"] != "DELETE" or "/pods/" not in request["uri"]:
        return request
    uid = "00000000-0000-0000-0000-000000000000"
    return {**request, "body": {**request["body"], "preconditions": {"uid": uid}}}


class Wire:
    """Everything that the scheduler sends to the API server."""

    def __init__(self, monkeypatch):
        self.requests: list[dict] = []
        once, stream = RestClient._once, RestClient.stream

        async def listen_once(client, method, path, body, content_type, *more):
            self._note(client, method, path, body, content_type)
            return await once(client, method, path, body, content_type, *more)

        def listen_stream(client, path, query=None, **more):
            self._note(client, "GET", with_query(path, query), b"", "")
            return stream(client, path, query, **more)

        monkeypatch.setattr(RestClient, "_once", listen_once)
        monkeypatch.setattr(RestClient, "stream", listen_stream)

    def _note(self, client, method, path, body, content_type):
        if client.agent.endswith("/scheduler"):
            request = {"method": method, "uri": path, "headers": dict(client._headers(content_type))}
            self.requests.append({**request, "contentType": content_type, "body": json.loads(body) if body else None})

    def take(self):
        taken, self.requests[:] = list(self.requests), []
        return taken

    async def agrees(self, world, expected):
        """Wait until as many writes have come as were recorded, and compare them."""
        want = wanted([_of_this_pod_only(each) for each in expected])

        async def enough():
            return len(wanted(self.requests)) >= len(want)

        await world.until(f"{len(want)} writes", enough)
        sent = self.take()
        assert wanted(sent) == want
        return sent


@pytest.fixture
async def wire(world, monkeypatch):
    await world.node("node-0", cpu="4")
    await world.node("node-1", cpu="4")
    return Wire(monkeypatch)


async def test_start_up(world, wire, recorded):
    async with world.scheduler():
        sent = {_watch(r) for r in wire.take()}
    assert sent == {_watch(r) for r in recorded["start-up"] if r["headers"]["User-Agent"].endswith("/scheduler")}


def _watch(request):
    uri = re.sub(r"timeout=\d+m\d+s", "timeout=<t>", request["uri"])
    headers = {name: value for name, value in request["headers"].items() if name in ("Accept", "Accept-Encoding")}
    return re.sub(r"timeoutSeconds=\d+", "timeoutSeconds=<t>", uri), tuple(sorted(headers.items()))


async def test_a_pod_that_fits(world, wire, recorded):
    async with world.scheduler():
        wire.take()
        await world.pod("plain")
        await wire.agrees(world, recorded["scheduled"])


async def test_a_pod_that_does_not_fit_and_then_for_another_reason(world, wire, recorded):
    async with world.scheduler():
        wire.take()
        await world.pod("big", cpu="100")
        await wire.agrees(world, recorded["unschedulable"])
        await world.settled("big")
        amounts = {"cpu": "200", "memory": "8Gi", "pods": "110"}
        await world.create(
            "Node",
            {
                "metadata": {"name": "node-2", "labels": {"kubernetes.io/hostname": "node-2"}},
                "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
                "status": {"capacity": amounts, "allocatable": amounts},
            },
        )
        await wire.agrees(world, recorded["unschedulable-again-other-message"])


async def test_the_same_verdict_again_and_again(world, wire, recorded):
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    async def friend(number):
        # A friend where it does not help: on a node that has no such label.
        await world.create(
            "Pod",
            {
                "metadata": {"name": f"friend-{number}", "labels": {"app": "friend"}},
                "spec": {"nodeName": "elsewhere", "containers": [{"name": "c", "image": "i"}]},
            },
        )

    async with world.scheduler() as live:
        wire.take()
        await world.pod("lonely", affinity=affinity)
        await wire.agrees(world, recorded["unschedulable-lonely"])
        for number in (1, 2, 3):
            await world.rested(live, "lonely")
            attempts = live.scheduler.queue.get("default/lonely").attempts
            await friend(number)
            await world.tried(live, "lonely", attempts)
            if number < 3:
                await wire.agrees(world, recorded[f"unschedulable-again-same-message-{number}"])
        await live.recorder.drain(5.0)
        assert wanted(wire.take()) == []


async def test_a_label_makes_a_node_fit(world, wire, recorded):
    scenario = recorded["unschedulable-then-scheduled"]
    async with world.scheduler():
        wire.take()
        await world.pod("picky", nodeSelector={"disk": "ssd"})
        await world.condition("picky", reason="Unschedulable")
        await world.settled("picky")
        await world.patch("Node", "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
        await wire.agrees(world, scenario)


async def test_a_gate_is_opened(world, wire, recorded):
    async with world.scheduler():
        wire.take()
        await world.pod("gated", schedulingGates=[{"name": "example.com/g"}])
        await world.patch("Pod", "gated", {"spec": {"schedulingGates": []}})
        await wire.agrees(world, recorded["gate-opened"])


async def _running(world, name, node, cpu, priority_class="", grace=None, ready=False):
    spec = {"nodeName": node}
    if priority_class:
        spec["priorityClassName"] = priority_class
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    await world.pod(name, cpu=cpu, **spec)
    if ready:
        await world.patch("Pod", name, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")


async def _priorities(world):
    await world.create("PriorityClass", {"metadata": {"name": "high"}, "value": 1000})
    await world.create("PriorityClass", {"metadata": {"name": "middle"}, "value": 10})


async def test_a_victim_with_a_grace_period(world, wire, recorded):
    await _priorities(world)
    await _running(world, "low-0", "node-0", "4", "middle")
    await _running(world, "low-1", "node-1", "4", ready=True)
    async with world.scheduler():
        wire.take()
        await world.pod("high", cpu="3", priorityClassName="high")
        sent = await wire.agrees(world, recorded["preemption"])
        about_victim = [r["method"] for r in sent if "/pods/low-1" in r["uri"]]
        assert about_victim == ["PATCH", "DELETE"]
        await world.settled("high")
        await world.delete("Pod", "low-1")
        await wire.agrees(world, recorded["preemption-victim-gone"])


async def test_two_victims_together(world, wire, recorded):
    await _priorities(world)
    await _running(world, "few-0", "node-0", "2", grace=0)
    await _running(world, "few-1", "node-0", "2", grace=0)
    await _running(world, "low-1", "node-1", "4", "middle")
    async with world.scheduler():
        wire.take()
        await world.pod("higher", cpu="4", priorityClassName="high")
        sent = await wire.agrees(world, recorded["preemption-two-victims-at-once"])
    evictions = [(r["method"], r["uri"].split("/")[6]) for r in sent if "/pods/few-" in r["uri"]]
    first, last = evictions[0][1], evictions[-1][1]
    assert evictions == [("PATCH", first), ("DELETE", first), ("PATCH", last), ("DELETE", last)]


async def test_a_volume_that_exists(world, wire, recorded):
    await _storage(world)
    async with world.scheduler():
        wire.take()
        await world.pod("with-static", volumes=[_volume("static")])
        await world.until("the volume is promised", lambda: _promised(world))
        await _bind_claim(world, "static", "pv-1")
        await wire.agrees(world, recorded["volume-static"])


async def test_a_volume_that_is_provisioned(world, wire, recorded):
    await _storage(world)
    async with world.scheduler():
        wire.take()
        await world.pod("with-dynamic", volumes=[_volume("dynamic")])
        await world.until("a node is chosen", lambda: _selected(world, "dynamic"))
        await _bind_claim(world, "dynamic", "pv-made")
        await wire.agrees(world, recorded["volume-dynamic"])


async def test_a_volume_without_a_provisioner(world, wire, recorded):
    await _storage(world)
    scenario = recorded["volume-provisioning-refused"]
    async with world.scheduler():
        wire.take()
        await world.pod("with-refused", volumes=[_volume("refused")])
        await world.until("a node is chosen", lambda: _selected(world, "refused"))
        annotation = {"volume.kubernetes.io/selected-node": None}
        await world.patch("PersistentVolumeClaim", "refused", {"metadata": {"annotations": annotation}})
        await world.condition("with-refused", reason="SchedulerError")
        await world.until("a node is chosen again", lambda: _selected(world, "refused"))
        await _bind_claim(world, "refused", "pv-made")
        await wire.agrees(world, scenario)


async def test_no_claim_at_all(world, wire, recorded):
    async with world.scheduler():
        wire.take()
        await world.pod("with-missing", volumes=[_volume("nowhere")])
        await wire.agrees(world, recorded["volume-missing-claim"][:2])


def _volume(claim):
    return {"name": "v", "persistentVolumeClaim": {"claimName": claim}}


async def _storage(world):
    on_node_1 = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("dyn", "example.com/dyn")):
        mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await world.create("StorageClass", {"metadata": {"name": name}, **mode})
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "local": {"path": "/mnt/a"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node_1]}]}},
    }
    await world.create("PersistentVolume", {"metadata": {"name": "pv-1"}, "spec": spec})
    await world.patch("PersistentVolume", "pv-1", {"status": {"phase": "Available"}}, "status")
    for name, class_name in (("static", "local"), ("dynamic", "dyn"), ("refused", "dyn")):
        spec = {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await world.create("PersistentVolumeClaim", {"metadata": {"name": name}, "spec": spec})


async def _promised(world):
    return (await world.get("PersistentVolume", "pv-1"))["spec"].get("claimRef")


async def _selected(world, claim):
    annotations = (await world.get("PersistentVolumeClaim", claim))["metadata"].get("annotations", {})
    return annotations.get("volume.kubernetes.io/selected-node")


async def _bind_claim(world, claim, volume):
    """The volume controller's part."""
    if volume == "pv-made":
        await world.create(
            "PersistentVolume",
            {
                "metadata": {"name": volume},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/mnt/made"},
                    "storageClassName": "dyn",
                    "claimRef": {"namespace": "default", "name": claim},
                },
            },
        )
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    await world.patch(
        "PersistentVolumeClaim", claim, {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
    )
    await world.patch("PersistentVolumeClaim", claim, {"status": {"phase": "Bound"}}, "status")


async def test_claims_for_devices(world, wire, recorded):
    await world.create("DeviceClass", {"metadata": {"name": "gpu"}, "spec": {}})
    await world.create(
        "ResourceSlice",
        {
            "metadata": {"name": "slice-1"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "node-1",
                "pool": {"name": "pool-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        },
    )
    request = {"name": "g", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    await world.create("ResourceClaim", {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}})
    async with world.scheduler():
        wire.take()
        for scenario, pod in (("claim", "with-claim"), ("claim-shared-second-pod", "with-claim-too")):
            await world.pod(pod, resourceClaims=[{"name": "g", "resourceClaimName": "one"}])
            await wire.agrees(world, recorded[scenario])
            last = [r for r in recorded[scenario] if r["uri"].endswith("/resourceclaims/one/status")][-1]
            stored = await world.get("ResourceClaim", "one")
            assert steady(stored["status"]) == steady(last["body"]["status"])
            assert stored["metadata"]["finalizers"] == last["body"]["metadata"]["finalizers"]
            assert steady(stored["spec"]) == steady(last["body"]["spec"])


async def test_a_binding_that_is_not_found(world, wire, recorded):
    """The recorded answers were made up; ours differ in their words, which are replaced."""
    world.faults.add(FaultRule("error", "POST", r"/pods/vanished/binding$", code=404))
    scenario = json.loads(json.dumps(recorded["binding-not-found"]).replace('pods \\"vanished\\" not found', "#"))
    async with world.scheduler() as live:
        wire.take()
        await world.pod("vanished")
        await world.bound("vanished")
        await live.recorder.drain(5.0)
        sent = json.loads(json.dumps(wire.take()).replace("fault injected", "#"))
    assert wanted(sent) == wanted(scenario)


async def test_a_status_patch_with_a_conflict(world, wire, recorded):
    world.faults.add(FaultRule("error", "PATCH", r"/pods/contested/status$", code=409))
    async with world.scheduler():
        wire.take()
        await world.pod("contested", cpu="100")
        await wire.agrees(world, recorded["status-patch-conflict"])


async def test_a_victim_that_is_gone_already(world, wire, recorded):
    await _priorities(world)
    await _running(world, "ghost", "node-0", "4")
    await _running(world, "low-1", "node-1", "4", "middle")
    world.faults.add(FaultRule("error", "PATCH", r"/pods/ghost/status$", code=404))
    async with world.scheduler():
        wire.take()
        await world.pod("haunted", cpu="4", priorityClassName="high")
        await wire.agrees(world, recorded["victim-already-gone"])
