"""The kinds a scheduler watches, and how a kind is described."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.net.kinds import EXTRA_KINDS, NODES, PODS, SCHEDULER_KINDS
from mooring.net.watch_events import ResourceKind, typed_kind


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        pytest.param(typed_kind("pods", "v1", Pod), "pods", "/api/v1/pods", id="of the core group"),
        pytest.param(
            typed_kind("leases", "coordination.k8s.io/v1", Pod),
            "leases.coordination.k8s.io",
            "/apis/coordination.k8s.io/v1/leases",
            id="of another group",
        ),
        pytest.param(
            typed_kind("pods", "v1", Pod, namespace="shop"), "pods", "/api/v1/namespaces/shop/pods", id="of a namespace"
        ),
    ],
)
def test_where_a_kind_is_served(kind, name, path):
    assert (kind.name, kind.path) == (name, path)


@pytest.mark.parametrize(
    ("options", "query"),
    [
        pytest.param({}, {}, id="all of them"),
        pytest.param({"field_selector": "a=b"}, {"fieldSelector": "a=b"}, id="by fields"),
        pytest.param(
            {"field_selector": "a=b", "label_selector": "c"},
            {"fieldSelector": "a=b", "labelSelector": "c"},
            id="by fields and labels",
        ),
    ],
)
def test_what_of_a_kind_is_asked_for(options, query):
    assert typed_kind("pods", "v1", Pod, **options).selectors() == query


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        pytest.param(b'{"metadata":{"name":"a","labels":{"x":"y"}}}', {"x": "y"}, id="as it should be"),
        pytest.param(b'{"metadata":{"name":"a","labels":null}}', {}, id="null is nothing"),
        pytest.param(b'{"metadata":{"name":"a"},"spec":{"future":[[1]]}}', {}, id="what is not known is skipped"),
    ],
)
def test_objects_are_decoded(text, labels):
    for kind in (PODS, NODES):
        found = kind.decode(text)
        assert (found.name, found.labels) == ("a", labels)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"metadata":3}'], ids=["nothing", "a list", "wrong types"])
def test_what_is_no_object_is_an_error_of_ours(text):
    with pytest.raises((InputError, msgspec.ValidationError)):
        NODES.decode(text)


def test_kube_scheduler_watches_the_same_eighteen():
    assert [kind.name for kind in SCHEDULER_KINDS] == [
        "nodes",
        "namespaces",
        "services",
        "replicationcontrollers",
        "replicasets.apps",
        "statefulsets.apps",
        "poddisruptionbudgets.policy",
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "pods",
    ], "pods come last: what they refer to is known by then"


def test_pods_that_have_ended_are_not_asked_for():
    assert PODS.selectors() == {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    assert all(not kind.selectors() for kind in SCHEDULER_KINDS if kind is not PODS)


def test_a_kind_that_is_watched_for_a_plugin_is_not_watched_for_all():
    for kind in EXTRA_KINDS.values():
        assert isinstance(kind, ResourceKind)
        assert kind not in SCHEDULER_KINDS


def test_an_event_is_decoded_in_one_pass():
    event = NODES.decode_event(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}')
    assert (event.type, type(event.object), event.object.name) == ("ADDED", Node, "a")
