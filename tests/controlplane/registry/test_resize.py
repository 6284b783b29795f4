"""The resize subresource: containers' resources change, everything else stays."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.subresources import bind_pod
from mooring.controlplane.registry.verbs import Options
from mooring.controlplane.server import ControlPlane


def make_pod(**requests: str) -> dict[str, Any]:
    container = {"name": "app", "image": "pause", "resources": {"requests": requests}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}


def decoded(plane: ControlPlane, pod: dict[str, Any]) -> dict[str, Any]:
    return plane.api.decode(PODS, msgspec.json.encode(pod), Options())


def test_a_resize_changes_requests_of_a_bound_pod_and_nothing_else() -> None:
    plane = ControlPlane(use_tls=False)
    pod = make_pod(cpu="1", memory="1Gi")
    pod["metadata"]["labels"] = {"app": "web"}
    plane.api.create(PODS, "default", decoded(plane, pod))
    before = bind_pod(plane.api, "default", "web", "node-a").object()

    smaller = make_pod(cpu="0.5", memory="1Gi")
    smaller["spec"]["containers"][0]["image"] = "another"
    entry, _ = plane.api.update(PODS, "default", "web", decoded(plane, smaller), subresource="resize")

    after = entry.object()
    assert after["spec"]["containers"][0].pop("resources") == {"requests": {"cpu": "500m", "memory": "1Gi"}}
    before["spec"]["containers"][0].pop("resources")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == {"app": "web"}
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["status"] == before["status"]
