"""Malformed requests of every kind: always a Status below 500, never a hang, never data of another request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.controlplane.registry.catalog import KINDS, NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.listing import WatchStream
from mooring.controlplane.serving.requests import ApiRequest

from ..conftest import Http, make_node, make_pod

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
                async with asyncio.timeout(300):
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


# Without a socket: headers, targets and field names that no HTTP client would send, straight to the handlers

ODD = st.text(alphabet='\r\n\t\x00\x7f"\\;,=/ aé😀\ud800', max_size=6) | st.sampled_from(
    ["\r\nX-Injected: 1", "a" * 500]
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Accept": ACCEPTS | ODD,
        "Content-Type": CONTENT_TYPES | ODD,
        "User-Agent": ODD,
        "Host": ODD,
    },
)
FIELD_NAMES = KEYS | ODD
ODD_JSON = st.recursive(
    SCALARS | st.sampled_from(["9" * 5000, "1e999999999", "-0", "0x10", 10**300, "٣", "²", "5%", "²%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD_NAMES, inner, max_size=4),
    max_leaves=10,
)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


ODD_BODIES = ODD_JSON.map(_json_bytes) | st.builds(_mutate, st.sampled_from([make_pod(), make_node()]), KEYS, JSON)
YAML_BODIES = st.lists(
    st.sampled_from(
        ["apiVersion: v1\n", "kind: Pod\n", "metadata:\n", "  name: web\n", "spec: ", "[", "]", "{", "}", "&a ", "*a",
         "<<: ", "- ", "\n", "? ", "!!binary ", "\t", "\ufeff", "'", "#", "|\n", "1e999", "0o7", "2001-01-01"]
    )
    | st.text(max_size=3),
    max_size=14,
).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))  # fmt: skip
TARGETS = st.builds(
    lambda path, query: path + ("?" + query if query else ""),
    st.sampled_from(
        [
            "/api/v1/namespaces/default/pods/web",
            "/api/v1/namespaces/default/pods/web/status",
            "/api/v1/namespaces/default/pods",
            "/api/v1/nodes/node-1",
            "/api/v1/nodes",
            "/apis/apps/v1/namespaces/default/deployments/web",
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "/api/v1/namespaces/default/pods/web/eviction",
            "/api/v1/namespaces/default/pods/web/binding",
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            ["fieldManager", "force", "dryRun", "fieldValidation", "gracePeriodSeconds", "limit", "continue", "watch",
             "resourceVersion", "fieldSelector", "labelSelector", "timeoutSeconds", "propagationPolicy"]
        ),
        st.sampled_from(["x", "true", "All", "Strict", "9" * 18, "-" + "9" * 17, "²", "١", "%00", "%FF", "a%0D%0A"])
        | st.text(alphabet="ab,=!()<>\\%&; 09²", max_size=8),
        max_size=3,
    ).map(lambda query: "&".join(f"{key}={value}" for key, value in query.items())),
)  # fmt: skip
ASKED = st.tuples(
    st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "GET"]), TARGETS, HEADERS, ODD_BODIES | YAML_BODIES | BODIES
)
APPLIED = st.tuples(
    st.just("PATCH"),
    TARGETS.map(lambda target: target.partition("?")[0] + "?fieldManager=fuzz&force=true"),
    st.just({"Content-Type": "application/apply-patch+yaml"}),
    ODD_BODIES | YAML_BODIES,
)


async def _ask(requests: list[tuple[str, str, dict[str, str], bytes]]) -> None:
    plane = ControlPlane(use_tls=False)
    plane.api.create(NODES, "", make_node())
    plane.api.create(PODS, "default", make_pod())
    for method, target, headers, body in requests:
        sent = {"Authorization": f"Bearer {plane.token}", **headers}
        reply = await plane.handlers.answer(ApiRequest(method, target, sent, body))
        if isinstance(reply, WatchStream):
            reply.close()
            continue
        assert reply.code < 500 or reply.code == 504, (method, target, headers, body, reply.body[:500])
        for name, value in reply.headers:
            assert not set("\r\n\0") & set(name + value)
            value.encode()
    await plane.stop()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(ASKED | APPLIED, min_size=5, max_size=25))
def test_no_header_target_or_field_name_is_our_mistake(requests: list[Any]) -> None:
    asyncio.run(_ask(requests))


@pytest.mark.parametrize(
    "header",
    [b"Content-Type: \xff", b"Accept: \xff", b"User-Agent: \xff\xfe", b"Authorization: Bearer \xff"],
    ids=["content type", "accept", "user agent", "authorization"],
)
async def test_a_header_that_is_not_text_is_answered(plane: ControlPlane, header: bytes) -> None:
    host, port = plane.url.removeprefix("http://").split(":")
    body = json.dumps(make_node()).encode()
    lines = [
        b"POST /api/v1/nodes HTTP/1.1",
        b"Host: x",
        b"Connection: close",
        b"Content-Length: %d" % len(body),
        header,
    ]
    if not header.startswith(b"Authorization"):
        lines.append(f"Authorization: Bearer {plane.token}".encode())
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), answer[:200]


@pytest.mark.parametrize(
    "name",
    ["a\r\nX-Injected: 1", "a\nb", "a\0b", 'a"b', "a\\b", "é", "😀", "\u2028", "a" * 5000],
    ids=["CRLF", "LF", "NUL", "quote", "backslash", "accent", "emoji", "line separator", "long"],
)
async def test_an_unknown_field_is_a_warning_whatever_its_name(http: Http, name: str) -> None:
    pod = make_pod()
    pod["spec"][name] = 1
    body = json.dumps(pod).encode()
    async with http.session.post(
        http.base + "/api/v1/namespaces/default/pods", data=body, headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 201
        assert response.headers["Warning"].startswith('299 - "unknown field \\"spec.')
        assert "X-Injected" not in response.headers
    strict = http.base + "/api/v1/namespaces/default/pods?fieldValidation=Strict"
    async with http.session.post(strict, data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 400


@pytest.mark.parametrize("digits", [19, 4300, 4301, 100_000])
async def test_a_quantity_of_any_length_is_answered(http: Http, digits: int) -> None:
    pod = make_pod()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9" * digits}}
    code, answer = await http("POST", "/api/v1/namespaces/default/pods", pod)
    assert code == (201 if digits < 256 else 400), answer
    raw = json.dumps(make_pod("number")).replace(
        '"app:1"', '"app:1","resources":{"limits":{"cpu":%s}}' % ("9" * digits)
    )
    code, answer = await http("POST", "/api/v1/namespaces/default/pods", raw.encode())
    assert code < 500, answer


@pytest.mark.parametrize("seconds", ["9" * 18, "-5", "0", "²"])
async def test_a_grace_period_of_any_length_is_answered(plane: ControlPlane, http: Http, seconds: str) -> None:
    pod = make_pod(nodeName="n", terminationGracePeriodSeconds=2**62)
    plane.api.create(PODS, "default", pod)
    code, answer = await http("DELETE", f"/api/v1/namespaces/default/pods/web?gracePeriodSeconds={seconds}")
    assert code in (200, 400, 422), answer


@pytest.mark.parametrize("share", ["²%", "9" * 5000 + "%", "abc", "-1%", "150%", -1])
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "PodDisruptionBudget"),
        ("/apis/apps/v1/namespaces/default/deployments", "Deployment"),
        ("/apis/apps/v1/namespaces/default/daemonsets", "DaemonSet"),
    ],
)
async def test_a_share_of_pods_that_is_none_is_refused(http: Http, path: str, kind: str, share: Any) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": make_pod()["spec"]}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": template}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": share}}
    spec |= {"Deployment": {"strategy": rolling}, "DaemonSet": {"updateStrategy": rolling}}.get(kind, {})
    if kind == "PodDisruptionBudget":
        spec = {"selector": {"matchLabels": labels}, "maxUnavailable": share}
    code, answer = await http("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    assert code == 422 and "maxUnavailable" in answer["message"]


async def test_an_object_cannot_grow_without_end(plane: ControlPlane, http: Http) -> None:
    plane.api.create(PODS, "default", make_pod())
    path = "/api/v1/namespaces/default/pods/web/status"
    code = 200
    for i in range(10):
        patch = {"status": {"conditions": [{"type": f"t{i}", "status": "True", "message": "x" * 400_000}]}}
        code, _ = await http("PATCH", path, patch, "application/strategic-merge-patch+json")
        if code != 200:
            break
    assert code == 413
