"""RBAC beyond single requests: what apply may create, and what roles and bindings may grant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.controlplane.registry.groups import core as rbac
from mooring.controlplane.registry.groups.core import CONFIG_MAPS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser
from mooring.controlplane.serving.requests import ApiRequest, Reply
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError
from tests.controlplane.rbac import Rbac, not_covered

GROUP = "rbac.authorization.k8s.io"
ROLES = f"/apis/{GROUP}/v1/namespaces/default/roles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
CLUSTER_BINDINGS = f"/apis/{GROUP}/v1/clusterrolebindings"


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> Object:
    return {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": [group], **more}


class Office:
    """A server on which ann has a cluster role with some rules."""

    def __init__(self, *rules: Object) -> None:
        self.plane = ControlPlane(use_tls=False, authorizer=Rbac)
        self.plane.access.add({"abc": ApiUser("ann", groups=("dev",))})
        api = self.plane.api
        api.create(rbac.CLUSTER_ROLES, "", {"metadata": {"name": "held"}, "rules": list(rules)})
        subject = {"kind": "User", "name": "ann"}
        reference = {"kind": "ClusterRole", "name": "held"}
        api.create(
            rbac.CLUSTER_ROLE_BINDINGS,
            "",
            {"metadata": {"name": "held"}, "roleRef": reference, "subjects": [subject]},
        )
        big = {"metadata": {"name": "big"}, "rules": [rule("*", "*", "*")]}
        api.create(rbac.CLUSTER_ROLES, "", big)
        small = {"metadata": {"name": "small"}, "rules": [rule("get", "pods")]}
        api.create(rbac.CLUSTER_ROLES, "", small)

    async def ask(
        self, method: str, target: str, obj: Any, kind: str = "application/json", token: str = "abc"
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        reply = await self.plane.handlers.answer(ApiRequest(method, target, headers, msgspec.json.encode(obj)))
        assert isinstance(reply, Reply)
        return reply.code, msgspec.json.decode(reply.body).get("message", "")


APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("verbs", "code"),
    [
        pytest.param("patch", 403, id="patch alone creates nothing"),
        pytest.param("patch create", 201, id="patch and create do"),
    ],
)
async def test_apply_needs_create_for_what_is_not_there(verbs: str, code: int) -> None:
    office = Office(rule(verbs, "configmaps"))
    path = "/api/v1/namespaces/default/configmaps/new?fieldManager=ann"
    got, why = await office.ask("PATCH", path, {"apiVersion": "v1", "kind": "ConfigMap"}, APPLY)
    assert got == code
    assert (office.plane.store.get(CONFIG_MAPS, "default", "new") is None) is (code == 403)
    if code == 403:
        assert 'User "ann" cannot create resource "configmaps"' in why


async def test_apply_of_what_is_there_needs_patch_only() -> None:
    office = Office(rule("patch", "configmaps"))
    office.plane.api.create(CONFIG_MAPS, "default", {"metadata": {"name": "old"}})
    path = "/api/v1/namespaces/default/configmaps/old?fieldManager=ann"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    assert (await office.ask("PATCH", path, body, APPLY))[0] == 200


async def test_an_update_that_creates_needs_create_too() -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/mine"
    body = {"metadata": {"name": "mine"}, "spec": {}}
    office = Office(rule("update", "leases", "coordination.k8s.io"))
    assert (await office.ask("PUT", path, body))[0] == 403
    assert office.plane.store.get(LEASES, "default", "mine") is None
    office = Office(rule("update create", "leases", "coordination.k8s.io"))
    assert (await office.ask("PUT", path, body))[0] == 201


def binding(role: str, name: str = "b") -> Object:
    subject = {"kind": "User", "name": "ann"}
    return {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject]}


WRITES = rule("create update patch", "roles rolebindings clusterroles clusterrolebindings", GROUP)


@pytest.mark.parametrize(
    ("held", "target", "obj", "code"),
    [
        pytest.param([], CLUSTER_BINDINGS, binding("big"), 403, id="a binding to more than one has"),
        pytest.param([], BINDINGS, binding("big"), 403, id="in a namespace, too"),
        pytest.param([], BINDINGS, binding("nobody"), 404, id="a binding to no role"),
        pytest.param([rule("get list", "pods")], BINDINGS, binding("small"), 201, id="a binding to what one has"),
        pytest.param(
            [rule("bind", "clusterroles", GROUP)], CLUSTER_BINDINGS, binding("big"), 201, id="the verb bind allows it"
        ),
        pytest.param(
            [rule("bind", "clusterroles", GROUP, resourceNames=["small"])],
            CLUSTER_BINDINGS,
            binding("big"),
            403,
            id="the verb bind on another role does not",
        ),
        pytest.param(
            [], ROLES, {"metadata": {"name": "r"}, "rules": [rule("delete", "nodes")]}, 403, id="a role with more"
        ),
        pytest.param(
            [rule("*", "nodes")],
            ROLES,
            {"metadata": {"name": "r"}, "rules": [rule("delete", "nodes")]},
            201,
            id="a role with what one has",
        ),
        pytest.param(
            [rule("escalate", "roles", GROUP)],
            ROLES,
            {"metadata": {"name": "r"}, "rules": [rule("delete", "nodes")]},
            201,
            id="the verb escalate allows it",
        ),
    ],
)
async def test_users_cannot_grant_more_than_they_have(held: list[Object], target: str, obj: Object, code: int) -> None:
    office = Office(WRITES, *held)
    got, why = await office.ask("POST", target, obj)
    assert got == code, why
    if code == 403:
        assert 'user "ann" (groups=["dev"]) is attempting to grant RBAC permissions not currently held' in why


async def test_the_administrator_may_grant_anything() -> None:
    office = Office()
    assert (await office.ask("POST", CLUSTER_BINDINGS, binding("big"), token=office.plane.token))[0] == 201


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_role_cannot_be_made_stronger_than_its_writer(method: str) -> None:
    office = Office(WRITES, rule("get", "pods"))
    role = {"metadata": {"name": "r"}, "rules": [rule("get", "pods")]}
    assert (await office.ask("POST", ROLES, role))[0] == 201
    stronger = {**role, "rules": [rule("get delete", "pods")]}
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    code, why = await office.ask(method, f"{ROLES}/r", stronger, kind)
    assert code == 403 and '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}' in why


async def test_finalizers_of_a_strong_role_may_be_taken_away() -> None:
    office = Office(WRITES)
    strong = {"metadata": {"name": "r", "finalizers": ["a/b"]}, "rules": [rule("*", "*")]}
    office.plane.api.create(rbac.ROLES, "default", strong)
    patch = {"metadata": {"finalizers": None}}
    assert (await office.ask("PATCH", f"{ROLES}/r", patch, "application/merge-patch+json"))[0] == 200
    relabel = {"metadata": {"labels": {"a": "b"}}}
    assert (await office.ask("PATCH", f"{ROLES}/r", relabel, "application/merge-patch+json"))[0] == 403


@pytest.mark.parametrize(
    ("wanted", "held", "missing"),
    [
        pytest.param(rule("get", "pods"), rule("get", "pods"), [], id="the same"),
        pytest.param(rule("get", "pods"), rule("*", "*", "*"), [], id="stars cover all"),
        pytest.param(rule("*", "pods"), rule("get", "pods"), ['"*"'], id="a star is covered by a star only"),
        pytest.param(rule("get", "pods", "apps"), rule("get", "pods"), ['APIGroups:["apps"]'], id="another group"),
        pytest.param(rule("get", "pods/log"), rule("get", "pods"), ['"pods/log"'], id="a subresource is not covered"),
        pytest.param(rule("get", "pods/log"), rule("get", "*/log"), [], id="but by a star before its name"),
        pytest.param(
            rule("get", "pods"), rule("get", "pods", resourceNames=["a"]), ['"pods"'], id="a name does not cover all"
        ),
        pytest.param(rule("get", "pods", resourceNames=["a"]), rule("get", "pods"), [], id="all cover a name"),
        pytest.param(
            rule("get", "pods", resourceNames=["a", "b"]),
            rule("get", "pods", resourceNames=["a"]),
            ['ResourceNames:["b"]'],
            id="one name of two",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            {"verbs": ["get"], "nonResourceURLs": ["/m*"]},
            [],
            id="a URL by its beginning",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            ['NonResourceURLs:["/metrics"]'],
            id="another URL",
        ),
        pytest.param({"verbs": ["get"]}, {}, [], id="a rule about nothing"),
    ],
)
def test_what_a_rule_gives_beyond_another(wanted: Object, held: Object, missing: list[str]) -> None:
    found = not_covered([wanted], [held])
    assert len(found) == len(missing)
    assert all(part in text for part, text in zip(missing, found, strict=True))


def test_a_too_large_rule_is_refused() -> None:
    names = [f"n{i}" for i in range(200)]
    huge = {"verbs": names, "resources": names, "apiGroups": names}
    with pytest.raises(StatusError, match="more than 10000 single permissions"):
        not_covered([huge], [])
