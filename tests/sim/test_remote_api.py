"""A cluster's API over a client: a copy that follows, and writes whose answers come back into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mooring.api.clock import SystemClock
from mooring.controlplane.cluster.garbage import GarbageCollector
from mooring.controlplane.cluster.pod_sets import ReplicaSetController
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS
from mooring.controlplane.registry.groups.core import CONFIG_MAPS
from mooring.controlplane.registry.groups.workloads import REPLICA_SETS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.types.status import StatusError
from mooring.sim.backend import InProcessClient
from mooring.sim.remote_world import RemoteApi


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(use_tls=False, garbage_collection=False, faults=Faults())
    yield plane
    await plane.stop()


@pytest.fixture
async def remote(plane: ControlPlane) -> AsyncIterator[RemoteApi]:
    kinds = (NODES, PODS, NAMESPACES, CONFIG_MAPS, REPLICA_SETS)
    remote = RemoteApi(InProcessClient(plane), SystemClock(), kinds)
    await remote.start(10)
    yield remote
    await remote.stop()


async def do(remote: RemoteApi, work: object) -> None:
    answered = remote.carry_out(work)  # type: ignore[arg-type]
    assert answered is not None
    await asyncio.wait_for(answered, 300)


async def test_the_copy_has_what_was_there_before(plane: ControlPlane) -> None:
    plane.api.create(NODES, "", {"metadata": {"name": "a"}})
    remote = RemoteApi(InProcessClient(plane), SystemClock(), (NODES,))
    await remote.start(10)
    assert [entry.name for entry in remote.store.iterate(NODES)] == ["a"]
    await remote.stop()


async def test_a_creation_is_answered_into_the_copy(plane: ControlPlane, remote: RemoteApi) -> None:
    await do(remote, lambda: remote.create(NODES, "", {"metadata": {"name": "a"}}))
    assert remote.store.get(NODES, "", "a") is not None
    assert plane.store.get(NODES, "", "a") is not None


async def test_a_generated_name_is_made_here(plane: ControlPlane, remote: RemoteApi) -> None:
    made = []
    data = {"metadata": {"generateName": "web-"}}
    await do(remote, lambda: made.append(remote.create(CONFIG_MAPS, "default", data).name))
    assert made[0].startswith("web-") and len(made[0]) == len("web-") + 5
    assert plane.store.get(CONFIG_MAPS, "default", made[0]) is not None


async def test_a_status_goes_to_the_subresource(plane: ControlPlane, remote: RemoteApi) -> None:
    await do(remote, lambda: remote.create(NODES, "", {"metadata": {"name": "a"}}))

    def change(node: dict) -> None:
        node["metadata"].setdefault("labels", {})["x"] = "y"
        node.setdefault("status", {})["phase"] = "Running"

    await do(remote, lambda: remote.modify(NODES, "", "a", change, subresource="status"))
    node = plane.api.get(NODES, "", "a").object()
    assert node["status"]["phase"] == "Running"


async def test_nothing_is_sent_when_nothing_changes(plane: ControlPlane, remote: RemoteApi) -> None:
    await do(remote, lambda: remote.create(NODES, "", {"metadata": {"name": "a"}}))
    before = plane.store.rv
    assert remote.carry_out(lambda: remote.modify(NODES, "", "a", lambda node: None)) is None
    assert plane.store.rv == before


async def test_what_is_not_known_cannot_be_changed(remote: RemoteApi) -> None:
    with pytest.raises(StatusError) as refused:
        remote.modify(NODES, "", "nobody", lambda node: None)
    assert refused.value.code == 404
    with pytest.raises(StatusError):
        remote.delete(NODES, "", "nobody")


async def test_a_deletion_leaves_the_copy(plane: ControlPlane, remote: RemoteApi) -> None:
    await do(remote, lambda: remote.create(NODES, "", {"metadata": {"name": "a"}}))
    await do(remote, lambda: remote.delete(NODES, "", "a"))
    assert remote.store.get(NODES, "", "a") is None


async def test_a_refused_write_is_answered_too(plane: ControlPlane, remote: RemoteApi) -> None:
    assert plane.handlers.faults is not None
    plane.handlers.faults.add(FaultRule("error", "POST"))
    await do(remote, lambda: remote.create(NODES, "", {"metadata": {"name": "a"}}))
    assert remote.store.get(NODES, "", "a") is None


async def until(condition: object) -> None:
    for _ in range(60_000):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.005)
    raise AssertionError("what was waited for did not happen")


async def test_garbage_collection_empties_a_namespace_through_its_finalize_subresource(
    plane: ControlPlane, remote: RemoteApi
) -> None:
    plane.api.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    plane.api.create(CONFIG_MAPS, "team", {"metadata": {"name": "c"}})
    garbage = GarbageCollector(remote)
    garbage.start()
    task = asyncio.create_task(garbage.run())
    plane.api.delete(NAMESPACES, "", "team")
    await until(lambda: plane.store.get(NAMESPACES, "", "team") is None)
    assert plane.store.get(CONFIG_MAPS, "team", "c") is None
    task.cancel()
    garbage.stop()


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_garbage_collection_takes_finalizers_and_references_away(
    plane: ControlPlane, remote: RemoteApi, policy: str
) -> None:
    owner = plane.api.create(CONFIG_MAPS, "default", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid, "blockOwnerDeletion": True}
    plane.api.create(CONFIG_MAPS, "default", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    garbage = GarbageCollector(remote)
    garbage.start()
    task = asyncio.create_task(garbage.run())
    await until(lambda: remote.store.get(CONFIG_MAPS, "default", "owned") is not None)
    plane.api.delete(CONFIG_MAPS, "default", "owner", {"propagationPolicy": policy})
    await until(lambda: plane.store.get(CONFIG_MAPS, "default", "owner") is None)
    if policy == "Foreground":
        await until(lambda: plane.store.get(CONFIG_MAPS, "default", "owned") is None)
    else:
        await until(lambda: not plane.api.get(CONFIG_MAPS, "default", "owned").owners)
    task.cancel()
    garbage.stop()


async def test_a_controller_creates_nothing_twice_while_answers_are_slow(
    plane: ControlPlane, remote: RemoteApi
) -> None:
    assert plane.handlers.faults is not None
    plane.handlers.faults.add(FaultRule("delay", "POST", times=100, seconds=0.05))
    controller = ReplicaSetController(remote, asyncio.get_running_loop())
    controller.start()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    plane.api.create(REPLICA_SETS, "default", {"metadata": {"name": "web"}, "spec": spec})
    await until(lambda: plane.api.get(REPLICA_SETS, "default", "web").object()["status"].get("replicas") == 3)
    controller.stop()
    assert plane.store.count(PODS) == 3
