"""Columns of pods by selector, terms by the pods they mean, and objects by kind."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import Namespace, Service
from mooring.core.state import pod_index
from mooring.core.state.cluster import Objects
from mooring.core.state.pod_info import PodClass
from mooring.testing import make_cluster, make_node, make_object, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def is_web(cls: PodClass) -> bool:
    return cls.labels.get("app") == "web"


def test_a_column_counts_pods_that_were_there_and_pods_that_come() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"), make_pod("p", node="a", labels={"app": "web"}))
    column = cluster.pod_index.column("web", is_web, ("default",), (("app", "web"),))
    assert cluster.nodes().counts(column).tolist() == [1, 0]
    cluster.set_pod(make_pod("q", node="b", labels={"app": "web"}))
    cluster.set_pod(make_pod("r", node="b", labels={"app": "db"}))
    assert cluster.nodes().counts(column).tolist() == [1, 1]
    cluster.remove_pod("uid-default-p")
    assert cluster.nodes().counts(column).tolist() == [0, 1]
    assert column.total == 1


def test_the_same_key_gives_the_same_column() -> None:
    cluster = make_cluster(make_node("a"))
    assert cluster.pod_index.column("k", is_web) is cluster.pod_index.column("k", is_web)


def test_a_dropped_column_is_recounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_index, "MAX_COLUMNS", 2)
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", labels={"app": "web"}))
    first = cluster.pod_index.column("web", is_web)
    for key in ("one", "two"):
        cluster.pod_index.column(key, is_web)
    cluster.set_pod(make_pod("q", node="a", labels={"app": "web"}))
    again = cluster.pod_index.column("web", is_web)
    assert again is not first and again.total == 2 and first.total == 1, "the old one is no longer kept up to date"


def test_a_column_of_many_selectors_leaves_less_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_index, "MAX_COLUMNS", 4)
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", labels={"app": "web"}))
    info = cluster.info(make_pod("q", labels={"app": "web"}))
    first = cluster.pod_index.column("first", is_web)
    twice = cluster.pod_index.column("twice", lambda cls: 2 * is_web(cls), size=3)
    assert first.is_kept and cluster.pod_index.times(info.cls, twice) == 2 and twice.total == 2
    huge = cluster.pod_index.column("huge", is_web, size=100)
    assert huge.is_kept and not first.is_kept and not twice.is_kept, "one is always kept, whatever its size"
    assert cluster.pod_index.times(info.cls, twice) is None
    assert cluster.pod_index.times(cluster.info(make_pod("r", labels={"app": "db"})).cls, huge) is None, "not there"
    again = cluster.pod_index.column("twice", lambda cls: 2 * is_web(cls), size=3)
    cluster.set_pod(make_pod("q", node="a", labels={"app": "web"}))
    assert again.total == 4
    cluster.remove_pod("uid-default-q")
    assert again.total == 2


def test_a_column_by_namespace_ignores_other_namespaces() -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", namespace="other", node="a", labels={"app": "web"}))
    column = cluster.pod_index.column("web", lambda cls: is_web(cls) and cls.namespace == "default", ("default",))
    assert column.total == 0
    everywhere = cluster.pod_index.column("anywhere", is_web)
    assert everywhere.total == 1


def anti(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}}


WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("term", "namespace", "labels", "meant"),
    [
        pytest.param(WEB, "default", {"app": "web"}, True, id="own namespace by default"),
        pytest.param(WEB, "other", {"app": "web"}, False, id="other namespaces are not meant"),
        pytest.param(WEB, "default", {"app": "db"}, False, id="other labels neither"),
        pytest.param({**WEB, "namespaces": ["other"]}, "other", {"app": "web"}, True, id="a listed namespace"),
        pytest.param({**WEB, "namespaces": ["other"]}, "default", {"app": "web"}, False, id="then not the own one"),
        pytest.param({**WEB, "namespaceSelector": {}}, "any", {"app": "web"}, True, id="{} means every namespace"),
        pytest.param(
            {**WEB, "namespaceSelector": {"matchLabels": {"team": "x"}}},
            "red",
            {"app": "web"},
            True,
            id="a namespace with these labels",
        ),
        pytest.param(
            {**WEB, "namespaceSelector": {"matchLabels": {"team": "y"}}},
            "red",
            {"app": "web"},
            False,
            id="a namespace with other labels",
        ),
        pytest.param({"labelSelector": {}}, "default", {}, True, id="{} selects every pod"),
        pytest.param({}, "default", {"app": "web"}, False, id="no selector selects none"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            "default",
            {"app": "?"},
            True,
            id="a selector without an exact pair is found, too",
        ),
    ],
)
def test_terms_find_the_pods_they_mean(
    term: dict[str, Any], namespace: str, labels: dict[str, str], meant: bool
) -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", spec=anti(**term)))
    cls = PodClass(namespace, labels, False)
    found = cluster.terms.matching(cls, {"team": "x"} if namespace == "red" else {})
    assert bool(found) is meant
    cluster.remove_pod("uid-default-p")
    assert not cluster.terms.matching(cls, {"team": "x"})


def test_equal_terms_are_one_with_a_count() -> None:
    cluster = make_cluster(
        make_node("a"), make_node("b"), *(make_pod(f"p{i}", node="a", spec=anti(**WEB)) for i in range(3))
    )
    ((_, column),) = cluster.terms.matching(PodClass("default", {"app": "web"}, False), {})
    assert cluster.nodes().counts(column).tolist() == [3, 0]


def test_a_pod_with_an_unreadable_selector_counts_without_terms() -> None:
    broken = anti(labelSelector={"matchExpressions": [{"key": "k", "operator": "Nonsense"}]})
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", cpu="1", spec=broken))
    assert cluster.nodes().requested("cpu").tolist() == [1000]
    assert not cluster.terms.matching(PodClass("default", {"k": "v"}, False), {})
    cluster.remove_pod("uid-default-p")


def test_claims_are_counted_per_volume() -> None:
    volumes = [{"name": n, "persistentVolumeClaim": {"claimName": "data"}} for n in ("one", "two")]
    volumes.append({"name": "own", "ephemeral": {}})
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", spec={"volumes": volumes}))
    assert cluster.claim_users == {"default/data": 2}, "trap 28: ephemeral volumes are not counted"
    cluster.remove_pod("uid-default-p")
    assert cluster.claim_users == {}


class TestObjects:
    def test_by_key_and_namespace(self) -> None:
        objects = Objects()
        objects.put(make_object("Service", "s", "n", spec={"selector": {"a": "b"}}))
        objects.put(make_object("Namespace", "n"))
        assert objects.get(Service, "n/s") is not None and objects.get(Namespace, "n") is not None
        assert [o.name for o in objects.in_namespace(Service, "n")] == ["s"]
        assert list(objects.in_namespace(Service, "other")) == [] and len(list(objects)) == 2

    def test_versions_grow_and_changes_are_logged(self) -> None:
        objects = Objects()
        before = objects.version(Service)
        objects.put(make_object("Service", "s", "n"))
        objects.remove(Service, "n/s")
        objects.remove(Service, "n/unknown")
        assert objects.version(Service) == before + 2
        assert objects.log(Service).since(before) == ["n/s", "n/s"]
        assert list(objects.in_namespace(Service, "n")) == []
