"""How a function says what it wants to be called with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from mooring.api.core import Node, Pod
from mooring.api.errors import PluginError
from mooring.net.extender.sdk import called, pod_type_of, shape_of


class Small(msgspec.Struct):
    name: str = ""


def per_node(pod: Pod, node: Node) -> bool: ...  # type: ignore[empty-body]
def untyped_node(pod, node): ...  # type: ignore[no-untyped-def]
def untyped_nodes(pod, nodes): ...  # type: ignore[no-untyped-def]
def name(pod: Pod, node: str) -> bool: ...  # type: ignore[empty-body]
def names(pod: Pod, nodes: list[str]) -> list[str]: ...  # type: ignore[empty-body]
def sequence(pod: Pod, nodes: Sequence[Node]) -> list[Node]: ...  # type: ignore[empty-body]
def iterable(pod: Pod, nodes: Iterable[str]) -> list[str]: ...  # type: ignore[empty-body]
def bare_list(pod: Pod, nodes: list) -> list: ...  # type: ignore[empty-body, type-arg]
def plain(pod: dict, node: dict) -> bool: ...  # type: ignore[empty-body, type-arg]
def mappings(pod: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> bool: ...  # type: ignore[empty-body]
def own(pod: Small, nodes: list[Small]) -> bool: ...  # type: ignore[empty-body]
def anything(pod: Any, node: Any) -> bool: ...  # type: ignore[empty-body]
def with_default(pod: Pod, node: str, log: bool = False) -> bool: ...  # type: ignore[empty-body]


PLAIN = dict[str, Any]


@pytest.mark.parametrize(
    ("function", "pod", "node", "is_per_node"),
    [
        pytest.param(per_node, Pod, Node, True, id="a node"),
        pytest.param(untyped_node, Pod, Node, True, id="a node without a type"),
        pytest.param(untyped_nodes, Pod, Node, False, id="nodes without a type"),
        pytest.param(name, Pod, str, True, id="a name"),
        pytest.param(names, Pod, str, False, id="names"),
        pytest.param(sequence, Pod, Node, False, id="a sequence of nodes"),
        pytest.param(iterable, Pod, str, False, id="anything with names in it"),
        pytest.param(bare_list, Pod, Node, False, id="a list of anything"),
        pytest.param(plain, PLAIN, PLAIN, True, id="plain data"),
        pytest.param(mappings, PLAIN, PLAIN, False, id="mappings"),
        pytest.param(own, Small, Small, False, id="types of one's own"),
        pytest.param(anything, Pod, Node, True, id="no particular type"),
        pytest.param(with_default, Pod, str, True, id="another parameter with a default"),
    ],
)
def test_shapes(function: Callable[..., Any], pod: Any, node: Any, is_per_node: bool) -> None:
    shape = shape_of(function, "f")
    assert (shape.pod_type, shape.node_type, shape.is_per_node) == (pod, node, is_per_node)
    assert shape.wants_names is (node is str)


def no_nodes(pod: Pod) -> bool: ...  # type: ignore[empty-body]
def nothing() -> bool: ...  # type: ignore[empty-body]
def other_words(a: Pod, b: Node) -> bool: ...  # type: ignore[empty-body]
def too_many(pod: Pod, node: Node, extra: int) -> bool: ...  # type: ignore[empty-body]
def unreadable(pod: Pod, node: list[bytes] | list[int]) -> bool: ...  # type: ignore[empty-body]
def unreadable_pod(pod: list[bytes] | list[int], node: Node) -> bool: ...  # type: ignore[empty-body]
def unknown(pod: Pod, node: Nodee) -> bool: ...  # type: ignore[empty-body, name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "said"),
    [
        pytest.param(nothing, "f(): its parameters should be (pod, node) or (pod, nodes)", id="no parameters"),
        pytest.param(no_nodes, "f(pod): its parameters should be (pod, node) or (pod, nodes)", id="no nodes"),
        pytest.param(other_words, "f(a, b): its parameters should be", id="other words"),
        pytest.param(too_many, "f(pod, node, extra): its parameters should be", id="one too many"),
        pytest.param(unreadable, "f: a node cannot be read as list[bytes] | list[int]", id="no type for a node"),
        pytest.param(unreadable_pod, "f: a pod cannot be read as list[bytes] | list[int]", id="no type for a pod"),
        pytest.param(unknown, "f: its type hints cannot be read: name 'Nodee' is not defined", id="an unknown type"),
    ],
)
def test_signatures_that_are_none(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(PluginError) as caught:
        shape_of(function, "f")
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("function", "want"), [(names, Pod), (plain, PLAIN), (own, Small), (untyped_node, Pod)])
def test_what_a_pod_is_read_as(function: Callable[..., Any], want: Any) -> None:
    assert pod_type_of(function, "pod", "f") == want


def test_a_coroutine_function_is_run_to_its_end() -> None:
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    assert called(add)(2, 3) == 5
    assert called(len) is len
