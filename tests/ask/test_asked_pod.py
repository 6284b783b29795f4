"""The pod that is meant: by name, by manifest, by workload, or as an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.ask.asked_pod import find_pod
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_object, make_pod

POD: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [{"name": "c"}]}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"template": TEMPLATE, **spec}}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(
        make_node("a"),
        make_pod("app-9", node="a", status={"phase": "Running"}),
        make_pod("web-7", namespace="shop"),
        make_object("PriorityClass", "normal", value=5, globalDefault=True),
    )


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        pytest.param("shop/web-7", "shop/web-7", id="a pod that waits"),
        pytest.param("default/app-9", "default/app-9", id="a pod that runs"),
        pytest.param("app-9", "default/app-9", id="without a namespace"),
        pytest.param(POD, "default/new", id="a dict"),
        pytest.param(make_pod("own", namespace="x"), "x/own", id="a pod as it stands"),
    ],
)
def test_a_pod_is_found_as_it_was_before_it_was_placed(cluster: Cluster, asked: Any, key: str) -> None:
    found = find_pod(asked, cluster)
    assert found.pod.key == key
    assert (found.pod.spec.node_name, found.pod.status.phase) == ("", "")
    assert (found.others, found.notes, found.warnings) == ([], [], [])


def test_the_clusters_own_pod_is_not_touched(cluster: Cluster) -> None:
    find_pod("app-9", cluster).pod.spec.node_name = "elsewhere"
    assert cluster.pods[0].spec.node_name == "a"


def test_a_manifest_is_completed_with_the_clusters_classes(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(POD))
    for asked in (str(file), file, POD):
        assert find_pod(asked, cluster).pod.spec.priority == 5


def test_a_stored_pod_is_not_completed(cluster: Cluster) -> None:
    assert find_pod(make_pod("own"), cluster).pod.spec.priority is None


def test_a_workload_is_asked_about_by_its_first_pod(cluster: Cluster) -> None:
    found = find_pod(workload("Deployment"), cluster)
    assert found.pod.namespace == "shop" and found.pod.labels["app"] == "web"


def test_what_a_workload_creates_comes_with_it(cluster: Cluster) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    found = find_pod(workload("StatefulSet", volumeClaimTemplates=claims), cluster)
    assert found.pod.key == "shop/web-0"
    assert "shop/data-web-0" in [obj.key for obj in found.others]


def test_a_daemon_set_gets_a_note(cluster: Cluster) -> None:
    assert "every node" in find_pod(workload("DaemonSet"), cluster).notes[0]


def test_unknown_fields_are_warnings(cluster: Cluster) -> None:
    found = find_pod({**POD, "spec": {**POD["spec"], "nodeSelectr": {}}}, cluster)
    assert "nodeSelectr" in found.warnings[0] and "did you mean nodeSelector" in found.warnings[0]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(
            "default/app-8",
            "default/app-8: no such file, and no such pod among the 2 of the cluster; did you mean default/app-9?",
            id="a similar name",
        ),
        pytest.param(
            "zzz",
            "zzz: no such file, and no such pod among the 2 of the cluster; "
            "expected a manifest file, or namespace/name of a pod of the cluster",
            id="like no other",
        ),
        pytest.param("gone.yaml", "gone.yaml: no such file or directory", id="a file that is not there"),
        pytest.param(
            {"kind": "Node", "metadata": {"name": "n"}},
            "the given manifest: expected one Pod or one workload that makes pods, found Node n",
            id="no pod",
        ),
        pytest.param(
            {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": name}} for name in "abcde"]},
            "the given manifest: expected one Pod or one workload that makes pods, "
            "found Node a, Node b, Node c, 2 more",
            id="many others",
        ),
        pytest.param(
            {"kind": "List", "items": []},
            "the given manifest: expected one Pod or one workload that makes pods, found no objects at all",
            id="nothing",
        ),
        pytest.param(
            "/",
            "/: is a directory; expected a manifest file, or namespace/name of a pod of the cluster",
            id="a directory",
        ),
        pytest.param(
            Path("/"),
            "/: is a directory; expected a manifest file, or namespace/name of a pod of the cluster",
            id="the path of a directory",
        ),
        pytest.param(
            {"kind": "List", "items": [POD, {**POD, "metadata": {"name": "other"}}]},
            "the given manifest: expected one Pod or one workload that makes pods, "
            "found Pod default/new, Pod default/other",
            id="two pods",
        ),
        pytest.param(7, "found 7; expected a pod: namespace/name, a manifest (path or dict), or a Pod", id="a number"),
    ],
)
def test_what_cannot_be_found(cluster: Cluster, asked: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        find_pod(asked, cluster)
    assert str(raised.value) == message


def test_a_pod_of_the_cluster_may_be_called_like_a_directory(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app-9").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_pod("app-9", cluster).pod.key == "default/app-9"


def test_a_name_that_an_api_server_refuses_is_remarked(cluster: Cluster) -> None:
    asked = find_pod({**POD, "metadata": {"name": "pöd"}}, cluster)
    assert asked.pod.name == "pöd"
    says = "the given manifest: Pod pöd: metadata.name: an API server refuses 'pöd'; expected"
    assert asked.warnings[0].startswith(says)
    assert not find_pod(POD, cluster).warnings
