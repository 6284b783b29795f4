"""Equal parts of pods become one object; unequal ones stay apart; nothing a pod says changes."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.client.sharing import PodSharing


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
