"""What is served and how it reads: discovery, OpenAPI, tables, selectors, quantities, ages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import KINDS, PODS, STORED, group_versions
from mooring.controlplane.registry.columns import columns_of, pod_ready, pod_status
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving import discovery as openapi
from mooring.controlplane.serving.discovery import Discovery
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind

from ..conftest import Http, make_pod

SERVED = Discovery()
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_legacy_and_aggregated_discovery_agree() -> None:
    aggregated = {
        (group["metadata"]["name"], version["version"], resource["resource"]): resource["responseKind"]["kind"]
        for core in (True, False)
        for group in SERVED.aggregated(core)["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    legacy = {}
    for group, version in group_versions():
        found = SERVED.resources(group, version)
        assert found is not None
        for resource in found["resources"]:
            if "/" not in resource["name"]:
                legacy[(group, version, resource["name"])] = resource["kind"]
    assert aggregated == legacy == {(kind.group, kind.version, kind.plural): kind.kind for kind in KINDS}


@pytest.mark.parametrize("group_version", group_versions(), ids=lambda gv: "/".join(gv).strip("/"))
def test_every_reference_of_an_openapi_document_resolves(group_version: tuple[str, str]) -> None:
    group, version = group_version
    raw = SERVED.document(f"/openapi/v3/{'apis/' + group if group else 'api'}/{version}")
    assert raw is not None
    document = json.loads(raw)
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if "$ref" in node else set()
            return own.union(*(references(value) for value in node.values())) if node else own
        return set().union(*(references(value) for value in node)) if isinstance(node, list) and node else set()

    assert references(document) <= names
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == group_version]
    described = {
        gvk["kind"]
        for s in document["components"]["schemas"].values()
        for gvk in s.get("x-kubernetes-group-version-kind", ())
    }
    assert described == {kind.kind for kind in kinds}


@pytest.mark.parametrize("group_version", group_versions(), ids=lambda gv: "/".join(gv).strip("/"))
def test_paths_have_the_methods_of_their_kind_and_declare_their_parameters(group_version: tuple[str, str]) -> None:
    group, version = group_version
    raw = SERVED.document(f"/openapi/v3/{'apis/' + group if group else 'api'}/{version}")
    assert raw is not None
    paths = json.loads(raw)["paths"]
    for kind in (kind for kind in KINDS if (kind.group, kind.version) == group_version):
        collection = openapi._path(kind)
        is_review = kind.verbs == ("create",)
        assert paths[collection].keys() - {"parameters"} == ({"post"} if is_review else {"get", "post"})
        assert (f"{collection}/{{name}}" in paths) is not is_review
    for path, item in paths.items():
        declared = {each["name"] for each in item.get("parameters", ()) if each["in"] == "path" and each["required"]}
        assert declared == set(re.findall(r"{(\w+)}", path)), path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_every_kind_has_types_and_decodes_an_empty_object(kind: Kind) -> None:
    assert schema.decode(kind.type_name, b"{}", kind.kind, kind.version) == ({}, [])
    assert "metadata" in schema.types()[kind.type_name].fields


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.resource)
def test_every_table_copes_with_a_bare_object(kind: Kind) -> None:
    bare = {"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    cells = [column.cell(bare, 0.0) for column in columns_of(kind)]
    assert "x" in cells and json.dumps(cells)


async def test_a_table_of_pods_has_rows_with_metadata(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod())
    code, table = await http("GET", "/api/v1/pods", Accept=TABLE)
    assert (code, table["kind"]) == (200, "Table")
    (row,) = table["rows"]
    assert row["cells"][:4] == ["web", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata" and row["object"]["metadata"]["name"] == "web"
    _, none = await http("GET", "/api/v1/pods?includeObject=None", Accept=TABLE)
    assert "object" not in none["rows"][0]
    _, partial = await http(
        "GET", "/api/v1/pods", Accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    )
    assert partial["kind"] == "PartialObjectMetadataList" and "spec" not in partial["items"][0]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"phase": "Pending"}, ("0/2", "Pending"), id="pending"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, ("0/2", "Evicted"), id="a reason beats the phase"),
        pytest.param(
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ("0/2", "SchedulingGated"),
            id="gated",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [
                    {"ready": True, "state": {"running": {}}},
                    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                ],
            },
            ("1/2", "CrashLoopBackOff"),
            id="one container crashes",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]},
            ("0/2", "Init:0/1"),
            id="initialising",
        ),
        pytest.param(
            {
                "phase": "Succeeded",
                "containerStatuses": [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
            },
            ("0/2", "Completed"),
            id="completed",
        ),
    ],
)
def test_a_pods_status_in_words(status: dict[str, Any], want: tuple[str, str]) -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}
    pod = {"metadata": {}, "spec": spec, "status": status}
    assert (pod_ready(pod, 0), pod_status(pod, 0)) == want
    pod["metadata"] = {"deletionTimestamp": "x"}
    assert pod_status(pod, 0) == (want[1] if status["phase"] in ("Succeeded", "Failed") else "Terminating")
