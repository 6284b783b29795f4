"""The real kubectl against the embedded API server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import PODS, by_resource
from mooring.controlplane.registry.subresources import bind_pod
from mooring.controlplane.server import ControlPlane

from ..conftest import make_node, make_pod, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: "app:1", ports: [{containerPort: 80}]}
      - {name: b, image: "app:1", env: [{name: X, value: "1"}]}
"""


class Kubectl:
    def __init__(self, config: Path, home: Path) -> None:
        self.home = home
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(config)}

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.env,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 30)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return process.returncode or 0, out.decode(), err.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        code, out, err = await self.run(*arguments, stdin=stdin)
        assert code == 0, f"kubectl {' '.join(arguments)}: {err}{out}"
        return out

    async def get(self, *arguments: str) -> Any:
        return json.loads(await self("get", *arguments, "-o", "json"))


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as running:
        yield running


@pytest.fixture
def kubectl(plane: ControlPlane, tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path / "kubeconfig", tmp_path)


async def test_version_and_discovery(kubectl: Kubectl) -> None:
    version = json.loads(await kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith("v1.36.")
    resources = await kubectl("api-resources")
    assert "deployments" in resources and "resourceclaims" in resources
    assert "events.k8s.io/v1" in await kubectl("api-versions")
    assert "ok" in await kubectl("get", "--raw", "/readyz")
    explained = await kubectl("explain", "pod.spec.topologySpreadConstraints")
    assert "whenUnsatisfiable" in explained
    assert "kubernetes-admin" in await kubectl("auth", "whoami")
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"


async def test_get_prints_tables(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    plane.api.create(PODS, "default", make_pod())
    bind_pod(plane.api, "default", "web", "n1")
    plain = (await kubectl("get", "pods")).splitlines()
    assert plain[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert plain[1].split()[:4] == ["web", "0/1", "Pending", "0"]
    wide = (await kubectl("get", "pods", "-o", "wide")).splitlines()
    assert "NOMINATED NODE" in wide[0] and wide[1].split()[6] == "n1"
    assert (await kubectl("get", "nodes")).splitlines()[1].split()[:3] == ["n1", "Ready", "<none>"]
    assert "kind: Pod" in await kubectl("get", "pod", "web", "-o", "yaml")
    assert (await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}")) == "n1"
    assert "APP" in await kubectl("get", "pods", "-L", "app")
    assert "web" in await kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName=n1")
    assert "pod/web" in await kubectl("get", "all")
    code, _, err = await kubectl.run("get", "pods", "nope")
    assert code == 1 and err.strip() == 'Error from server (NotFound): pods "nope" not found'


async def test_describe_pod_and_node(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    plane.api.create(PODS, "default", make_pod())
    bind_pod(plane.api, "default", "web", "n1")
    uid = plane.api.get(PODS, "default", "web").uid
    event = {
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default", "uid": uid},
        "reason": "Scheduled",
        "message": "Successfully assigned default/web to n1",
        "type": "Normal",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    plane.api.create(by_resource("events"), "default", event)
    pod = await kubectl("describe", "pod", "web")
    assert "Successfully assigned default/web to n1" in pod and "PodScheduled" in pod
    node = await kubectl("describe", "node", "n1")
    assert "Non-terminated Pods:          (1 in total)" in node
    assert "Allocatable:" in node


async def test_watch_follows_a_pod(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(PODS, "default", make_pod())
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        "get",
        "pods",
        "-w",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=kubectl.env,
    )
    assert process.stdout is not None
    lines = process.stdout
    try:

        async def line() -> list[str]:
            return (await asyncio.wait_for(lines.readline(), 20)).decode().split()

        assert await line() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert (await line())[:3] == ["web", "0/1", "Pending"]
        await until(lambda: plane.hub.count() == 1)
        plane.api.modify(
            PODS, "default", "web", lambda pod: pod["status"].update(phase="Running"), subresource="status"
        )
        assert (await line())[:3] == ["web", "0/1", "Running"]
        plane.api.create(PODS, "default", make_pod("other"))
        assert (await line())[:3] == ["other", "0/1", "Pending"]
    finally:
        process.kill()
        await process.wait()


async def test_create_and_its_refusals(kubectl: Kubectl) -> None:
    manifest = json.dumps(make_pod())
    assert await kubectl("create", "-f", "-", stdin=manifest) == "pod/web created\n"
    code, _, err = await kubectl.run("create", "-f", "-", stdin=manifest)
    assert code == 1 and 'pods "web" already exists' in err and "AlreadyExists" in err
    code, _, err = await kubectl.run("create", "-f", "-", stdin=json.dumps(make_pod("x", colour="blue")))
    assert code == 1 and 'unknown field "spec.colour"' in err
    code, _, err = await kubectl.run("create", "-f", "-", stdin=json.dumps(make_pod("x", containers=[])))
    assert code == 1 and "spec.containers: Required value" in err
    assert "created (server dry run)" in await kubectl(
        "create", "-f", "-", "--dry-run=server", stdin=json.dumps(make_pod("dry"))
    )
    assert await kubectl("create", "namespace", "team") == "namespace/team created\n"
    assert await kubectl("create", "configmap", "c", "--from-literal=a=b") == "configmap/c created\n"
    assert await kubectl("create", "deployment", "d", "--image=app:1") == "deployment.apps/d created\n"
    assert (
        await kubectl("create", "priorityclass", "high", "--value=100")
        == "priorityclass.scheduling.k8s.io/high created\n"
    )
    assert await kubectl("run", "one", "--image=app:1") == "pod/one created\n"
    assert await kubectl("create", "job", "j", "--image=app:1") == "job.batch/j created\n"
    budget = ("create", "pdb", "p", "--selector=app=d", "--min-available=1")
    assert await kubectl(*budget) == "poddisruptionbudget.policy/p created\n"


async def test_apply_twice_and_with_a_change(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("replicas: 2", "replicas: 5").replace(
        '{name: a, image: "app:1"', '{name: a, image: "app:2"'
    )
    assert await kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"
    found = await kubectl.get("deployment", "web")
    assert found["spec"]["replicas"] == 5 and found["metadata"]["generation"] == 2
    assert [c["image"] for c in found["spec"]["template"]["spec"]["containers"]] == ["app:2", "app:1"]
    less = "\n".join(line for line in changed.splitlines() if "name: b" not in line)
    await kubectl("apply", "-f", "-", stdin=less)
    found = await kubectl.get("deployment", "web")
    assert [c["name"] for c in found["spec"]["template"]["spec"]["containers"]] == ["a"]


async def test_server_side_apply_owns_fields(kubectl: Kubectl) -> None:
    command = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*command, stdin=DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    assert await kubectl(*command, stdin=DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    less = "\n".join(line for line in DEPLOYMENT.splitlines() if "name: b" not in line)
    await kubectl(*command, stdin=less)
    found = await kubectl.get("deployment", "web")
    assert [c["name"] for c in found["spec"]["template"]["spec"]["containers"]] == ["a"]
    other = less.replace("replicas: 2", "replicas: 7")
    code, _, err = await kubectl.run(*command, "--field-manager=other", stdin=other)
    assert code == 1 and "conflict" in err and ".spec.replicas" in err
    await kubectl(*command, "--field-manager=other", "--force-conflicts", stdin=other)
    assert (await kubectl.get("deployment", "web"))["spec"]["replicas"] == 7


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param("json", '[{"op":"replace","path":"/spec/replicas","value":9}]', id="json patch"),
        pytest.param("merge", '{"spec":{"replicas":9}}', id="merge patch"),
        pytest.param("strategic", '{"spec":{"replicas":9}}', id="strategic merge patch"),
    ],
)
async def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("patch", "deployment", "web", "--type", kind, "-p", patch) == "deployment.apps/web patched\n"
    assert (await kubectl.get("deployment", "web"))["spec"]["replicas"] == 9


async def test_label_annotate_taint_cordon_scale(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    assert await kubectl("label", "node", "n1", "disk=ssd") == "node/n1 labeled\n"
    assert await kubectl("annotate", "node", "n1", "note=hello") == "node/n1 annotated\n"
    assert await kubectl("taint", "node", "n1", "a=b:NoSchedule") == "node/n1 tainted\n"
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    node = await kubectl.get("node", "n1")
    assert node["metadata"]["labels"]["disk"] == "ssd" and node["metadata"]["annotations"] == {"note": "hello"}
    assert node["spec"] == {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": True}
    assert "SchedulingDisabled" in await kubectl("get", "node", "n1")
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert await kubectl("taint", "node", "n1", "a-") == "node/n1 untainted\n"
    assert await kubectl("label", "node", "n1", "disk-") == "node/n1 unlabeled\n"
    assert (await kubectl.get("node", "n1"))["spec"] == {}
    await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("scale", "deployment", "web", "--replicas=4") == "deployment.apps/web scaled\n"
    assert (await kubectl.get("deployment", "web"))["spec"]["replicas"] == 4
    assert "image updated" in await kubectl("set", "image", "deployment/web", "a=app:3")


def _running_pod(plane: ControlPlane, name: str) -> None:
    plane.api.create(PODS, "default", {**make_pod(name), "metadata": {"name": name, "labels": {"app": "web"}}})
    bind_pod(plane.api, "default", name, "n1")

    def run(pod: dict[str, Any]) -> None:
        pod["status"]["phase"] = "Running"
        pod["status"]["conditions"].append({"type": "Ready", "status": "True"})

    plane.api.modify(PODS, "default", name, run, subresource="status")


async def test_drain_respects_the_budget(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    _running_pod(plane, "p1")
    budgets = by_resource("poddisruptionbudgets.policy")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    plane.api.create(budgets, "default", {"metadata": {"name": "b"}, "spec": spec})

    def allow(count: int) -> None:
        state = {
            "observedGeneration": 1,
            "disruptionsAllowed": count,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        plane.api.modify(budgets, "default", "b", lambda b: b.update(status=state), subresource="status")

    allow(0)
    code, _, err = await kubectl.run("drain", "n1", "--force", "--timeout=2s")
    assert code == 1 and "Cannot evict pod as it would violate the pod's disruption budget." in err
    assert plane.store.get(PODS, "default", "p1") is not None
    allow(1)

    async def kubelet() -> None:
        await until(lambda: b'"deletionTimestamp"' in plane.api.get(PODS, "default", "p1").raw)
        plane.api.delete(PODS, "default", "p1", {"gracePeriodSeconds": 0})

    out, _ = await asyncio.gather(kubectl("drain", "n1", "--force", "--timeout=300s"), kubelet())
    assert "node/n1 drained" in out
    assert b'"disruptionsAllowed":0' in plane.api.get(budgets, "default", "b").raw


async def test_wait_for_a_condition_and_for_deletion(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    plane.api.create(PODS, "default", make_pod("p1"))
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/p1", "--timeout=300s"))
    await until(lambda: plane.hub.count() == 1)
    bind_pod(plane.api, "default", "p1", "n1")
    ready = {"type": "Ready", "status": "True"}
    plane.api.modify(PODS, "default", "p1", lambda p: p["status"]["conditions"].append(ready), subresource="status")
    assert await waiting == "pod/p1 condition met\n"
    await until(lambda: plane.hub.count() == 0)
    deleting = asyncio.create_task(kubectl("wait", "--for=delete", "pod/p1", "--timeout=300s"))
    await until(lambda: plane.hub.count() == 1)
    plane.api.delete(PODS, "default", "p1", {"gracePeriodSeconds": 0})
    assert await deleting == "pod/p1 condition met\n"
    code, _, err = await kubectl.run("wait", "--for=condition=Ready", "pod/none", "--timeout=1s")
    assert code == 1 and "not found" in err


async def test_delete_with_grace_force_and_propagation(kubectl: Kubectl, plane: ControlPlane) -> None:
    plane.api.create(by_resource("nodes"), "", make_node("n1"))
    _running_pod(plane, "p1")
    await kubectl("delete", "pod", "p1", "--wait=false")
    assert (await kubectl.get("pod", "p1"))["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "Terminating" in await kubectl("get", "pod", "p1")
    out = await kubectl("delete", "pod", "p1", "--force", "--grace-period=0")
    assert 'pod "p1" force deleted' in out
    for policy, left in (("foreground", []), ("background", []), ("orphan", ["child"])):
        await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
        owner = plane.api.get(by_resource("deployments.apps"), "default", "web")
        child = make_pod("child")
        child["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "uid": owner.uid,
                "blockOwnerDeletion": True,
            }
        ]
        plane.api.create(PODS, "default", child)
        await kubectl("delete", "deployment", "web", f"--cascade={policy}")
        await until(lambda: plane.store.count(PODS) == len(left))  # noqa: B023
        assert [entry.name for entry in plane.store.iterate(PODS)] == left, policy
    await kubectl("delete", "pods", "--all")
    assert (await kubectl.get("pods"))["items"] == []


async def test_deleting_a_namespace_takes_everything_with_it(kubectl: Kubectl, plane: ControlPlane) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("-n", "team", "create", "configmap", "c")
    await kubectl("-n", "team", "create", "-f", "-", stdin=json.dumps(make_pod()))
    assert await kubectl("delete", "namespace", "team") == 'namespace "team" deleted\n'
    assert plane.store.count(PODS) == 0


async def test_a_list_is_applied(kubectl: Kubectl, tmp_path: Path) -> None:
    """kubectl validates the items of a List by the old document, which it takes as protobuf alone."""
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [make_pod(), make_node("n1")]}))
    told = await kubectl("apply", "-f", str(file))
    assert "pod/web created" in told and "node/n1 created" in told
