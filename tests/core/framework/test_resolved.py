"""A plugin as a profile holds it: every method looked up once, with what it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring import sdk
from mooring.api.errors import PluginError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extension_points import METHODS
from mooring.core.framework.registry import DEFAULT_TRAITS, Reads, Traits, resolve, traits_of
from mooring.core.framework.status import SUCCESS, Status
from mooring.testing import make_cluster, make_node, make_pod

INSTANCE_METHODS = [method for method in METHODS.values() if not method.is_class_method]


class Everything:
    """Has every method of the table."""

    name = "Everything"


for _method in INSTANCE_METHODS:
    setattr(Everything, _method.name, lambda self, *arguments, name=_method.name: (name, arguments))


@pytest.mark.parametrize("method", INSTANCE_METHODS, ids=lambda method: method.name)
def test_a_method_is_called_with_its_arguments(method: Any) -> None:
    found = getattr(resolve(Everything()), method.name)
    assert found(*method.arguments) == (method.name, method.arguments)


@pytest.mark.parametrize("method", INSTANCE_METHODS, ids=lambda method: method.name)
def test_a_method_that_the_class_does_not_have(made: Callable[..., Any], method: Any) -> None:
    plugin = resolve(made("Empty"))
    if method.is_optional:
        assert getattr(plugin, method.name) is None
    else:
        with pytest.raises(PluginError, match=f"plugin Empty has no {method.name}"):
            getattr(plugin, method.name)(*method.arguments)


def test_the_authors_object_stays_at_hand(made: Callable[..., Any]) -> None:
    mine = made("Mine", filter=None, score=None)
    plugin = resolve(mine)
    assert plugin.plugin is mine
    assert (plugin.name, plugin.points) == ("Mine", {"filter", "score"})
    assert repr(plugin) == "ResolvedPlugin(Mine at filter, score)"


def test_two_resolved_plugins_are_two(made: Callable[..., Any]) -> None:
    mine = made()
    assert resolve(mine) != resolve(mine), "profiles compare plugins by identity"


# ---- traits ------------------------------------------------------------------------------------------------------


class OnTheClass:
    name = "OnTheClass"
    traits = Traits(filter_reads=Reads.NODE)

    def filter(self, state: Any, pod: Any, nodes: Any) -> None: ...


class InTheConstructor(OnTheClass):
    def __init__(self) -> None:
        self.traits = Traits(filter_reads=Reads.ROW)


class PerNode(sdk.NodeFilter):
    name = "PerNode"
    traits = Traits(filter_reads=Reads.NODE)

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> Status:
        return sdk.unschedulable(f"not {node.name}") if node.name == "a" else SUCCESS


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        pytest.param(Everything(), DEFAULT_TRAITS, id="none are declared"),
        pytest.param(OnTheClass(), Traits(filter_reads=Reads.NODE), id="the class declares them"),
        pytest.param(InTheConstructor(), Traits(filter_reads=Reads.ROW), id="the constructor has the last word"),
        pytest.param(PerNode(), Traits(filter_reads=Reads.NODE, per_node=True), id="one node at a time"),
    ],
)
def test_traits_are_read_once(plugin: Any, want: Traits) -> None:
    resolved = resolve(plugin)
    assert resolved.traits == want
    if isinstance(plugin, InTheConstructor):
        plugin.traits = DEFAULT_TRAITS
        assert resolved.traits == want, "what changes later is not read"


@pytest.mark.parametrize("wrong", [None, "NODE", {"in_range": True}, Traits], ids=repr)
def test_traits_of_another_type(wrong: Any) -> None:
    with pytest.raises(PluginError, match="expected Traits\\(…\\)"):
        traits_of(type("Mine", (), {"traits": wrong}))


@pytest.mark.parametrize(
    ("answers", "traits", "can_sign"),
    [
        pytest.param({"sign": ()}, Traits(), True, id="it has sign"),
        pytest.param({}, Traits(), False, id="it has not"),
        pytest.param({"sign": None}, Traits(signs=False), False, id="it never signs"),
    ],
)
def test_who_can_sign(made: Callable[..., Any], answers: dict[str, Any], traits: Traits, can_sign: bool) -> None:
    assert resolve(made(traits=traits, filter=None, **answers)).can_sign is can_sign


# ---- adapted and wrapped -----------------------------------------------------------------------------------------


def test_a_per_node_plugin_answers_with_columns_and_its_method_stays_as_it_was() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    mine, nodes = PerNode(), cluster.snapshot()
    verdict = resolve(mine).filter(CycleState(), cluster.info(make_pod("web")), nodes)
    assert verdict is not None and verdict.ids.tolist() == [1, 0]
    assert verdict.status_of(1) == Status.unschedulable("not a")
    assert PerNode.filter is vars(PerNode)["filter"] and "filter" not in vars(mine)
    assert resolve(mine).filter.__name__ == "filter", "timing knows a method by its name"


def test_a_wrapped_method_is_called_through_the_wrapper(made: Callable[..., Any]) -> None:
    calls: list[str] = []

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(method.__name__)
            return method(*arguments)

        return call

    mine = made(filter=SUCCESS, score=np.zeros(2))
    plugin = resolve(mine)
    plugin.wrap("filter", counted)
    assert plugin.filter(*"abc") is SUCCESS and calls == ["filter"]  # type: ignore[arg-type]
    assert mine.filter() is SUCCESS and calls == ["filter"], "the author's object is left alone"


def test_an_optional_method_that_is_missing_is_not_wrapped(made: Callable[..., Any]) -> None:
    plugin = resolve(made(filter=None))
    plugin.wrap("normalize", lambda method: pytest.fail("there is nothing to wrap"))
    assert plugin.normalize is None
