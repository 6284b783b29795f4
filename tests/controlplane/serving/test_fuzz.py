"""Malformed requests of every kind: always a Status below 500, never a hang, never somebody else's data."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.controlplane.registry.catalog import KINDS
from mooring.controlplane.server import ControlPlane

from ..conftest import make_node, make_pod

PATHS = [
    *(f"/apis/{kind.group}/v1" if kind.group else "/api/v1" for kind in KINDS),
    *(
        (f"/apis/{kind.group}/v1" if kind.group else "/api/v1")
        + ("/namespaces/default/" if kind.is_namespaced else "/")
        + kind.plural
        for kind in KINDS
    ),
]
SEGMENTS = st.sampled_from(
    [
        "",
        "web",
        "node-1",
        "default",
        "status",
        "scale",
        "binding",
        "eviction",
        "finalize",
        "token",
        "watch",
        "%2e%2e",
        "%ff",
    ]
) | st.text(alphabet="abc/%?#\\. \x00é😀", max_size=8)
PARAMETERS = st.dictionaries(
    st.sampled_from(
        [
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "gracePeriodSeconds",
            "propagationPolicy",
            "orphanDependents",
            "includeObject",
        ]
    ),
    st.sampled_from(
        ["", "true", "All", "Strict", "-1", "0", "1", "99999999999999999999", "a=b", "a in (b", "!!", "a,,b", "x" * 300]
    )
    | st.text(max_size=12),
    max_size=4,
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.text(max_size=6)
KEYS = st.sampled_from(
    [
        "metadata", "spec", "status", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences",
        "uid", "resourceVersion", "containers", "resources", "requests", "limits", "cpu", "tolerations", "affinity",
        "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "matchExpressions",
        "topologySpreadConstraints", "replicas", "template", "selector", "matchLabels", "capacity", "allocatable",
        "conditions", "type", "value", "target", "deleteOptions", "gracePeriodSeconds", "preconditions", "token",
        "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "op", "path",
        "from", "data", "stringData", "rules", "roleRef", "devices", "exactly", "image", "ports", "volumes", "kind",
        "apiVersion", "creationTimestamp", "priority", "taints", "schedulingGates", "initContainers",
    ]
)  # fmt: skip
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "zap"])},
        optional={
            "path": st.sampled_from(
                ["", "/", "/spec", "/spec/containers/0", "/spec/containers/-", "/metadata/name", "x"]
            ),
            "from": st.sampled_from(["/spec", "/metadata/labels", ""]),
            "value": JSON,
        },
    ),
    max_size=3,
)
BODIES = st.binary(max_size=30) | (JSON | OPERATIONS).map(lambda value: json.dumps(value).encode())
CONTENT_TYPES = st.sampled_from(
    [
        "application/json",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/csv",
        "",
    ]
)
ACCEPTS = st.sampled_from(
    ["", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", "*/*;q"]
)


def _mutate(base: dict[str, Any], key: str, value: Any) -> bytes:
    obj = json.loads(json.dumps(base))
    obj.setdefault("spec", {})[key] = value
    return json.dumps(obj).encode()


TEMPLATED = st.builds(_mutate, st.sampled_from([make_pod(), make_node()]), KEYS, JSON)


async def _drive(examples: list[tuple[str, str, dict[str, str], bytes, str, str]]) -> None:
    async with ControlPlane(use_tls=False) as plane:
        headers = {"Authorization": f"Bearer {plane.token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            for method, path, parameters, body, content_type, accept in examples:
                sent = {"Content-Type": content_type, "Accept": accept}
                async with asyncio.timeout(10):
                    async with session.request(
                        method, plane.url + path, params=parameters, data=body, headers=sent
                    ) as response:
                        text = await response.read()
                assert response.status < 500 or response.status == 504, (method, path, parameters, body, text[:500])
                if response.status >= 400 and response.content_type == "application/json":
                    status = json.loads(text)
                    assert status["kind"] == "Status" and status["code"] == response.status


REQUESTS = st.tuples(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    st.builds(
        lambda base, rest: base + "".join("/" + part for part in rest),
        st.sampled_from(PATHS),
        st.lists(SEGMENTS, max_size=3),
    ),
    PARAMETERS,
    BODIES | TEMPLATED,
    CONTENT_TYPES,
    ACCEPTS,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(REQUESTS, min_size=10, max_size=40))
def test_nothing_a_client_sends_is_our_mistake(examples: list[Any]) -> None:
    asyncio.run(_drive(examples))


@pytest.mark.parametrize("content_type", ["application/json-patch+json", "application/strategic-merge-patch+json"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bodies=st.lists(BODIES, min_size=5, max_size=20))
def test_patches_of_an_existing_pod_never_break_it(content_type: str, bodies: list[bytes]) -> None:
    path = "/api/v1/namespaces/default/pods/web"
    create = ("POST", "/api/v1/namespaces/default/pods", {}, json.dumps(make_pod()).encode(), "application/json", "")
    patches = [("PATCH", path, {}, body, content_type, "") for body in bodies]
    asyncio.run(_drive([create, *patches, ("GET", path, {}, b"", "", "")]))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"GET /api/v1/pods\r\n\r\n", id="no version"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="a TLS hello"),
        pytest.param(b"POST /api/v1/nodes HTTP/1.1\r\nContent-Length: -5\r\n\r\n", id="a negative length"),
        pytest.param(b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", id="an endless path"),
    ],
)
async def test_what_is_not_http_is_refused(plane: ControlPlane, raw: bytes) -> None:
    host, port = plane.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
