"""The patch types, as tables."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from mooring.controlplane.types import patch, schema
from mooring.controlplane.types.patch import merge
from mooring.controlplane.types.status import StatusError

POD = "core.v1.Pod"


@pytest.mark.parametrize(
    ("document", "operations", "want"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add a member"),
        pytest.param({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="insert"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="append"),
        pytest.param({"a": 1}, [{"op": "remove", "path": "/a"}], {}, id="remove a member"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove an element"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "/a", "value": [2]}], {"a": [2]}, id="replace"),
        pytest.param({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}, id="move"),
        pytest.param({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}], {"m~n": 2}, id="an escaped slash"),
        pytest.param({"m~n": 2}, [{"op": "replace", "path": "/m~0n", "value": 3}], {"m~n": 3}, id="an escaped tilde"),
        pytest.param({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}, id="1 equals 1.0"),
        pytest.param({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}, id="null equals null"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}, id="the whole document"),
    ],
)
def test_json_patch(document: Any, operations: Any, want: Any) -> None:
    assert patch.json_patch(copy.deepcopy(document), operations) == want


@pytest.mark.parametrize(
    ("document", "operations", "code"),
    [
        pytest.param({}, {"op": "add"}, 400, id="not a list"),
        pytest.param({}, [{"op": "zap", "path": "/a"}], 400, id="an unknown operation"),
        pytest.param({}, [{"op": "add", "path": "a", "value": 1}], 400, id="a pointer without slash"),
        pytest.param({}, [{"op": "add", "path": "/a"}], 400, id="add without value"),
        pytest.param({"a": 1}, [{"op": "test", "path": "/a", "value": True}], 422, id="1 is not true"),
        pytest.param({}, [{"op": "remove", "path": "/a"}], 422, id="remove what is not there"),
        pytest.param({}, [{"op": "replace", "path": "/a", "value": 1}], 422, id="replace what is not there"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/2", "value": 1}], 422, id="beyond the end"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/01", "value": 1}], 422, id="a leading zero"),
        pytest.param({"a": 1}, [{"op": "add", "path": "/a/b", "value": 1}], 422, id="below a number"),
        pytest.param({"a": {}}, [{"op": "move", "from": "/a", "path": "/a/b"}], 422, id="into itself"),
    ],
)
def test_json_patch_refusals(document: Any, operations: Any, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        patch.json_patch(document, operations)
    assert refused.value.code == code


def doubling(times: int) -> list[Any]:
    return [{"op": "copy", "from": "/data", "path": f"/data/x{i}"} for i in range(times)]


def test_copies_of_copies_are_refused_before_they_fill_the_memory() -> None:
    document = {"data": {"key": "value" * 20}}
    with pytest.raises(StatusError, match="exceeding the limit 3145728") as refused:
        patch.json_patch(document, doubling(24))
    assert refused.value.code == 422
    assert len(json.dumps(document)) < 2 * patch.MAX_COPIED_BYTES


def test_a_few_copies_are_fine() -> None:
    assert len(json.dumps(patch.json_patch({"data": {"key": "value"}}, doubling(10)))) > 10_000


def test_many_insertions_into_a_long_list_are_refused() -> None:
    document = {"a": [0] * 100_000}
    operations = [{"op": "add", "path": "/a/0", "value": 1}] * 1_000
    with pytest.raises(StatusError, match="too often in a list that is too long"):
        patch.json_patch(document, operations)
    assert len(document["a"]) < 100_500


def test_moving_does_not_copy() -> None:
    big = ["x"] * 100_000
    operations = [{"op": "move", "from": f"/{i}", "path": f"/{i + 1}"} for i in range(5_000)]
    assert patch.json_patch({"0": big}, operations) == {"5000": big}


@pytest.mark.parametrize("content_type", [patch.JSON, patch.MERGE, patch.STRATEGIC])
def test_a_patch_that_nests_too_deeply_is_refused(content_type: str) -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    body: Any = deep
    if content_type == patch.JSON:
        steps = [{"op": "add", "path": "/a" * (400 * i) or "/a", "value": deep} for i in range(10)]
        body = [*steps, {"op": "copy", "from": "", "path": "/b"}]
    with pytest.raises(StatusError) as refused:
        result = patch.patched(content_type, POD, {"a": {}}, json.dumps(body).encode())
        schema.check(POD, result, "Pod", "v1")
        raise StatusError(400, "BadRequest", "only an unknown field")
    assert refused.value.code < 500


class Counted(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda names: {"containers": [{"name": name, "image": "i"} for name in names]}, id="merging"),
        pytest.param(
            lambda names: {"containers": [{"name": name, "$patch": "delete"} for name in names]}, id="deleting"
        ),
        pytest.param(
            lambda names: {"$setElementOrder/containers": [{"name": name} for name in reversed(names)]}, id="ordering"
        ),
        pytest.param(lambda names: {"$retainKeys": list(names)}, id="retaining"),
    ],
)
def test_the_work_of_a_strategic_merge_grows_with_its_size_only(change: Any) -> None:
    size = 400
    old = [{"name": Counted(f"c{i}"), "image": "old"} for i in range(size)]
    spec = {Counted(f"c{i}"): 1 for i in range(size)} | {"containers": old}
    Counted.comparisons = 0
    merge(POD, {"spec": spec}, {"spec": change([Counted(f"c{i}") for i in range(size)])})
    assert Counted.comparisons < 10 * size


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(b"[" * 50_000, "nested too deeply", id="only brackets"),
        pytest.param(b"a: " + b"[" * 50_000, "nested too deeply", id="brackets below a key"),
        pytest.param(
            b"a: &a [" + b"x, " * 999 + b"x]\nb: &b [" + b"*a, " * 999 + b"*a]\nc: [" + b"*b, " * 9 + b"*b]",
            "aliases make this document too large",
            id="aliases of aliases",
        ),
        pytest.param(b"a: 1\n---\nb: 2\n", "a second document starts here", id="two documents"),
        pytest.param(b"a: '", "not valid YAML", id="an open quote"),
        pytest.param(b"a: \xff", "not UTF-8", id="not text"),
    ],
)
def test_yaml_that_cannot_be_applied_is_one_clear_line(text: bytes, want: str) -> None:
    with pytest.raises(StatusError, match=want) as refused:
        patch.yaml_to_json(text)
    assert refused.value.code == 400
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(b"a: 2001-01-01", {"a": "2001-01-01"}, id="a date is a string"),
        pytest.param(b"a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias is followed"),
        pytest.param(b"a: 1e3", {"a": 1000.0}, id="an exponent makes a number"),
        pytest.param(b' {"a": 1}', {"a": 1}, id="JSON stays JSON"),
    ],
)
def test_yaml_is_read_as_kubectl_reads_it(text: bytes, want: Any) -> None:
    assert json.loads(patch.yaml_to_json(text)) == want


@pytest.mark.parametrize(
    ("target", "change", "want"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list becomes a string"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists replace"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls do not appear"),
    ],
)
def test_merge_patch_as_in_the_rfc(target: Any, change: Any, want: Any) -> None:
    assert patch.merge_patch(target, change) == want


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


@pytest.mark.parametrize(
    ("original", "change", "want"),
    [
        pytest.param(
            {"spec": {"containers": containers("a", "b")}},
            {"spec": {"containers": [{"name": "b", "image": "b:2"}]}},
            {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}},
            id="containers merge by name",
        ),
        pytest.param(
            {"spec": {"containers": containers("a", "b")}},
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            {"spec": {"containers": containers("b")}},
            id="an element is deleted by key",
        ),
        pytest.param(
            {"spec": {"containers": containers("a", "b")}},
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            {"spec": {"containers": [{"name": "c"}]}},
            id="a list is replaced on request",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1", "b": "2"}}},
            {"spec": {"nodeSelector": {"$patch": "replace", "c": "3"}}},
            {"spec": {"nodeSelector": {"c": "3"}}},
            id="a map is replaced on request",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1", "b": "2"}}},
            {"spec": {"nodeSelector": {"a": None}}},
            {"spec": {"nodeSelector": {"b": "2"}}},
            id="null removes a key",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations have no merge key and are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x/a", "x/b"]}},
            {"metadata": {"finalizers": ["x/c", "x/a"]}},
            {"metadata": {"finalizers": ["x/a", "x/b", "x/c"]}},
            id="finalizers are a set",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x/a", "x/b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}},
            {"metadata": {"finalizers": ["x/b"]}},
            id="a value is taken out of a set",
        ),
        pytest.param(
            {"spec": {"containers": containers("a", "b", "c")}},
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}},
            {"spec": {"containers": containers("c", "a", "b")}},
            id="the order is set without other changes",
        ),
        pytest.param(
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False"}]
                }
            },
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
                    "conditions": [{"type": "PodScheduled", "message": "new"}],
                }
            },
            {
                "status": {
                    "conditions": [
                        {"type": "Ready", "status": "True"},
                        {"type": "PodScheduled", "status": "False", "message": "new"},
                    ]
                }
            },
            id="the scheduler's difference of conditions",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
            id="a volume changes its source",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}},
            {
                "spec": {
                    "containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "w"}, {"containerPort": 81}]}]
                }
            },
            {
                "spec": {
                    "containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "w"}, {"containerPort": 81}]}]
                }
            },
            id="ports merge by number",
        ),
    ],
)
def test_strategic_merge_patch(original: Any, change: Any, want: Any) -> None:
    got = patch.patched(patch.STRATEGIC, POD, copy.deepcopy(original), json.dumps(change).encode())
    assert got == want


def test_a_merge_list_element_without_its_key_is_refused() -> None:
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        patch.patched(patch.STRATEGIC, POD, {"spec": {}}, b'{"spec":{"containers":[{"image":"x"}]}}')
