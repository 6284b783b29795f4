"""Strict decoding: shapes, unknown fields, nulls, and the words of a mismatch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.controlplane.types import schema
from mooring.controlplane.types.status import StatusError

POD = "core.v1.Pod"


def decode(obj: Any, type_name: str = POD) -> tuple[dict[str, Any], list[str]]:
    return schema.decode(type_name, json.dumps(obj).encode(), "Pod", "v1")


@pytest.mark.parametrize(
    ("obj", "want", "unknown"),
    [
        pytest.param({"spec": {"nodeName": "n"}}, {"spec": {"nodeName": "n"}}, [], id="what fits stays"),
        pytest.param({"spek": 1}, {}, ["spek"], id="an unknown field goes"),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "imagge": "i"}]}},
            {"spec": {"containers": [{"name": "a"}]}},
            ["spec.containers[0].imagge"],
            id="below a list, with its place",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b"}, "lables": {}}},
            {"metadata": {"labels": {"a": "b"}}},
            ["metadata.lables"],
            id="keys of maps are free",
        ),
        pytest.param({"spec": None, "metadata": {"name": None}}, {"metadata": {}}, [], id="nulls are left out"),
        pytest.param(
            {"spec": {"containers": [None]}, "x": 1},
            {"spec": {"containers": [{}]}},
            ["x"],
            id="null in a list is empty",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": None}}, "x": 1},
            {"metadata": {"labels": {"a": ""}}},
            ["x"],
            id="null in a map is its zero",
        ),
        pytest.param(
            {"spec": {"containers": [{"ports": [{"containerPort": 80}]}]}},
            {"spec": {"containers": [{"ports": [{"containerPort": 80}]}]}},
            [],
            id="numbers",
        ),
    ],
)
def test_decoding(obj: Any, want: Any, unknown: list[str]) -> None:
    assert decode(obj) == (want, unknown)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param([], "cannot unmarshal array into Go struct field Pod of type v1.Pod", id="an array"),
        pytest.param("x", "cannot unmarshal string into Go struct field Pod of type v1.Pod", id="a text"),
        pytest.param(
            {"spec": "x"}, "cannot unmarshal string into Go struct field spec of type v1.PodSpec", id="a spec"
        ),
        pytest.param(
            {"spec": {"containers": {}}},
            "cannot unmarshal object into Go struct field spec.containers of type []v1.Container",
            id="an object for a list",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}},
            "cannot unmarshal number into Go struct field metadata.labels.a of type string",
            id="a number for a label",
        ),
        pytest.param(
            {"metadata": {"labels": []}},
            "cannot unmarshal array into Go struct field metadata.labels of type map[string]string",
            id="a list for labels",
        ),
        pytest.param(
            {"spec": {"hostNetwork": "true"}},
            "cannot unmarshal string into Go struct field spec.hostNetwork of type bool",
            id="a text for a boolean",
        ),
        pytest.param(
            {"spec": {"priority": 2**31}},
            "cannot unmarshal number into Go struct field spec.priority of type int32",
            id="a number that is too large",
        ),
        pytest.param(
            {"spec": {"priority": True}},
            "cannot unmarshal bool into Go struct field spec.priority of type int32",
            id="a boolean for a small number",
        ),
        pytest.param(
            {"spec": {"priority": 1.5}},
            "cannot unmarshal number into Go struct field spec.priority of type int32",
            id="a fraction",
        ),
        pytest.param(
            {"spec": {"terminationGracePeriodSeconds": True}},
            "cannot unmarshal bool into Go struct field spec.terminationGracePeriodSeconds of type int64",
            id="a boolean for a number",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": 5}},
            "cannot unmarshal number into Go struct field metadata.creationTimestamp of type Time",
            id="a number for a time",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": True}}},
            "cannot unmarshal bool into Go struct field spec.overhead.cpu of type resource.Quantity",
            id="a boolean for a quantity",
        ),
    ],
)
def test_a_mismatch_in_the_words_of_go(obj: Any, want: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode(obj)
    assert refused.value.code == 400
    assert str(refused.value) == f'Pod in version "v1" cannot be handled as a Pod: json: {want}'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="an open brace"),
        pytest.param(b'{"a": \xff}', id="not UTF-8"),
        pytest.param(b"[" * 5000, id="many brackets"),
        pytest.param(b'{"spec":' * 2000 + b"1" + b"}" * 2000, id="many levels"),
    ],
)
def test_what_is_not_json_is_one_clear_line(body: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        schema.decode(POD, body, "Pod", "v1")
    assert refused.value.code == 400
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [pytest.param("1", id="a text"), pytest.param(1, id="a number"), pytest.param(0.5, id="a fraction")],
)
def test_a_quantity_may_be_text_or_number(value: Any) -> None:
    obj = {"spec": {"overhead": {"cpu": value}}}
    assert decode(obj) == (obj, [])


@pytest.mark.parametrize(("value", "fits"), [("80%", True), (80, True), (2**31, False), (1.5, False), (True, False)])
def test_a_number_or_a_text(value: Any, fits: bool) -> None:
    obj = {"spec": {"minAvailable": value}}
    body = json.dumps(obj).encode()
    if fits:
        assert schema.decode("policy.v1.PodDisruptionBudget", body, "PodDisruptionBudget", "v1") == (obj, [])
    else:
        with pytest.raises(StatusError):
            schema.decode("policy.v1.PodDisruptionBudget", body, "PodDisruptionBudget", "v1")


def test_checking_an_object_cleans_it_in_place() -> None:
    obj = {"metadata": {"name": "a", "labels": None}, "gadget": 1}
    assert schema.check(POD, obj, "Pod", "v1") == ["gadget"]
    assert obj == {"metadata": {"name": "a"}}


def test_what_cannot_be_written_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(StatusError, match="cannot be written as JSON"):
        schema.check(POD, {"metadata": {"managedFields": [{"fieldsV1": deep}]}}, "Pod", "v1")


@pytest.mark.parametrize(
    ("group", "version", "kind", "want"),
    [
        ("", "v1", "Pod", "core.v1.Pod"),
        ("apps", "v1", "Deployment", "apps.v1.Deployment"),
        ("rbac.authorization.k8s.io", "v1", "Role", "rbac.v1.Role"),
        ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "scheduling-x.v1alpha1.PodGroup"),
    ],
)
def test_the_short_name_of_a_type(group: str, version: str, kind: str, want: str) -> None:
    assert schema.type_name(group, version, kind) == want
    assert want in schema.types()


def test_every_type_that_a_field_names_is_described() -> None:
    types = schema.types()
    missing = {
        f"{name}.{known.name}: {known.type}"
        for name, described in types.items()
        for known in described.fields.values()
        if known.element.lstrip("[]{}") not in types and known.element.lstrip("[]{}") not in schema.SCALARS
    }
    assert missing == set()


def test_list_keys_are_fields_of_the_elements() -> None:
    types = schema.types()
    for described in types.values():
        for known in described.fields.values():
            if known.list_keys:
                assert set(known.list_keys) <= types[known.element].fields.keys(), (described.name, known.name)
            if known.merge_key:
                assert known.merge_key in types[known.element].fields, (described.name, known.name)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": None, "labels": {"a": None}}, "spec": None}, id="fields and map values"),
        pytest.param({"spec": {"containers": [None, {"name": "c", "args": [None, "x"]}]}}, id="items of lists"),
        pytest.param({"spec": {"containers": [{"resources": {"limits": {"cpu": None}}}]}}, id="a quantity"),
        pytest.param({"metadata": {"managedFields": [{"fieldsV1": {"f:a": None}}]}}, id="free form is left alone"),
        pytest.param({"metadata": {"annotations": {"a": "null"}}}, id="only a word"),
    ],
)
def test_the_fast_path_drops_the_same_nulls(body: dict[str, Any]) -> None:
    encoded = json.dumps(body).encode()
    quick, unknown = schema.decode(POD, encoded, "Pod", "v1")
    slow = json.loads(encoded)
    assert unknown == schema.normalize(POD, slow, "Pod", "v1") == []
    assert quick == slow
