"""Strategic merge: directives, nesting, mistakes. What the everyday patches do is in ``test_patch``."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.controlplane.types.patch import merge
from mooring.controlplane.types.status import StatusError

POD = "core.v1.Pod"


def merged(original: dict[str, Any], change: dict[str, Any], type_name: str = POD) -> dict[str, Any]:
    return merge(type_name, copy.deepcopy(original), copy.deepcopy(change))


@pytest.mark.parametrize(
    ("original", "change", "want"),
    [
        pytest.param({"spec": {"nodeName": "n"}}, {"$patch": "delete"}, {}, id="delete everything"),
        pytest.param(
            {"spec": {"nodeName": "n"}}, {"$patch": "replace", "kind": "Pod"}, {"kind": "Pod"}, id="replace everything"
        ),
        pytest.param(
            {"spec": {"nodeName": "n"}}, {"spec": {"$patch": "merge", "hostname": "h"}},
            {"spec": {"nodeName": "n", "hostname": "h"}}, id="merge, said in so many words",
        ),
        pytest.param(
            {"spec": {"affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 1}}}},
            {"spec": {"affinity": {"$patch": "replace", "podAntiAffinity": {"z": 1}}}},
            {"spec": {"affinity": {"podAntiAffinity": {"z": 1}}}},
            id="replace a struct",
        ),
        pytest.param(
            {"spec": {"affinity": {"nodeAffinity": {"x": 1}}}},
            {"spec": {"affinity": {"$patch": "delete"}}},
            {"spec": {"affinity": {}}},
            id="empty a struct",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"b": "2"}}},
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            id="labels merge",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}},
            {"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}},
            {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"},
                                                           {"name": "Y", "value": "2"}]}]}},
            id="a list within an item of a list",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "command": ["x"]}]}},
            {"spec": {"containers": [{"name": "a", "command": ["y", "z"]}]}},
            {"spec": {"containers": [{"name": "a", "command": ["y", "z"]}]}},
            id="a plain list is replaced",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            {"spec": {"containers": []}},
            id="all items of that key go",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a"}]}},
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "a", "image": "new"}]}},
            {"spec": {"containers": [{"name": "a", "image": "new"}]}},
            id="deleted and made again",
        ),
        pytest.param(
            {"spec": {}},
            {"spec": {"containers": [{"name": "a"}, {"name": "a", "image": "i"}]}},
            {"spec": {"containers": [{"name": "a", "image": "i"}]}},
            id="two changes of one new item",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}},
            {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "b"}]}},
            {"spec": {"containers": [{"name": "a"}, {"name": "c"}, {"name": "d"}, {"name": "b"}]}},
            id="what the order does not name stays where it stood",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            {"metadata": {"$setElementOrder/finalizers": ["a", "b", "c"]}},
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            id="an order of plain values",
        ),
        pytest.param({"spec": {}}, {"spec": {"$setElementOrder/containers": [{"name": "a"}]}}, {"spec": {}},
                     id="an order of nothing"),
        pytest.param({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, {"metadata": {}},
                     id="deleting from nothing"),
        pytest.param(
            {"spec": {"nodeName": "n", "hostname": "h"}},
            {"spec": {"$retainKeys": ["hostname"]}},
            {"spec": {"hostname": "h"}},
            id="only some keys are kept",
        ),
        pytest.param({"spec": {"x": {"y": 1}}}, {"spec": {"x": {"z": 2}}}, {"spec": {"x": {"y": 1, "z": 2}}},
                     id="an unknown field merges as a map"),
        pytest.param({"spec": {"nodeName": "n"}}, {"spec": {"nodeName": {"a": 1}}}, {"spec": {"nodeName": {"a": 1}}},
                     id="an object in place of a text"),
        pytest.param({"spec": {"volumes": None}}, {"spec": {"volumes": [{"name": "v"}]}},
                     {"spec": {"volumes": [{"name": "v"}]}}, id="a list where null was"),
    ],
)  # fmt: skip
def test_merging(original: dict[str, Any], change: dict[str, Any], want: dict[str, Any]) -> None:
    assert merged(original, change) == want


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            {"$patch": "zap"}, "unknown patch directive 'zap'; use replace, merge or delete", id="a directive"
        ),
        pytest.param({"spec": {"$retainKeys": "x"}}, "[$]retainKeys must be a list", id="keys that are no list"),
        pytest.param({"spec": {"$setElementOrder/containers": {}}}, "must be a list", id="an order that is no list"),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, "must be a list", id="deletions that are no list"
        ),
        pytest.param(
            {"metadata": {"finalizers": [{}]}}, "a list of plain values holds an object", id="a set of objects"
        ),
        pytest.param({"spec": {"containers": [1]}}, "does not contain declared merge key: name", id="a plain item"),
        pytest.param({"spec": {"containers": [{"name": None}]}}, "declared merge key: name", id="a key that is null"),
    ],
)
def test_mistakes_are_one_clear_line(change: dict[str, Any], want: str) -> None:
    with pytest.raises(StatusError, match=want) as refused:
        merged({"spec": {"containers": [{"name": "a"}]}, "metadata": {"finalizers": ["x"]}}, change)
    assert refused.value.code == 400


NAMES = st.sampled_from("abcd")
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": NAMES}), unique_by=lambda item: item["name"], max_size=4
)


@settings(max_examples=200)
@given(ITEMS, ITEMS)
def test_every_item_of_the_patch_is_in_the_result(old: list[Any], new: list[Any]) -> None:
    result = merged({"spec": {"containers": old}}, {"spec": {"containers": new}})["spec"]["containers"]
    by_name = {item["name"]: item for item in result}
    assert len(by_name) == len(result)
    assert by_name.keys() == {item["name"] for item in [*old, *new]}
    for item in new:
        assert by_name[item["name"]].items() >= item.items()


@settings(max_examples=200)
@given(ITEMS, st.permutations("abcd"))
def test_setting_an_order_moves_items_and_changes_none(items: list[Any], order: list[str]) -> None:
    change = {"spec": {"$setElementOrder/containers": [{"name": name} for name in order]}}
    result = merged({"spec": {"containers": items}}, change)["spec"]["containers"]
    assert [item["name"] for item in result] == [name for name in order if name in {i["name"] for i in items}]
    assert sorted(result, key=str) == sorted(items, key=str)
