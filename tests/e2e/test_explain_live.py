"""``mooring explain`` on a live cluster: read-only, for pods of any scheduler."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane

pytestmark = pytest.mark.e2e


def node(name: str, cpu: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}}


def pod(name: str, cpu: str, scheduler: str = "default-scheduler") -> dict[str, Any]:
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]}}


async def explain(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mooring",
        "explain",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> Any:
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
        for name, cpu in (("small", "1"), ("large", "4")):
            plane.api.create(NODES, "", node(name, cpu))
        plane.api.create(PODS, "default", pod("fits", "2"))
        plane.api.create(PODS, "default", pod("too-big", "5"))
        plane.api.create(PODS, "default", pod("somebody-elses", "2", "another-scheduler"))
        before = plane.store.rv
        yield str(plane.kubeconfig_path)
        assert plane.store.rv == before, "explaining wrote something"


async def test_a_pod_that_fits_and_one_that_does_not(kubeconfig: str) -> None:
    code, out, _ = await explain("default/fits", "--kubeconfig", kubeconfig, "-o", "json")
    assert (code, json.loads(out)["node"]) == (0, "large")
    code, out, _ = await explain("default/too-big", "--kubeconfig", kubeconfig)
    assert code == 1
    assert "0/2 nodes are available: 2 Insufficient cpu." in out
    assert "1 less CPU (4 instead of 5) on large" in out


async def test_a_pod_of_another_scheduler_is_explained_all_the_same(kubeconfig: str) -> None:
    code, out, err = await explain("default/somebody-elses", "--kubeconfig", kubeconfig)
    assert code == 0
    assert "default/somebody-elses goes to large" in out
    assert "is for another-scheduler; explained as default-scheduler would decide" in err


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param((), "expected one POD", id="no pod named"),
        pytest.param(("a", "--pod", "b"), "expected one POD", id="two pods named"),
        pytest.param(("a", "--cluster", "dump.yaml", "--context", "x"), "expected one of them", id="dump and cluster"),
        pytest.param(("default/x", "--kubeconfig", "/nowhere"), "No such file", id="no kubeconfig there"),
    ],
)
async def test_bad_usage_is_one_line(arguments: tuple[str, ...], want: str) -> None:
    code, out, err = await explain(*arguments)
    assert (code, out) == (2, "")
    assert want in err
    assert len(err.splitlines()) == 1
