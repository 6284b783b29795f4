"""sample-scheduler.yaml and test-scheduler.yaml tell the story they promise: the pod waits for a label on a node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.server import ControlPlane
from mooring.live.flags import parse_flags
from mooring.live.process import SchedulerProcess
from mooring.live.settings import load_settings
from mooring.net.kubeconfig import load_kubeconfig

pytestmark = pytest.mark.e2e


async def test_the_pod_waits_until_a_node_is_labelled(manifests, tmp_path):
    sample = {o["kind"]: o for o in manifests("sample-scheduler.yaml")}
    (test,) = manifests("test-scheduler.yaml")
    kubeconfig = tmp_path / "kubeconfig"
    for name, text in sample["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump({**yaml.safe_load(config.read_text()), "clientConnection": {"kubeconfig": str(kubeconfig)}})
    )
    arguments = [
        a.replace("/etc/mooring", str(tmp_path))
        for a in sample["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    ]
    arguments = [a for a in arguments[1:] if not a.startswith("--bind-address")] + ["--secure-port=0"]
    async with ControlPlane(kubeconfig_path=kubeconfig) as plane:
        amounts = {"cpu": "2", "memory": "4Gi", "pods": "20"}
        for name in ("gpu02", "gpu03"):
            status = {"capacity": amounts, "allocatable": amounts}
            plane.api.create(
                NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
            )
        template = test["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "test-scheduler", **template["metadata"]},
            "spec": template["spec"],
        }
        plane.api.create(PODS, "default", pod)
        settings = load_settings(parse_flags(arguments))
        process = SchedulerProcess(settings, lambda: load_kubeconfig([str(kubeconfig)]))
        task = asyncio.create_task(process.run(signals=False))

        async def until(check: Any) -> Any:
            async with asyncio.timeout(300):
                while not (found := check()):
                    assert not task.done(), task
                    await asyncio.sleep(0.02)
                return found

        def event(reason: str) -> str:
            events = plane.api.objects(by_resource("events.events.k8s.io"), "default")
            return next((e["note"] for e in events if e["reason"] == reason), "")

        try:
            note = await until(lambda: event("FailedScheduling"))
            assert note.startswith("0/2 nodes are available: 1 Node: gpu02, 1 Node: gpu03.")
            plane.api.modify(NODES, "", "gpu02", lambda o: o["metadata"].update(labels={"cpu": "true"}))
            assert await until(lambda: event("Scheduled")) == "Successfully assigned default/test-scheduler to gpu02"
        finally:
            process.stop()
            assert await asyncio.wait_for(task, 60) == 0
