"""From wire to struct: nulls and unknown fields are harmless, bad types are one clear line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import KINDS, decode, from_plain, to_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object


def test_every_kind_decodes_from_nothing() -> None:
    for name, kind in KINDS.items():
        found = decode(kind, json.dumps({"kind": name, "metadata": {"name": "x", "namespace": "n"}}).encode())
        assert type(found) is kind and found.key == "n/x"


def test_unknown_fields_are_ignored() -> None:
    wire = {"spec": {"containers": [{"name": "c", "livenessProbe": {"deep": [1]}}], "novelty": {"a": 1}}, "extra": []}
    pod = decode(Pod, json.dumps(wire).encode())
    assert pod.spec.containers[0].name == "c"
    assert from_plain(Pod, wire) == pod


def test_names_are_camel_case_on_the_wire() -> None:
    wire = {
        "spec": {
            "nodeName": "n",
            "containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
            "volumes": [{"awsElasticBlockStore": {"volumeID": "v"}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        }
    }
    pod = from_plain(Pod, wire)
    assert pod.spec.node_name == "n"
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.volumes[0].aws_elastic_block_store.volume_id == "v"
    assert pod.spec.affinity.node_affinity.required is not None
    assert to_plain(pod)["spec"]["containers"][0]["ports"][0] == {"hostPort": 80, "hostIP": "10.0.0.1"}


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param({"metadata": {"name": "p", "labels": None}}, id="null labels"),
        pytest.param({"metadata": None}, id="null metadata"),
        pytest.param({"spec": {"containers": None, "tolerations": None}}, id="null lists"),
        pytest.param({"spec": {"containers": [None, {"name": "c"}]}}, id="null in a list"),
        pytest.param({"spec": {"nodeSelector": None, "priority": None}}, id="null where null is allowed"),
        pytest.param({"status": {"containerStatuses": None, "startTime": None}}, id="null status fields"),
        pytest.param({"metadata": {"labels": {"a": None, "b": "c"}}}, id="null label value"),
    ],
)
def test_nulls_count_as_absent(wire: dict[str, Any]) -> None:
    assert decode(Pod, json.dumps(wire).encode()) == from_plain(Pod, wire)


def test_numbers_of_a_persons_yaml_are_taken() -> None:
    node = from_plain(Node, {"status": {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 110, "x.io/y": 0.5}}})
    assert node.status.allocatable == {"cpu": 4, "memory": "8Gi", "pods": 110, "x.io/y": 0.5}


@pytest.mark.parametrize(
    ("wire", "needles"),
    [
        pytest.param({"metadata": {"name": "p", "namespace": "n"}, "spec": 5}, ("Pod n/p: spec: ",), id="a number"),
        pytest.param({"metadata": {"name": "p"}, "spec": {"containers": {}}}, ("Pod p", "containers"), id="a map"),
        pytest.param({"spec": {"priority": "high"}}, ("Pod without a name", "priority"), id="a word for a number"),
        pytest.param({"metadata": "p"}, ("Pod without a name", "metadata"), id="metadata that is a word"),
        pytest.param({"metadata": []}, ("Pod without a name", "metadata"), id="metadata that is a list"),
        pytest.param({"metadata": {"labels": {"a": {}}}}, ("labels",), id="a map for a label"),
        pytest.param([], ("Pod without a name",), id="a list for the whole object"),
        pytest.param("pod", ("Pod without a name",), id="a word for the whole object"),
    ],
)
def test_bad_types_are_one_clear_line(wire: Any, needles: tuple[str, ...]) -> None:
    for attempt in (lambda: from_plain(Pod, wire), lambda: decode(Pod, json.dumps(wire).encode())):
        with pytest.raises(InputError) as caught:
            attempt()
        message = str(caught.value)
        assert all(needle in message for needle in needles) and "\n" not in message


@pytest.mark.parametrize("data", [b"", b"{", b"{'a': 1}", b"\xff", b'{"metadata": '])
def test_broken_json_is_one_clear_line(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^Node: .*JSON"):
        decode(Node, data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "labels", "spec", "containers", "status", "ports"]), inner
        )
    ),
    max_leaves=12,
)


@given(_JSON, st.sampled_from(sorted(KINDS)))
def test_anything_decodes_or_is_refused_in_one_line(value: Any, kind: str) -> None:
    try:
        found = decode(KINDS[kind], json.dumps(value).encode())
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(found, Object)
