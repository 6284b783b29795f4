"""Requests without a socket: verbs, subresources, reviews, forms, warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.core import CONFIG_MAPS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser
from mooring.controlplane.serving.listing import WatchStream
from mooring.controlplane.serving.requests import ApiRequest, Reply

from ..conftest import make_node, make_pod

PATH = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


class Desk:
    def __init__(self, **options: Any) -> None:
        self.plane = ControlPlane(use_tls=False, **options)

    async def reply(
        self, method: str, target: str, obj: Any = None, kind: str = "application/json", **headers: str
    ) -> Reply:
        body = b"" if obj is None else obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        sent = {"Authorization": f"Bearer {self.plane.token}", "Content-Type": kind, **headers}
        answer = await self.plane.handlers.answer(ApiRequest(method, target, sent, body))
        assert isinstance(answer, Reply)
        return answer

    async def ask(self, *args: Any, **kwargs: Any) -> tuple[int, Any]:
        reply = await self.reply(*args, **kwargs)
        return reply.code, json.loads(reply.body) if reply.content_type.startswith("application/json") else reply.body


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.plane.api.create(NODES, "", make_node())
    desk.plane.api.create(PODS, "default", make_pod())
    return desk


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        pytest.param("GET", "/healthz", 200, id="health"),
        pytest.param("GET", "/livez/etcd", 200, id="one check of health"),
        pytest.param("HEAD", "/readyz", 200, id="health without a body"),
        pytest.param("POST", "/healthz", 405, id="health is not made"),
        pytest.param("GET", "/version", 200, id="the version"),
        pytest.param("GET", "/", 200, id="the paths"),
        pytest.param("GET", "/api", 200, id="core versions"),
        pytest.param("GET", "/api/v1", 200, id="core kinds"),
        pytest.param("GET", "/api/v2", 404, id="another version of the core"),
        pytest.param("GET", "/apis", 200, id="groups"),
        pytest.param("GET", "/apis/", 200, id="groups, with a slash"),
        pytest.param("GET", "/apis/apps", 200, id="a group"),
        pytest.param("GET", "/apis/apps/v1", 200, id="a group's kinds"),
        pytest.param("GET", "/apis/nobody", 404, id="no such group"),
        pytest.param("POST", "/apis", 405, id="groups are not made"),
        pytest.param("GET", "/openapi/v3", 200, id="the index of documents"),
        pytest.param("GET", "/openapi/v3/apis/apps/v1", 200, id="a document"),
        pytest.param("GET", "/openapi/v3/apis/nobody/v1", 404, id="no such document"),
        pytest.param("GET", "/nothing", 404, id="nothing"),
        pytest.param("GET", "/metrics", 404, id="no metrics"),
    ],
)
async def test_what_is_not_a_resource(desk: Desk, method: str, target: str, code: int) -> None:
    assert (await desk.reply(method, target)).code == code


async def test_other_pages_are_served_to_authorised_users(desk: Desk) -> None:
    desk.plane.handlers.pages["/debug/queue"] = lambda: {"pods": []}
    assert await desk.ask("GET", "/debug/queue") == (200, {"pods": []})
    assert (await desk.reply("GET", "/debug/queue", Authorization="")).code == 401


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        pytest.param("PUT", PATH, 405, id="replace all"),
        pytest.param("PATCH", PATH, 405, id="patch all"),
        pytest.param("POST", f"{PATH}/web", 405, id="create by name"),
        pytest.param("DELETE", f"{PATH}/web/status", 405, id="delete a status"),
        pytest.param("BREW", PATH, 405, id="an unknown method"),
        pytest.param("GET", "/apis/authentication.k8s.io/v1/tokenreviews", 405, id="list reviews"),
        pytest.param("GET", f"{PATH}/web/binding", 405, id="read a binding"),
        pytest.param("PUT", f"{PATH}/web/eviction", 405, id="replace an eviction"),
    ],
)
async def test_methods_that_are_not_allowed(desk: Desk, method: str, target: str, code: int) -> None:
    assert (await desk.reply(method, target, {})).code == code


@pytest.mark.parametrize(
    ("target", "obj", "code"),
    [
        pytest.param(f"{PATH}/web/binding", {"target": {"name": "node-1"}}, 201, id="binding"),
        pytest.param(f"{PATH}/web/eviction", {"metadata": {"name": "web"}}, 201, id="eviction"),
        pytest.param("/api/v1/namespaces/default/serviceaccounts/nobody/token", {}, 404, id="a token without a user"),
    ],
)
async def test_subresources_that_are_created(desk: Desk, target: str, obj: Any, code: int) -> None:
    assert (await desk.reply("POST", target, obj)).code == code


@pytest.mark.parametrize("name", ["ephemeralcontainers", "resize"])
async def test_subresources_of_pods_that_are_read_and_written(desk: Desk, name: str) -> None:
    code, pod = await desk.ask("GET", f"{PATH}/web/{name}")
    assert code == 200
    assert (await desk.reply("PUT", f"{PATH}/web/{name}", pod)).code == 200
    assert (await desk.reply("PATCH", f"{PATH}/web/{name}", {}, MERGE)).code == 200


async def test_a_status_is_read_and_written(desk: Desk) -> None:
    _, node = await desk.ask("GET", "/api/v1/nodes/node-1/status")
    node["status"]["phase"] = "Running"
    code, after = await desk.ask("PUT", "/api/v1/nodes/node-1/status", node)
    assert (code, after["status"]["phase"]) == (200, "Running")


async def test_a_namespace_is_finalized(desk: Desk) -> None:
    await desk.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    code, namespace = await desk.ask("PUT", "/api/v1/namespaces/team/finalize", {"metadata": {"name": "team"}})
    assert (code, namespace["spec"]) == (200, {})


@pytest.mark.parametrize(
    ("kind", "returns_object"), [("configmaps", False), ("serviceaccounts", True), ("services", True)]
)
async def test_what_a_deletion_answers(desk: Desk, kind: str, returns_object: bool) -> None:
    path = f"/api/v1/namespaces/default/{kind}"
    await desk.ask("POST", path, {"metadata": {"name": "x"}})
    code, answer = await desk.ask("DELETE", f"{path}/x")
    assert code == 200
    if returns_object:
        assert answer["metadata"]["name"] == "x"
    else:
        assert (answer["kind"], answer["status"], answer["details"]["name"]) == ("Status", "Success", "x")


async def test_a_collection_is_deleted_by_selector(desk: Desk) -> None:
    for name in "ab":
        await desk.ask("POST", CONFIGS, {"metadata": {"name": name, "labels": {"x": name}}})
    code, gone = await desk.ask("DELETE", f"{CONFIGS}?labelSelector=x%3Da")
    assert (code, [item["metadata"]["name"] for item in gone["items"]]) == (200, ["a"])
    code, _ = await desk.ask("DELETE", f"{CONFIGS}?dryRun=All")
    assert (code, desk.plane.store.count(CONFIG_MAPS)) == (200, 1)
    assert (await desk.reply("DELETE", "/api/v1/configmaps")).code == 405


@pytest.mark.parametrize(
    ("body", "query", "code"),
    [
        pytest.param({"dryRun": ["All"]}, "", 200, id="a dry run in the body"),
        pytest.param({"dryRun": ["Some"]}, "", 422, id="half a dry run"),
        pytest.param(None, "propagationPolicy=Orphan", 200, id="a policy in the query"),
        pytest.param(None, "propagationPolicy=Sideways", 422, id="a policy that is none"),
        pytest.param(None, "gracePeriodSeconds=x", 400, id="a grace period that is none"),
        pytest.param(None, "orphanDependents=true", 200, id="orphans"),
        pytest.param({"gracePeriodSeconds": "x"}, "", 400, id="a body that does not fit"),
    ],
)
async def test_options_of_a_deletion(desk: Desk, body: Any, query: str, code: int) -> None:
    await desk.ask("POST", CONFIGS, {"metadata": {"name": "x"}})
    assert (await desk.reply("DELETE", f"{CONFIGS}/x?{query}", body)).code == code
    assert (desk.plane.store.get(CONFIG_MAPS, "default", "x") is not None) is (
        code != 200 or "All" in str(body) or "rphan" in query
    )


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("", 201),
        ("text/plain", 201),
        ("text/csv", 415),
        ("application/yaml", 415),
        ("application/vnd.kubernetes.protobuf", 400),
    ],
)
async def test_content_types_of_a_creation(desk: Desk, kind: str, code: int) -> None:
    assert (await desk.reply("POST", CONFIGS, {"metadata": {"name": "x"}}, kind)).code == code


async def test_a_patch_of_no_kind(desk: Desk) -> None:
    code, answer = await desk.ask("PATCH", f"{PATH}/web", {}, "application/json")
    assert code == 415 and "application/apply-patch+yaml" in answer["message"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("fieldValidation=Maybe", 422),
        ("dryRun=Some", 422),
        ("fieldManager=" + "x" * 129, 422),
        ("fieldManager=a%0Ab", 422),
        ("fieldManager=me&fieldValidation=Strict&dryRun=All", 201),
    ],
)
async def test_options_of_a_write(desk: Desk, query: str, code: int) -> None:
    assert (await desk.reply("POST", f"{CONFIGS}?{query}", {"metadata": {"name": "x"}})).code == code


async def test_warnings_are_counted_and_cut(desk: Desk) -> None:
    body = {"metadata": {"name": "x"}, **{f"field{i}": 1 for i in range(40)}}
    reply = await desk.reply("POST", CONFIGS, body)
    warnings = [value for name, value in reply.headers if name == "Warning"]
    assert len(warnings) == 16 and warnings[0] == '299 - "unknown field \\"field0\\""'


async def test_a_table_and_metadata_of_one_object(desk: Desk) -> None:
    _, table = await desk.ask("GET", f"{PATH}/web", Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["kind"] == "Table" and table["rows"][0]["cells"][0] == "web"
    _, partial = await desk.ask(
        "GET", f"{PATH}/web", Accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
    assert partial.keys() == {"kind", "apiVersion", "metadata"}
    assert (await desk.reply("GET", f"{PATH}/web", Accept="text/html")).code == 406


async def test_aggregated_discovery(desk: Desk) -> None:
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    reply = await desk.reply("GET", "/apis", Accept=wanted)
    assert "as=APIGroupDiscoveryList" in reply.content_type
    assert ("Vary", "Accept") in reply.headers


async def test_a_watch_is_a_stream(desk: Desk) -> None:
    headers = {"Authorization": f"Bearer {desk.plane.token}"}
    for target in (f"{PATH}?watch=1", f"{PATH}?watch=true", "/api/v1/watch/namespaces/default/pods"):
        stream = await desk.plane.handlers.answer(ApiRequest("GET", target, headers))
        assert isinstance(stream, WatchStream)
        assert b'"ADDED"' in await stream.read()
        stream.close()
    future = await desk.reply("GET", f"{PATH}?watch=1&resourceVersion=99999")
    assert future.code == 504


@pytest.mark.parametrize(
    ("kind", "spec", "want"),
    [
        ("subjectaccessreviews", {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}, False),
        ("subjectaccessreviews", {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}}, True),
        ("subjectaccessreviews", {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/x"}}, True),
        ("selfsubjectaccessreviews", {"resourceAttributes": {"verb": "get", "resource": "pods"}}, True),
        ("subjectaccessreviews", {"user": "x", "groups": ["system:masters"]}, True),
    ],
)
async def test_reviews_ask_the_authoriser(kind: str, spec: Any, want: bool) -> None:
    desk = Desk(authorizer=lambda api: lambda asked: asked.user == "bob")
    code, review = await desk.ask("POST", f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})
    assert (code, review["status"]["allowed"]) == (201, want)


async def test_a_local_review_is_about_its_namespace() -> None:
    seen: list[tuple[str, str]] = []

    def authorizer(asked: Any) -> bool:
        seen.append((asked.namespace, asked.verb))
        return True

    desk = Desk(authorizer=lambda api: authorizer)
    target = "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews"
    spec = {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert (await desk.ask("POST", target, {"spec": spec}))[1]["status"]["allowed"] is True
    assert seen == [("team", "get")]


async def test_rules_are_incomplete_with_an_authoriser() -> None:
    target = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    _, open_to_all = await Desk().ask("POST", target, {})
    _, guarded = await Desk(authorizer=lambda api: lambda asked: True).ask("POST", target, {})
    assert (open_to_all["status"]["incomplete"], guarded["status"]["incomplete"]) == (False, True)


async def test_who_one_is_comes_with_uid_and_groups() -> None:
    desk = Desk()
    desk.plane.access.add({"t": ApiUser("ann", "42", ("dev",))})
    target = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    _, review = await desk.ask("POST", target, {}, Authorization="Bearer t")
    assert review["status"]["userInfo"] == {"username": "ann", "uid": "42", "groups": ["dev"]}


async def test_a_bug_is_a_500_without_details(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr(desk.plane.api, "get", broken)
    code, answer = await desk.ask("GET", f"{PATH}/web")
    assert code == 500 and "secret" not in json.dumps(answer)


async def test_issued_tokens_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.controlplane.serving.access.MAX_ISSUED", 2)
    access = Desk().plane.access
    tokens = [access.issue(ApiUser(f"u{i}")) for i in range(3)]
    assert [access.user_of(token) is not None for token in tokens] == [False, True, True]
