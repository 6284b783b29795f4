"""The control plane speaks as the chosen version of Kubernetes: its name, its kinds, and the fields of its objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.requests import ApiRequest
from mooring.core.config.versions import V1_34, V1_35, V1_36, V1_37, KubernetesVersion

GROUPS = "scheduling.k8s.io/v1beta1"


async def ask(plane: ControlPlane, path: str, body: Any = None) -> tuple[int, Any, list[str]]:
    """Status, answer and warnings of a GET, or of a POST with a body."""
    headers = {"Authorization": f"Bearer {plane.access.admin_token}", "Content-Type": "application/json"}
    raw = json.dumps(body).encode() if body is not None else b""
    reply: Any = await plane.handlers.answer(ApiRequest("POST" if raw else "GET", path, headers, raw))
    warnings = [value for name, value in reply.headers if name == "Warning"]
    return reply.code, json.loads(reply.body), warnings


@pytest.mark.parametrize("version", [V1_34, V1_35, V1_36, V1_37], ids=str)
async def test_what_a_version_says_of_itself(version: KubernetesVersion) -> None:
    plane = ControlPlane(version=version)
    code, said, _ = await ask(plane, "/version")
    assert (code, said["minor"], said["gitVersion"]) == (200, str(version.minor), f"{version.tag}+mooring")
    has_groups = version.minor >= 37
    served = {each["groupVersion"] for group in (await ask(plane, "/apis"))[1]["groups"] for each in group["versions"]}
    assert (GROUPS in served) == has_groups
    assert ((await ask(plane, f"/apis/{GROUPS}/podgroups"))[0] == 200) == has_groups
    rules = (await ask(plane, "/apis/resource.k8s.io/v1/devicetaintrules"))[0]
    assert (rules == 200) == has_groups
    assert (await ask(plane, "/apis/resource.k8s.io/v1/resourceslices"))[0] == 200


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}},
}


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        pytest.param(V1_35, ['299 - "unknown field \\"spec.schedulingGroup\\""'], id="1.35 has no such field"),
        pytest.param(V1_36, [], id="1.36 has it"),
    ],
)
async def test_fields_of_later_versions_are_dropped_with_a_warning(
    version: KubernetesVersion, warned: list[str]
) -> None:
    plane = ControlPlane(version=version)
    code, stored, warnings = await ask(plane, "/api/v1/namespaces/default/pods?fieldValidation=Warn", POD)
    assert (code, warnings) == (201, warned)
    assert ("schedulingGroup" in stored["spec"]) == (not warned)
    document = (await ask(plane, "/openapi/v3/api/v1"))[1]
    described = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert ("schedulingGroup" in described) == (not warned)


@pytest.mark.parametrize(
    ("version", "labels"),
    [pytest.param(V1_34, {}, id="1.34"), pytest.param(V1_35, {"topology.kubernetes.io/zone": "a"}, id="1.35")],
)
async def test_since_1_35_a_bound_pod_has_its_nodes_zone(version: KubernetesVersion, labels: dict[str, str]) -> None:
    plane = ControlPlane(version=version)
    zone = {"topology.kubernetes.io/zone": "a"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": zone}}
    await ask(plane, "/api/v1/nodes", node)
    pod = {**POD, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    _, stored, _ = await ask(plane, "/api/v1/namespaces/default/pods", pod)
    assert stored["metadata"].get("labels", {}) == labels
