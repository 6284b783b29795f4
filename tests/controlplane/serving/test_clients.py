"""Other people's clients: the official Python client, and protocol buffer bodies as kube-scheduler sends them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.types import protobuf

from ..conftest import Http, make_node, make_pod

kubernetes = pytest.importorskip("kubernetes")


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig", also_plain=True) as running:
        yield running


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the client leaves its connections to the garbage collector
async def test_the_official_client_creates_lists_watches_and_binds(plane: ControlPlane) -> None:
    def drive() -> list[tuple[str, str, str | None]]:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(plane.kubeconfig_path), client_configuration=configuration)
        with kubernetes.client.ApiClient(configuration) as client:
            core = kubernetes.client.CoreV1Api(client)
            core.create_node(make_node("n1"))
            core.create_namespaced_pod("default", make_pod("web"))
            listed = core.list_pod_for_all_namespaces()
            assert [pod.metadata.name for pod in listed.items] == ["web"]
            body = kubernetes.client.V1Binding(
                metadata=kubernetes.client.V1ObjectMeta(name="web"),
                target=kubernetes.client.V1ObjectReference(kind="Node", name="n1"),
            )
            core.create_namespaced_pod_binding("web", "default", body, _preload_content=False)
            core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"x": "y"}}})
            core.delete_namespaced_pod("web", "default", grace_period_seconds=0)
            watcher = kubernetes.watch.Watch()
            version = listed.metadata.resource_version
            found = []
            for event in watcher.stream(core.list_pod_for_all_namespaces, resource_version=version, timeout_seconds=20):
                found.append((event["type"], event["object"].metadata.name, event["object"].spec.node_name))
                if event["type"] == "DELETED":
                    watcher.stop()
            with pytest.raises(kubernetes.client.ApiException) as missing:
                core.read_namespaced_pod("web", "default")
            assert missing.value.status == 404
            return found

    events = await asyncio.wait_for(asyncio.to_thread(drive), 60)
    gc.collect()
    assert events == [("MODIFIED", "web", "n1"), ("MODIFIED", "web", "n1"), ("DELETED", "web", "n1")]


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return protobuf.MAGIC + _field(1, type_meta) + _field(2, raw)


async def test_a_binding_in_protobuf_is_understood(plane: ControlPlane) -> None:
    plane.api.create(PODS, "default", make_pod("web"))
    uid = plane.api.get(PODS, "default", "web").uid
    metadata = _field(1, b"web") + _field(3, b"default") + _field(5, uid.encode())
    target = _field(1, b"Node") + _field(3, b"n1")
    body = _envelope("v1", "Binding", _field(1, metadata) + _field(2, target))
    headers = {"Authorization": f"Bearer {plane.token}", "Accept": "application/vnd.kubernetes.protobuf, */*"}
    async with aiohttp.ClientSession(headers=headers) as session:
        http = Http(session, plane.plain_url)
        path = "/api/v1/namespaces/default/pods/web/binding"
        code, answer = await http("POST", path, body, "application/vnd.kubernetes.protobuf")
    assert (code, answer["status"]) == (201, "Success")
    assert plane.api.get(PODS, "default", "web").object()["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(
            _envelope(
                "events.k8s.io/v1",
                "Event",
                _field(1, _field(1, b"e") + _field(3, b"default"))
                + _field(2, _field(1, 1_700_000_000) + _field(2, 5_000))
                + _field(3, _field(1, 2) + _field(2, _field(1, 1_700_000_001)))
                + _field(10, b"note"),
            ),
            {
                "kind": "Event",
                "apiVersion": "events.k8s.io/v1",
                "metadata": {"name": "e", "namespace": "default"},
                "eventTime": "2023-11-14T22:13:20.000005Z",
                "series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:21.000000Z"},
                "note": "note",
            },
            id="an event with times and a series",
        ),
        pytest.param(
            _envelope(
                "v1",
                "PersistentVolume",
                _field(1, _field(11, _field(1, b"k") + _field(2, b"v")))
                + _field(
                    2,
                    _field(1, _field(1, b"storage") + _field(2, _field(1, b"1Gi")))
                    + _field(2, _field(3, _field(1, b"/x"))),
                ),
            ),
            {
                "kind": "PersistentVolume",
                "apiVersion": "v1",
                "metadata": {"labels": {"k": "v"}},
                "spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
            },
            id="maps, quantities and an embedded source",
        ),
    ],
)
def test_protobuf_reads_as_json(raw: bytes, want: dict[str, Any]) -> None:
    assert json.loads(protobuf.to_json(raw)) == want
