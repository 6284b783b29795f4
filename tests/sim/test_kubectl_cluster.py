"""The real kubectl against a whole cluster in one process: API server, fake kubelets, controllers, scheduler."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.sim.scenario import node, pod
from mooring.sim.worlds import EmbeddedWorld, Listening, PlaySettings

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


class Kubectl:
    def __init__(self, world: EmbeddedWorld, config: Path) -> None:
        self.world = world
        self.cluster = world.cluster
        self._env = {"PATH": os.environ["PATH"], "HOME": str(config.parent), "KUBECONFIG": str(config)}

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
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
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    path = tmp_path / "kubeconfig"
    listening = Listening(kubeconfig_path=path)
    async with EmbeddedWorld(PlaySettings(write=lambda line: None), listening=listening) as world:
        assert isinstance(world, EmbeddedWorld)
        for i in (1, 2, 3):
            await world.cluster.create(node(f"node{i}"))
        yield Kubectl(world, path)


def _deployment(name: str, replicas: int, grace_s: int = 1) -> str:
    labels = {"app": name}
    spec = {"terminationGracePeriodSeconds": grace_s, "containers": [{"name": "main", "image": "app:1"}]}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )


async def test_a_deployment_from_the_command_line(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    shown = await kubectl("get", "deployment", "web")
    assert shown.splitlines()[1].split()[1:4] == ["3/3", "3", "3"]
    await kubectl("scale", "deployment/web", "--replicas=5")
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    pods = (await kubectl.get("pods"))["items"]
    assert len(pods) == 5 and len({each["spec"]["nodeName"] for each in pods}) == 3
    described = await kubectl("describe", "pod", pods[0]["metadata"]["name"])
    assert "Successfully assigned" in described and "Running" in described


async def test_what_kubectl_sends_in_protocol_buffers_reads_like_json(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx")
    stored = await kubectl.get("deployment", "web")
    template = stored["spec"]["template"]
    assert "generation" not in template["metadata"] and stored["metadata"]["generation"] == 1
    assert not {"stdin", "stdinOnce", "tty"} & set(template["spec"]["containers"][0])
    assert "paused" not in stored["spec"] and "hostNetwork" not in template["spec"]


async def test_a_rollout_forward_and_back(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=_deployment("web", 2))
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    await kubectl("set", "image", "deployment/web", "main=app:2")
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    assert "2" in await kubectl("rollout", "history", "deployment/web")
    await kubectl("rollout", "undo", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    sets = (await kubectl.get("rs"))["items"]
    assert sorted((each["spec"]["replicas"], each["spec"]["template"]["spec"]["containers"][0]["image"])
                  for each in sets) == [(0, "app:2"), (2, "app:1")]  # fmt: skip
    await kubectl("rollout", "restart", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")


async def test_waiting_for_conditions(kubectl: Kubectl) -> None:
    manifest = pod("p", annotations={"mooring/start-after": "0.3s"})
    await kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    assert "condition met" in await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=300s")
    assert "condition met" in await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=300s")
    await kubectl("create", "job", "sums", "--image=app")
    job = (await kubectl.get("pods", "-l", "job-name=sums"))["items"][0]["metadata"]["name"]
    await kubectl("annotate", "pod", job, "mooring/completes-after=0.2s")
    assert "condition met" in await kubectl("wait", "--for=condition=Complete", "job/sums", "--timeout=300s")


async def test_a_node_is_drained_within_the_budget(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=_deployment("web", 6))
    await kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=5")
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    seen: list[int] = []

    def count(event: Any) -> None:
        status = event.entry.object().get("status") or {}
        seen.append(status.get("currentHealthy", 9))

    from mooring.controlplane.registry.catalog import by_resource

    async def counted() -> bool:
        status = (await kubectl.get("pdb", "web")).get("status") or {}
        return status.get("currentHealthy") == 6

    for _ in range(100):
        if await counted():
            break
    kubectl.world.plane.store.subscribe(by_resource("poddisruptionbudgets.policy"), count)
    out = await kubectl("drain", "node1", "--ignore-daemonsets", "--timeout=300s")
    assert "drained" in out
    assert (await kubectl.get("node", "node1"))["spec"]["unschedulable"] is True
    pods = (await kubectl.get("pods", "-l", "app=web"))["items"]
    assert "node1" not in {each["spec"].get("nodeName") for each in pods}
    assert min(seen) >= 5
    await kubectl("uncordon", "node1")


@pytest.mark.parametrize(("cascade", "left"), [
    pytest.param("background", 0, id="background"),
    pytest.param("foreground", 0, id="foreground"),
    pytest.param("orphan", 2, id="orphan"),
])  # fmt: skip
async def test_deleting_with_and_without_dependents(kubectl: Kubectl, cascade: str, left: int) -> None:
    await kubectl("apply", "-f", "-", stdin=_deployment("web", 2))
    await kubectl("rollout", "status", "deployment/web", "--timeout=300s")
    await kubectl("delete", "deployment", "web", f"--cascade={cascade}", "--timeout=300s")
    if cascade == "foreground":  # kubectl has waited: everything is gone with it
        assert (await kubectl.get("pods"))["items"] == []
    elif cascade == "background":
        await kubectl("wait", "--for=delete", "pods", "-l", "app=web", "--timeout=300s")
    assert len((await kubectl.get("pods"))["items"]) == left


async def test_grace_periods(kubectl: Kubectl) -> None:
    for name in ("slow", "quick", "killed"):
        await kubectl("run", name, "--image=app")
        await kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    await kubectl("delete", "pod", "slow", "--wait=false")
    await kubectl("delete", "pod", "quick", "--grace-period=1", "--timeout=300s")
    await kubectl("delete", "pod", "killed", "--grace-period=0", "--force")
    (left,) = (await kubectl.get("pods"))["items"]
    assert left["metadata"]["name"] == "slow" and left["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_stateful_and_daemon_sets_roll_out(kubectl: Kubectl) -> None:
    base = json.loads(_deployment("db", 2))
    base["kind"], base["spec"]["serviceName"] = "StatefulSet", "db"
    await kubectl("apply", "-f", "-", stdin=json.dumps(base))
    await kubectl("rollout", "status", "statefulset/db", "--timeout=300s")
    agent = json.loads(_deployment("agent", 1))
    agent["kind"] = "DaemonSet"
    del agent["spec"]["replicas"]
    await kubectl("apply", "-f", "-", stdin=json.dumps(agent))
    assert "successfully rolled out" in await kubectl("rollout", "status", "daemonset/agent", "--timeout=300s")
    names = await kubectl("get", "pods", "-o", "name")
    assert "pod/db-0" in names and "pod/db-1" in names and names.count("pod/agent-") == 3
