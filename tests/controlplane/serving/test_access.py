"""Authentication, authorisation, and where secrets go."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.errors import UsageError
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import Access, ApiUser, write_kubeconfig
from tests.controlplane.rbac import Rbac

from ..conftest import Http, connected, make_node, make_pod

ROLE_GROUP = "rbac.authorization.k8s.io"


def test_the_kubeconfig_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1", "secret", b"CERT")
    assert os.stat(path).st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["users"][0]["user"] == {"token": "secret"}
    assert config["clusters"][0]["cluster"]["certificate-authority-data"] == "Q0VSVA=="
    assert [entry.name for entry in path.parent.iterdir()] == ["kubeconfig"]


def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write") as refused:
        write_kubeconfig(tmp_path / "file" / "kubeconfig", "u", "t")
    assert "\n" not in str(refused.value)


def test_tokens_do_not_show_when_printed() -> None:
    access = Access()
    assert access.admin_token not in repr(access)
    assert access.user_of(access.admin_token) is not None and access.user_of("other") is None


def test_other_machines_are_refused_unless_allowed() -> None:
    with pytest.raises(UsageError, match="only this machine"):
        ControlPlane(host="0.0.0.0")


async def test_a_busy_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        plane = ControlPlane(port=taken.getsockname()[1], use_tls=False)
        with pytest.raises(UsageError, match=r"cannot listen on 127.0.0.1:.*: Address already in use"):
            await plane.start()
        await plane.stop()


async def test_plain_and_encrypted_listeners_side_by_side() -> None:
    async with ControlPlane(also_plain=True) as plane:
        assert plane.url.startswith("https://127.0.0.1:") and plane.plain_url.startswith("http://127.0.0.1:")
        assert plane.certificate is not None and plane.certificate.startswith(b"-----BEGIN CERTIFICATE")


def role(name: str, **rule: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": [rule]}


def binding(name: str, kind: str, subject: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": [subject]}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v1/nodes", 200, id="a cluster role allows reading nodes"),
        pytest.param("GET", "/api/v1/nodes/n1", 200, id="and one of them"),
        pytest.param("POST", "/api/v1/nodes", 403, id="but not creating them"),
        pytest.param("GET", "/api/v1/namespaces/default/pods", 200, id="a role allows pods in its namespace"),
        pytest.param("GET", "/api/v1/namespaces/kube-system/pods", 403, id="not in another"),
        pytest.param("GET", "/api/v1/pods", 403, id="nor everywhere"),
        pytest.param("PATCH", "/api/v1/namespaces/default/pods/web/status", 403, id="nor a subresource"),
        pytest.param("GET", "/apis", 200, id="discovery is open to known users"),
    ],
)
async def test_rbac_allows_what_a_bound_role_says(method: str, path: str, code: int) -> None:
    async with connected(authorizer=Rbac) as (plane, http):
        plane.access.add({"abc": ApiUser("ann", "1", ("dev", "system:authenticated"))})
        api = plane.api
        api.create(by_resource("nodes"), "", make_node("n1"))
        api.create(by_resource("pods"), "default", make_pod())
        reads = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}
        api.create(by_resource(f"clusterroles.{ROLE_GROUP}"), "", role("r", **reads))
        api.create(
            by_resource(f"clusterrolebindings.{ROLE_GROUP}"),
            "",
            binding("r", "ClusterRole", {"kind": "Group", "name": "dev"}),
        )
        lists = {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}
        api.create(by_resource(f"roles.{ROLE_GROUP}"), "default", role("p", **lists))
        api.create(
            by_resource(f"rolebindings.{ROLE_GROUP}"), "default", binding("p", "Role", {"kind": "User", "name": "ann"})
        )
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        body = None if method == "GET" else {}
        got, answer = await http(method, path, body, kind, Authorization="Bearer abc")
        assert got == code
        if code == 403:
            assert answer["reason"] == "Forbidden" and 'User "ann" cannot' in answer["message"]
        assert (await http("GET", path.removesuffix("/status")))[0] == 200


async def test_reviews_answer_and_store_nothing(plane: ControlPlane, http: Http) -> None:
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    before = plane.store.rv
    code, known = await http("POST", reviews, {"spec": {"token": plane.token}})
    assert (code, known["status"]["authenticated"]) == (201, True)
    assert known["status"]["user"]["username"] == "kubernetes-admin"
    _, unknown = await http("POST", reviews, {"spec": {"token": "no"}})
    assert not unknown["status"].get("authenticated")
    ask = {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    _, allowed = await http("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", ask)
    assert allowed["status"]["allowed"] is True
    _, me = await http("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert me["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert plane.store.rv == before


async def test_a_service_account_token_is_its_account(plane: ControlPlane, http: Http) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    await http("POST", path, {"metadata": {"name": "robot"}})
    code, answer = await http("POST", f"{path}/robot/token", {"spec": {"audiences": []}})
    assert code == 201
    token = answer["status"]["token"]
    _, me = await http("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, Authorization=f"Bearer {token}")
    assert me["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
