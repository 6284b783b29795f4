"""Objects of a workload over the API: paths, many of them concurrently, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

import pytest

from mooring.api.errors import ApiError
from mooring.bench.perf import templates as objects
from mooring.bench.perf.templates import (
    CLAIMS,
    POD_CLAIM_NAME,
    TEMPLATES,
    ClaimController,
    New,
    collection_path,
    leave_as_found,
    list_objects,
    many,
    object_path,
)
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS, by_resource
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.types.kind import Kind
from mooring.net.rest import RestClient
from mooring.sim.backend import InProcessClient
from mooring.sim.objects import node, pod

DEPLOYMENTS = by_resource("deployments.apps")


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        pytest.param(PODS, "a", "/api/v1/namespaces/a/pods", id="pods of a namespace"),
        pytest.param(PODS, "", "/api/v1/pods", id="pods of all"),
        pytest.param(NODES, "a", "/api/v1/nodes", id="nodes have none"),
        pytest.param(DEPLOYMENTS, "a b", "/apis/apps/v1/namespaces/a%20b/deployments", id="another group"),
    ],
)
def test_where_objects_are(kind: Kind, namespace: str, path: str) -> None:
    assert collection_path(kind, namespace) == path
    assert object_path(kind, namespace, "x/y") == f"{path}/x/y"
    assert object_path(kind, namespace, "x", "status") == f"{path}/x/status"


async def test_workers_share_a_source() -> None:
    seen: list[tuple[int, int]] = []
    numbers = iter(range(2))

    async def work(source: Iterator[int]) -> None:
        me = next(numbers)
        for each in source:
            seen.append((me, each))
            await asyncio.sleep(0)

    await many(work, iter(range(6)), workers=2)
    assert sorted(each for _, each in seen) == list(range(6))
    assert {me for me, _ in seen} == {0, 1}


async def test_the_first_failure_ends_all() -> None:
    done: list[int] = []

    async def work(source: Iterator[int]) -> None:
        for each in source:
            await asyncio.sleep(0)
            if each == 1:
                raise ApiError("no more")
            done.append(each)

    with pytest.raises(ApiError, match="no more"):
        await many(work, iter(range(1000)), workers=2)
    assert len(done) < 10


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(use_tls=False, garbage_collection=False)  # it does not listen
    yield plane
    await plane.stop()


@pytest.fixture
def client(plane: ControlPlane) -> RestClient:
    return InProcessClient(plane, agent="tester")


def new(kind: Kind, namespace: str, value: dict[str, Any]) -> New:
    return New(kind, namespace, json.dumps(value).encode())


async def test_what_was_made_is_gone_and_the_rest_is_not(
    plane: ControlPlane, client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what finalizers hold, and namespaces where no controller empties them."""
    monkeypatch.setattr(objects, "NAMESPACE_S", 0.4)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
    held = node("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made = [
        new(NAMESPACES, "", namespace),
        new(NODES, "", node("n")),
        new(NODES, "", held),
        new(PODS, "mine", pod("p", namespace="mine")),
        new(PODS, "mine", pod("gone", namespace="mine")),
    ]
    for each in made[:-1]:
        await client.create(collection_path(each.kind, each.namespace), each.body)
    plane.api.create(NODES, "", node("theirs"))
    await leave_as_found(client, made, workers=2)
    assert [entry.name for entry in plane.store.iterate(NODES)] == ["theirs"]
    assert plane.store.count(PODS) == 0
    assert plane.store.get(NAMESPACES, "", "mine") is None


async def test_objects_are_listed_by_namespace_and_label(client: RestClient) -> None:
    for each in (pod("a", labels={"x": "1"}), pod("b")):
        await client.create(collection_path(PODS, "default"), json.dumps(each).encode())
    assert len(await list_objects(client, PODS, "default")) == 2
    (found,) = await list_objects(client, PODS, "default", "x=1")
    assert found["metadata"]["name"] == "a"


async def test_an_answer_that_is_not_a_list_is_reported() -> None:
    class Odd:
        async def get(self, path: str, query: object) -> Any:
            return type("Answer", (), {"body": b"[]"})()

    with pytest.raises(ApiError, match="pods: the answer is not a list"):
        await list_objects(Odd(), PODS, "default")  # type: ignore[arg-type]


# ---- claims of pods ----------------------------------------------------------------------------------------------

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": []}}},
}


@pytest.fixture
async def claims(plane: ControlPlane) -> AsyncIterator[ClaimController]:
    controller = ClaimController(plane.api)
    controller.start()
    yield controller
    await controller.stop()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_pod_gets_its_claim_and_gives_it_back(plane: ControlPlane, claims: ClaimController) -> None:
    plane.api.create(TEMPLATES, "default", deepcopy(TEMPLATE))
    wants = [{"name": "gpu", "resourceClaimTemplateName": "one"}, {"name": "own", "resourceClaimName": "mine"}]
    plane.api.create(PODS, "default", pod("p", resourceClaims=wants))
    await settle()
    (claim,) = plane.store.iterate(CLAIMS)
    made = claim.object()["metadata"]
    assert claim.name.startswith("p-gpu-")
    assert (made["labels"], made["annotations"][POD_CLAIM_NAME]) == ({"a": "b"}, "gpu")
    statuses = plane.api.get(PODS, "default", "p").object()["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": claim.name}]
    plane.api.delete(PODS, "default", "p", {"gracePeriodSeconds": 0})
    await settle()
    assert plane.store.count(CLAIMS) == 0


async def test_a_template_that_is_not_there_is_no_reason_to_stop(plane: ControlPlane, claims: ClaimController) -> None:
    wants = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    plane.api.create(PODS, "default", pod("early", resourceClaims=wants))
    plane.api.create(PODS, "default", pod("plain"))
    await settle()
    assert plane.store.count(CLAIMS) == 0
    plane.api.create(TEMPLATES, "default", deepcopy(TEMPLATE))
    plane.api.create(PODS, "default", pod("late", resourceClaims=wants))
    await settle()
    assert plane.store.count(CLAIMS) == 1
