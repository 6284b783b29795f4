"""Paths and headers: what a URL means, and which form of an answer a client takes."""

from __future__ import annotations

import pytest

from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS
from mooring.controlplane.registry.groups.core import CLUSTER_ROLES
from mooring.controlplane.registry.groups.workloads import DEPLOYMENTS
from mooring.controlplane.serving.requests import Route, accept, content_type, parse, split
from mooring.controlplane.types.status import StatusError


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/v1/pods", Route(PODS)),
        ("/api/v1/pods/", Route(PODS)),
        ("/api/v1/namespaces/default/pods", Route(PODS, "default")),
        ("/api/v1/namespaces/default/pods/web", Route(PODS, "default", "web")),
        ("/api/v1/namespaces/default/pods/web/status", Route(PODS, "default", "web", "status")),
        ("/api/v1/namespaces/default/pods/web/binding", Route(PODS, "default", "web", "binding")),
        ("/api/v1/nodes/n", Route(NODES, "", "n")),
        ("/api/v1/namespaces", Route(NAMESPACES)),
        ("/api/v1/namespaces/default", Route(NAMESPACES, "", "default")),
        ("/api/v1/namespaces/default/finalize", Route(NAMESPACES, "", "default", "finalize")),
        ("/api/v1/namespaces/default/status", Route(NAMESPACES, "", "default", "status")),
        ("/apis/apps/v1/namespaces/x/deployments/d/scale", Route(DEPLOYMENTS, "x", "d", "scale")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/a:b", Route(CLUSTER_ROLES, "", "a:b")),
        ("/api/v1/watch/pods", Route(PODS, is_watch_path=True)),
        ("/api/v1/watch/namespaces/default/pods/web", Route(PODS, "default", "web", is_watch_path=True)),
    ],
)
def test_paths(path: str, want: Route) -> None:
    assert parse(path) == want


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/gadgets", id="no such kind"),
        pytest.param("/api/v2/pods", id="no such version"),
        pytest.param("/apis/nobody/v1/pods", id="no such group"),
        pytest.param("/apis/apps/v1", id="no kind"),
        pytest.param("/other/v1/pods/x", id="no API"),
        pytest.param("/api/v1/namespaces/default/nodes", id="a node in a namespace"),
        pytest.param("/api/v1/pods/web", id="a pod in none"),
        pytest.param("/api/v1/nodes/n/binding", id="a subresource of another kind"),
        pytest.param("/api/v1/namespaces/default/pods/web/status/x", id="too deep"),
        pytest.param("/api/v1/namespaces//pods", id="an empty namespace"),
        pytest.param("/api/v1/nodes//status", id="an empty name"),
        pytest.param("/apis/authentication.k8s.io/v1/tokenreviews/x", id="a review by name"),
    ],
)
def test_paths_that_lead_nowhere(path: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse(path)
    assert refused.value.code == 404


@pytest.mark.parametrize(
    ("target", "path", "parameters"),
    [
        ("/api", "/api", {}),
        ("/api?", "/api", {}),
        ("/api?a=1&b=2&a=3", "/api", {"a": "1", "b": "2"}),
        ("/api?a", "/api", {"a": ""}),
        ("/api?a=%C3%A9&b=x+y", "/api", {"a": "é", "b": "x y"}),
        ("/a%20b", "/a b", {}),
        ("/é", "/é", {}),
    ],
)
def test_targets(target: str, path: str, parameters: dict[str, str]) -> None:
    assert split(target) == (path, parameters)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        pytest.param("/%ff", 400, id="a path that is not UTF-8"),
        pytest.param("/?a=%ff", 400, id="a query that is not UTF-8"),
        pytest.param("/\udcff", 400, id="raw bytes that are not UTF-8"),
        pytest.param("/" + "a" * 5000, 414, id="a path that is too long"),
        pytest.param("/?" + "&".join(f"a{i}=1" for i in range(200)), 400, id="too many parameters"),
    ],
)
def test_targets_that_are_refused(target: str, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        split(target)
    assert refused.value.code == code


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ("", ""),
        ("*/*", ""),
        ("application/*", ""),
        ("application/json", ""),
        ("application/json; charset=utf-8", ""),
        (TABLE, "Table"),
        (f"{TABLE},application/json", "Table"),
        (f"application/json,{TABLE}", ""),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "Table"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", ""),
        ("application/json;as=Gadget;v=v1;g=meta.k8s.io,application/json", ""),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "PartialObjectMetadata"),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "APIGroupDiscoveryList"),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", ""),
        ("application/vnd.kubernetes.protobuf,application/json", ""),
    ],
)
def test_accepted_forms(header: str, want: str) -> None:
    assert accept(header) == want


@pytest.mark.parametrize(
    "header", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;as=Gadget;v=v1;g=x"]
)
def test_forms_that_cannot_be_made(header: str) -> None:
    with pytest.raises(StatusError) as refused:
        accept(header)
    assert refused.value.code == 406


@pytest.mark.parametrize(
    ("header", "want"),
    [("", ""), ("Application/JSON", "application/json"), ("application/json; charset=utf-8", "application/json")],
)
def test_content_types(header: str, want: str) -> None:
    assert content_type(header) == want
