"""Equal parts of pods become one object; unequal ones stay apart; nothing a pod says changes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.net.kinds import PODS, SHORT_BYTES, PodEvents, PodSharing
from mooring.net.watch_events import EventReader, TypedEvent


def make(name: str, *, cpu: str = "1", app: str = "web", node: str = "") -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
    }
    return msgspec.convert(document, Pod)


def test_pods_of_one_template_share():
    share = PodSharing()
    one, two = make("one", node="a"), make("two", node="b")
    for pod in (one, two):
        share(pod)
    assert one.spec.containers is two.spec.containers
    assert one.spec.tolerations is two.spec.tolerations
    assert one.metadata.labels is two.metadata.labels
    assert (one.spec.node_name, two.spec.node_name) == ("a", "b")


def test_what_differs_stays_apart():
    share = PodSharing()
    one, two, three = make("one"), make("two", cpu="2"), make("three", app="db")
    for pod in (one, two, three):
        share(pod)
    assert one.spec.containers is not two.spec.containers
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.labels is not three.metadata.labels
    assert one.spec.containers is three.spec.containers


def test_the_memory_is_bounded():
    share = PodSharing(limit=10)
    for number in range(100):
        share(make("x", app=str(number)))
    assert len(share) <= 10


def test_large_parts_are_remembered_for_less_long():
    """Jobs whose pods are all different: what they leave behind is bounded in bytes, not only in number."""
    share = PodSharing(limit_bytes=10_000)
    for number in range(100):
        share(make("x", app=f"{number:01000}"))
    assert 2 <= len(share) <= 12


words = st.sampled_from(["", "a", "b", "1", "100m"])


@settings(max_examples=200, deadline=None)
@given(pods=st.lists(st.tuples(words, words, words), max_size=8))
def test_no_pod_changes(pods):
    share = PodSharing()
    for name, cpu, app in pods:
        pod = make(name, cpu=cpu, app=app)
        before = msgspec.json.encode(pod)
        share(pod)
        assert msgspec.json.encode(pod) == before


def line(pod: dict[str, object], type_: str = "ADDED") -> bytes:
    return msgspec.json.encode({"type": type_, "object": pod})


def document(name: str, spec: dict[str, object]) -> dict[str, object]:
    meta = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]


@pytest.mark.parametrize("is_last", [False, True], ids=["as kube-apiserver writes it", "as the embedded one does"])
def test_a_spec_that_came_before_is_not_decoded_again(is_last):
    read = PodEvents(PodSharing())
    spec = {"containers": CONTAINERS, "dnsPolicy": "ClusterFirst", "securityContext": {}}
    bound = {"containers": CONTAINERS, "dnsPolicy": "ClusterFirst", "nodeName": "n1", "securityContext": {}}
    if is_last:
        bound = {**spec, "nodeName": "n1"}
    one, two = (read(line(document(name, spec))).object for name in ("one", "two"))
    three = read(line(document("one", bound), "MODIFIED"))
    assert one.spec is two.spec
    assert one.metadata.labels is two.metadata.labels
    assert len(read) == 1, "also the bound one was known but for its node"
    assert (three.type, three.object.spec.node_name, one.spec.node_name) == ("MODIFIED", "n1", "")
    assert three.object.spec.containers is one.spec.containers
    assert three.object.spec.volumes is one.spec.volumes


def test_the_scheduler_reads_pods_so():
    spec = {"containers": CONTAINERS, "schedulerName": "shared"}
    one, two = (EventReader(PODS).read(line(document(name, spec)))[1] for name in ("one", "two"))
    assert one is not None and two is not None and one.spec is two.spec
    assert one.status.container_statuses is two.status.container_statuses


def test_remembered_specs_are_bounded():
    read = PodEvents(PodSharing(), limit=10, limit_bytes=2_000)
    for number in range(100):
        read(line(document("x", {"schedulerName": f"{number:0{number}}"})))
        assert len(read) <= 10
    assert len(read) < 30


maps = st.dictionaries(
    st.sampled_from(["nodeName", "zone", "a\\b", '"nodeName":"n1",']), st.sampled_from(["n1", "n2", "", '"'])
)


@settings(max_examples=300, deadline=None)
@given(
    pods=st.lists(
        st.tuples(st.sampled_from([None, "", "n1", "n2", 'a"b']), maps, st.booleans(), st.sampled_from(["", "x"])),
        max_size=8,
    )
)
def test_events_are_read_as_if_nothing_were_remembered(pods):
    """Also where a selector has a key like the node's, and whichever of them comes first."""
    read, plain = PodEvents(PodSharing()), msgspec.json.Decoder(TypedEvent[Pod]).decode
    for node, selector, is_last, scheduler in pods:
        spec: dict[str, object] = {"nodeSelector": selector, "containers": CONTAINERS, "schedulerName": scheduler}
        if node is not None:
            spec = {**spec, "nodeName": node} if is_last else {"nodeName": node, **spec}
        written = line(document("x", spec))
        assert msgspec.json.encode(read(written).object) == msgspec.json.encode(plain(written).object)


def event_of(name: str, status: dict[str, object]) -> bytes:
    document = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": status}
    return msgspec.json.encode({"type": "MODIFIED", "object": document})


def test_short_statuses_that_are_equal_are_one_object():
    events = PodEvents(PodSharing())
    bound = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    one, two = (events(event_of(name, bound)).object for name in ("one", "two"))
    three = events(event_of("three", {**bound, "nominatedNodeName": "n"})).object
    assert one.status is two.status
    assert one.status.conditions[0].type == "PodScheduled"
    assert (one.status.nominated_node_name, three.status.nominated_node_name) == ("", "n")


def test_long_statuses_are_not_remembered():
    events = PodEvents(PodSharing())
    long = {"phase": "Running", "message": "x" * SHORT_BYTES}
    one, two = (events(event_of(name, long)).object for name in ("one", "two"))
    assert one.status == two.status and one.status is not two.status
