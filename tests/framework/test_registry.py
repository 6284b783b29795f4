"""What is malformed is found when a plugin is registered, in one line, not in a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import ConfigError, PluginError
from mooring.framework.extension_points import points_of
from mooring.framework.registry import Registry
from mooring.plugins.in_tree import IN_TREE, in_tree_registry
from mooring.testing import Scheduler


def plugin(name: str = "Mine", **methods: Any) -> type:
    def __init__(self: Any, args: Any, handle: Any) -> None: ...

    return type(name, (), {"name": name, "__init__": __init__, **methods})


def three(self: Any, state: Any, pod: Any, nodes: Any) -> None: ...


@pytest.mark.parametrize(
    ("made", "needle"),
    [
        pytest.param(
            type("Nameless", (), {"filter": three}),
            'has no name; give the class a line such as name = "Nameless"',
            id="no name",
        ),
        pytest.param(type("Odd", (), {"name": 5, "filter": three}), "has no name", id="a name that is no text"),
        pytest.param(plugin("Idle"), "implements no extension point", id="no extension point"),
        pytest.param(
            plugin(reserve=three),
            "does not define def unreserve(self, state, pod, node_name)",
            id="reserve without unreserve",
        ),
        pytest.param(
            plugin(filter=lambda self, pod: None),
            "filter(self, pod) cannot be called; def filter(self, state, pod, nodes) is expected",
            id="too few arguments",
        ),
        pytest.param(
            plugin(score=lambda self, a, b, c, d: None),
            "score(self, a, b, c, d) cannot be called; def score(self, state, pod, nodes) is expected",
            id="too many",
        ),
    ],
)
def test_malformed_plugins(made: type, needle: str) -> None:
    with pytest.raises(PluginError) as caught:
        Registry().register(made)
    assert needle in str(caught.value) and made.__qualname__ in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_is_taken_once() -> None:
    registry = in_tree_registry()
    with pytest.raises(PluginError, match="the name 'NodeName' is taken by NodeName; choose another"):
        registry.register(plugin("NodeName", filter=three))


def test_optional_arguments_are_fine() -> None:
    registry = Registry()
    registry.register(plugin(filter=lambda self, state, pod, nodes, more=1: None))
    assert "Mine" in registry and list(registry) == ["Mine"]


def test_points_are_found_by_methods() -> None:
    assert points_of(plugin(filter=three, score=three)) == {"filter", "score"}
    assert points_of(plugin(reserve=three, unreserve=three)) == {"reserve"}


def test_in_tree_plugins_are_called_as_their_classes() -> None:
    registry = in_tree_registry()
    assert {p.__name__ for p in IN_TREE} <= set(registry)
    assert all(registry.get(name).__name__ == name for name in registry)


def test_nearest_name() -> None:
    registry = in_tree_registry()
    assert registry.nearest("NodeAfinity") == "NodeAffinity"
    assert registry.nearest("Zzz") is None


def test_an_unknown_plugin_in_a_configuration_is_answered_with_a_guess() -> None:
    config = {
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "NodePort"}]}}}]
    }
    with pytest.raises(ConfigError, match="NodePorts"):
        Scheduler(config=config)
