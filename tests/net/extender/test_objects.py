"""Whole objects beside the structs that scheduling reads."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.net.extender.wire import RawObjects, StructSource, without_type


def test_an_object_of_another_version_is_not_passed_off_as_this_one() -> None:
    raw = RawObjects()
    old = from_plain(Node, {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"podCIDR": "x"}})
    raw.put(old, {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"podCIDR": "x"}})
    assert b"podCIDR" in raw.node_json(old)
    new = from_plain(Node, {"metadata": {"name": "a", "resourceVersion": "2"}})
    assert b"podCIDR" not in raw.node_json(new) and b'"resourceVersion":"2"' in raw.node_json(new)
    raw.forget(new)
    assert len(raw) == 0


def test_an_assumed_pod_is_sent_with_its_node() -> None:
    raw = RawObjects()
    decoded = raw.decoder(Pod)(b'{"metadata":{"name":"p","resourceVersion":"1"},"spec":{"x":1}}')
    assert raw.pod_json(decoded) == b'{"metadata":{"name":"p","resourceVersion":"1"},"spec":{"x":1}}'
    decoded.spec.node_name = "n"
    assert raw.pod_json(decoded) == b'{"metadata":{"name":"p","resourceVersion":"1"},"spec":{"x":1,"nodeName":"n"}}'


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(b'{"metadata":{"name":"a"},"spec":{}}', b'{"metadata":{"name":"a"},"spec":{}}', id="no type"),
        pytest.param(
            b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"x":1}]},"spec":{}}',
            b'{"metadata":{"name":"a"},"spec":{}}',
            id="kind, version and managed fields go",
        ),
        pytest.param(
            b'{"metadata":{"annotations":{"a":"\\"managedFields\\""}}}',
            b'{"metadata":{"annotations":{"a":"\\"managedFields\\""}}}',
            id="the words in a text stay",
        ),
        pytest.param(b'{"spec":{"unknown":[1,2.50,null]}}', b'{"spec":{"unknown":[1,2.50,null]}}', id="byte for byte"),
        pytest.param(b"{}", b"{}", id="nothing"),
    ],
)
def test_what_is_not_sent(given: bytes, want: bytes) -> None:
    assert without_type(given) == want


def test_an_object_that_was_decoded_comes_back_whole_until_it_is_forgotten() -> None:
    raw = RawObjects()
    data = b'{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"nobodyReadsThis":true}}'
    node = raw.decoder(Node)(data)
    assert raw.node_json(node) == data and len(raw) == 1
    raw.forget(node)
    assert b"nobodyReadsThis" not in raw.node_json(node)


def test_a_pod_and_a_node_of_one_name_are_two_objects() -> None:
    raw = RawObjects()
    node = raw.decoder(Node)(b'{"metadata":{"name":"a"},"spec":{"n":1}}')
    pod = raw.decoder(Pod)(b'{"metadata":{"name":"a"},"spec":{"p":1}}')
    assert (raw.node_json(node), raw.pod_json(pod)) == (
        b'{"metadata":{"name":"a"},"spec":{"n":1}}',
        b'{"metadata":{"name":"a"},"spec":{"p":1}}',
    )


def test_structs_are_written_as_they_are() -> None:
    node = from_plain(Node, {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"nobodyReadsThis": True}})
    value = msgspec.json.decode(StructSource().node_json(node))
    assert value["metadata"]["labels"] == {"x": "y"} and "kind" not in value and "nobodyReadsThis" not in str(value)
    pod = from_plain(Pod, {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}})
    assert msgspec.json.decode(StructSource().pod_json(pod))["spec"]["nodeName"] == "a"
