"""How stories name objects and write them: every way to write a name, and what each verb does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.controlplane.server import ControlPlane
from mooring.net.errors import AlreadyExists, Invalid, NotFound
from mooring.sim.backend import Backend, InProcessClient, Ref, kind_named, kind_of
from mooring.sim.objects import node, pod


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        pytest.param("pod", "pods", id="singular"),
        pytest.param("pods", "pods", id="plural"),
        pytest.param("po", "pods", id="short"),
        pytest.param("Pod", "pods", id="the kind"),
        pytest.param("deployments.apps", "deployments.apps", id="with its group"),
        pytest.param("deploy", "deployments.apps", id="the short name of another group"),
        pytest.param("pvc", "persistentvolumeclaims", id="pvc"),
    ],
)
def test_a_kind_has_many_names(name: str, resource: str) -> None:
    assert kind_named(name).resource == resource


@pytest.mark.parametrize("name", ["", "gadget", "pod ", "pods.apps"])
def test_a_name_of_no_kind(name: str) -> None:
    with pytest.raises(InputError, match="no kind"):
        kind_named(name)


@pytest.mark.parametrize(
    ("manifest", "singular"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, "pod", id="the core group"),
        pytest.param({"apiVersion": "apps/v1", "kind": "Deployment"}, "deployment", id="another group"),
        pytest.param({"apiVersion": "apps/v1beta2", "kind": "Deployment"}, "deployment", id="an old version"),
    ],
)
def test_the_kind_of_a_manifest(manifest: dict[str, Any], singular: str) -> None:
    assert kind_of(manifest).singular == singular


@pytest.mark.parametrize(
    "manifest", [{}, {"kind": "Pod", "apiVersion": "apps/v1"}, {"kind": "Nope", "apiVersion": "v1"}, {"kind": 3}]
)
def test_a_manifest_of_no_kind(manifest: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no such kind is served"):
        kind_of(manifest)


@pytest.mark.parametrize(
    ("text", "written", "path"),
    [
        pytest.param("pod/web", "pod/web", "/api/v1/namespaces/default/pods/web", id="in the default namespace"),
        pytest.param("po/team-a/web", "pod/team-a/web", "/api/v1/namespaces/team-a/pods/web", id="in another one"),
        pytest.param("node/n1", "node/n1", "/api/v1/nodes/n1", id="in none"),
        pytest.param(
            "deploy/web", "deployment/web", "/apis/apps/v1/namespaces/default/deployments/web", id="of a group"
        ),
        pytest.param("pc/high", "priorityclass/high", "/apis/scheduling.k8s.io/v1/priorityclasses/high", id="both"),
        pytest.param("pod/a b", "pod/a b", "/api/v1/namespaces/default/pods/a%20b", id="what a URL cannot hold"),
    ],
)
def test_an_object_has_a_name_and_a_path(text: str, written: str, path: str) -> None:
    ref = Ref.parse(text)
    assert (str(ref), ref.path) == (written, path)
    assert ref.path.startswith(ref.collection)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("web", "kind/name", id="no kind"),
        pytest.param("pod/", "kind/name", id="no name"),
        pytest.param("/web", "kind/name", id="an empty kind"),
        pytest.param("pod/a/b/c", "kind/name", id="too many parts"),
        pytest.param("node/a/b", "a Node has no namespace; write node/b", id="a namespace for a node"),
        pytest.param("gadget/a", "no kind 'gadget'", id="an unknown kind"),
    ],
)
def test_a_name_that_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Ref.parse(text)


def test_the_address_of_a_manifest() -> None:
    assert str(Ref.of(pod("a", namespace="team-a"))) == "pod/team-a/a"
    assert str(Ref.of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, "mine")) == "pod/mine/a"
    assert str(Ref.of({"apiVersion": "v1", "kind": "Pod"})) == "pod/"


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    plane = ControlPlane(use_tls=False)  # it does not listen
    yield Backend(InProcessClient(plane, agent="tester"))
    await plane.stop()


async def test_what_is_created_can_be_read(backend: Backend) -> None:
    created = await backend.create(node("a", labels={"disk": "ssd"}))
    assert created["metadata"]["uid"]
    found = await backend.get(Ref.parse("node/a"))
    assert found is not None and found["metadata"]["labels"]["disk"] == "ssd"
    assert found["status"]["capacity"]["cpu"] == "4"
    assert await backend.get(Ref.parse("node/b")) is None


async def test_creating_twice_is_refused_and_applying_twice_is_not(backend: Backend) -> None:
    await backend.create(pod("p"))
    with pytest.raises(AlreadyExists):
        await backend.create(pod("p"))
    applied = await backend.apply(pod("p", labels={"a": "b"}))
    assert applied["metadata"]["labels"] == {"a": "b"}


async def test_applying_changes_the_status_that_a_manifest_says(backend: Backend) -> None:
    await backend.apply(node("n", cpu="2"))
    await backend.apply(node("n", cpu="8"))
    found = await backend.get(Ref.parse("node/n"))
    assert found is not None and found["status"]["capacity"]["cpu"] == "8"


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        pytest.param("merge", {"metadata": {"labels": {"x": "y"}}}, id="merge"),
        pytest.param("strategic", {"metadata": {"labels": {"x": "y"}}}, id="strategic"),
        pytest.param("json", [{"op": "add", "path": "/metadata/labels/x", "value": "y"}], id="JSON"),
    ],
)
async def test_patches(backend: Backend, type: str, patch: Any) -> None:
    await backend.create(node("n"))
    patched = await backend.patch(Ref.parse("node/n"), patch, type=type)
    assert patched["metadata"]["labels"]["x"] == "y"
    assert patched["metadata"]["labels"]["kubernetes.io/hostname"] == "n"


async def test_a_subresource_is_patched_alone(backend: Backend) -> None:
    await backend.create(pod("p"))
    change = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Failed"}}
    patched = await backend.patch(Ref.parse("pod/p"), change, subresource="status")
    assert patched["status"]["phase"] == "Failed"


async def test_what_is_not_there_cannot_be_patched(backend: Backend) -> None:
    with pytest.raises(NotFound):
        await backend.patch(Ref.parse("pod/p"), {})


async def test_what_is_not_valid_is_refused(backend: Backend) -> None:
    with pytest.raises(Invalid, match="containers"):
        await backend.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}})


async def test_lists_are_chosen_by_labels_fields_and_namespace(backend: Backend) -> None:
    await backend.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    await backend.create(pod("a", labels={"x": "1"}))
    await backend.create(pod("b"))
    await backend.create(pod("c", namespace="team-a", labels={"x": "1"}))
    pods = kind_named("pods")

    async def names(namespace: str = "", **chosen: str) -> list[str]:
        return [each["metadata"]["name"] for each in await backend.list(pods, namespace, **chosen)]

    assert await names() == ["a", "b", "c"]
    assert await names("team-a") == ["c"]
    assert await names(labels="x=1") == ["a", "c"]
    assert await names("default", labels="x=1", fields="metadata.name=a") == ["a"]
    assert {each["kind"] for each in await backend.list(pods)} == {"Pod"}


async def test_deleting_says_whether_there_was_anything(backend: Backend) -> None:
    await backend.create(pod("p"))
    assert await backend.delete(Ref.parse("pod/p"), grace_period_s=0)
    assert await backend.get(Ref.parse("pod/p")) is None
    assert not await backend.delete(Ref.parse("pod/p"))
