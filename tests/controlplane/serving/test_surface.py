"""What is served and how it reads: discovery, OpenAPI, tables, selectors, quantities, ages."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest

from mooring.api.times import human_duration
from mooring.controlplane.registry.catalog import KINDS, PODS, STORED, by_resource, group_versions
from mooring.controlplane.registry.columns import columns_of
from mooring.controlplane.registry.pod_columns import pod_ready, pod_status
from mooring.controlplane.registry.verbs import _random_uid
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving import discovery, openapi
from mooring.controlplane.storage import selectors
from mooring.controlplane.types import quantities, schema
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError

from ..conftest import Http, make_pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_legacy_and_aggregated_discovery_agree() -> None:
    aggregated = {
        (group["metadata"]["name"], version["version"], resource["resource"]): resource["responseKind"]["kind"]
        for core in (True, False)
        for group in discovery.aggregated(core)["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    legacy = {}
    for group, version in group_versions():
        found = discovery.resources(group, version)
        assert found is not None
        for resource in found["resources"]:
            if "/" not in resource["name"]:
                legacy[(group, version, resource["name"])] = resource["kind"]
    assert aggregated == legacy == {(kind.group, kind.version, kind.plural): kind.kind for kind in KINDS}


@pytest.mark.parametrize("group_version", group_versions(), ids=lambda gv: "/".join(gv).strip("/"))
def test_every_reference_of_an_openapi_document_resolves(group_version: tuple[str, str]) -> None:
    group, version = group_version
    raw = openapi.document(f"/openapi/v3/{'apis/' + group if group else 'api'}/{version}")
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
def test_every_parameter_in_a_path_is_declared(group_version: tuple[str, str]) -> None:
    group, version = group_version
    raw = openapi.document(f"/openapi/v3/{'apis/' + group if group else 'api'}/{version}")
    assert raw is not None
    for path, item in json.loads(raw)["paths"].items():
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


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (183, "3m3s"), (600, "10m"), (10799, "179m"),
        (10800, "3h"), (12000, "3h20m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (190000, "2d4h"),
        (691200, "8d"), (63072000, "2y"), (66960000, "2y45d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_ages_read_as_kubectl_prints_them(seconds: float, want: str) -> None:
    assert human_duration(seconds) == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1500m", "1500m"), ("1024Mi", "1Gi"), ("0.5Gi", "512Mi"),
        ("1536Mi", "1536Mi"), ("1000", "1k"), ("1e3", "1e3"), ("1000Ki", "1000Ki"), ("100Mi", "100Mi"), ("0", "0"),
        (2, "2"), ("1M", "1M"),
        ("0.0001", "100u"), ("12000k", "12M"), ("1.5Ki", "1536"), ("512", "512"), ("-1", "-1"),
    ],
)  # fmt: skip
def test_quantities_are_stored_in_canonical_form(given: str | int, want: str) -> None:
    assert quantities.canonical(given) == want


@pytest.mark.parametrize("text", ["", "1x", "abc", "1 Gi", "--1"])
def test_what_is_not_a_quantity_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        quantities.canonical(text)
    assert refused.value.code == 400


LABELS = {"app": "web", "tier": "front", "count": "5"}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("app=web", True), ("app==web", True), ("app!=web", False), ("app", True), ("!app", False), ("!zone", True),
        ("app in (web,db)", True), ("app notin (web)", False), ("zone notin (a)", True), ("zone!=a", True),
        ("app=web,tier=front", True), ("app=web,tier=back", False), ("count>4", True), ("count<5", False),
        ("", True), (" app = web , tier ", True), ("app in ()", False), ("app=", False),
    ],
)  # fmt: skip
def test_label_selectors(selector: str, want: bool) -> None:
    assert selectors.parse_labels(selector).matches(LABELS) is want


@pytest.mark.parametrize(
    "selector", ["app in web", "=web", "a b", "app in (a", "a=b=c", "count>x", "a,,b", "a=b,", "/x", "a=é"]
)
def test_selectors_that_make_no_sense(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_labels(selector)
    assert refused.value.code == 400


def test_field_selectors_know_their_kind() -> None:
    supported = PODS.field_names()
    found = selectors.parse_fields(r"metadata.name=a\,b,spec.nodeName!=n", supported, "Pod")
    assert found.terms == (("metadata.name", True, "a,b"), ("spec.nodeName", False, "n"))
    with pytest.raises(StatusError):
        selectors.parse_fields("spec.nodeName=n", by_resource("configmaps").field_names(), "ConfigMap")


def test_fields_of_events_are_selectable_though_the_store_does_not_keep_them() -> None:
    plane = ControlPlane(use_tls=False)
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "p", "kind": "Pod"}, "reason": "Scheduled"}
    entry = plane.api.create(by_resource("events"), "default", event)
    assert entry.fields is None
    assert [entry.field(name) for name in ("involvedObject.name", "reason", "metadata.name", "involvedObject.uid")] == [
        "p",
        "Scheduled",
        "e",
        "",
    ]


def test_uids_are_random_uuids() -> None:
    uids = {uuid.UUID(_random_uid()) for _ in range(100)}
    assert len(uids) == 100
    assert all(uid.version == 4 and uid.variant == uuid.RFC_4122 for uid in uids)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": None, "labels": {"a": None}}, "spec": None}, id="fields and map values"),
        pytest.param({"spec": {"containers": [None, {"name": "c", "args": [None, "x"]}]}}, id="items of lists"),
        pytest.param({"spec": {"containers": [{"resources": {"limits": {"cpu": None}}}]}}, id="a quantity"),
        pytest.param({"metadata": {"managedFields": [{"fieldsV1": {"f:a": None}}]}}, id="free form is left alone"),
        pytest.param({"metadata": {"annotations": {"a": "null"}}}, id="only a word"),
    ],
)
def test_nulls_are_dropped_as_the_long_way_drops_them(body: dict[str, Any]) -> None:
    encoded = json.dumps(body).encode()
    quick, unknown = schema.decode("core.v1.Pod", encoded, "Pod", "v1")
    slow = json.loads(encoded)
    assert unknown == schema.normalize("core.v1.Pod", slow, "Pod", "v1") == []
    assert quick == slow


def test_objects_made_in_the_process_need_no_type_and_stay_the_servers() -> None:
    plane = ControlPlane(use_tls=False)
    labels = {"a": "b"}
    made = plane.api.create(by_resource("configmaps"), "default", {"metadata": {"name": "c", "labels": labels}})
    labels["a"] = "changed"
    assert (made.object()["kind"], made.object()["apiVersion"], dict(made.labels)) == ("ConfigMap", "v1", {"a": "b"})
    assert [obj["metadata"]["name"] for obj in plane.api.objects(by_resource("configmaps"), labels="a=b")] == ["c"]
