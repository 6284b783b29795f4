"""Plugins by name: what is registered, what is refused, what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.errors import ConfigError, PluginError
from mooring.core.engine.in_tree import IN_TREE, OPTIONAL, in_tree_registry
from mooring.core.framework.registry import Registry, ResolvedPlugin
from mooring.testing import Scheduler, make_cluster, make_handle


class Quiet:
    name = "Quiet"

    def __init__(self, args: Any, handle: Any) -> None:
        self.args_given, self.handle = args, handle

    def filter(self, state: Any, pod: Any, nodes: Any) -> None: ...


class Loud(Quiet):
    name = "Loud"

    def score(self, state: Any, pod: Any, nodes: Any) -> None: ...


class Misspelt(Quiet):
    trait = None


def test_a_class_is_found_by_its_name() -> None:
    registry = Registry([Quiet])
    assert registry.register(Loud) == "Loud"
    assert list(registry) == ["Quiet", "Loud"]
    assert "Loud" in registry and "Silent" not in registry
    assert registry.get("Quiet") is Quiet


def test_the_points_of_all_plugins() -> None:
    assert Registry([Quiet, Loud]).points() == {"Quiet": {"filter"}, "Loud": {"filter", "score"}}


def test_a_name_is_taken_once() -> None:
    other = type("Other", (Quiet,), {})
    with pytest.raises(PluginError, match="Other: the name 'Quiet' is taken by Quiet; choose another"):
        Registry([Quiet, other])


def test_the_same_class_twice_is_fine() -> None:
    registry = Registry([Quiet])
    assert registry.register(Quiet) == "Quiet"
    assert list(registry) == ["Quiet"]


@pytest.mark.parametrize(
    ("where", "start"),
    [
        pytest.param("", f"plugin {Misspelt.__module__}:Misspelt: ", id="a class says where it is defined"),
        pytest.param("mine.py", "plugin mine.py: Misspelt: ", id="a file is named as the user named it"),
    ],
)
def test_a_refusal_begins_with_the_place(where: str, start: str) -> None:
    registry = Registry()
    with pytest.raises(PluginError) as caught:
        registry.register(Misspelt, where)
    assert str(caught.value).startswith(start + "has trait, which is never read; did you mean traits?")
    assert "Quiet" not in registry


@pytest.mark.parametrize(
    ("thing", "where", "message"),
    [
        pytest.param(Quiet(None, None), "mine.py", "plugin mine.py: is an object; expected its class Quiet", id="made"),
        pytest.param("Quiet", "", "plugin 'Quiet': is an object; expected its class str", id="a name"),
    ],
)
def test_an_object_instead_of_its_class(thing: Any, where: str, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        Registry().register(thing, where)
    assert str(caught.value) == message


def test_a_plugin_is_made_with_its_arguments_and_the_handle() -> None:
    handle = make_handle(make_cluster())
    made = Registry([Quiet]).make("Quiet", {"size": 3}, handle)
    assert isinstance(made, ResolvedPlugin) and isinstance(made.plugin, Quiet)
    assert made.plugin.args_given == {"size": 3} and made.plugin.handle is handle


def test_classes_that_share_something_prepare_the_handle() -> None:
    class Sharing(Quiet):
        name = "Sharing"

        @classmethod
        def prepare(cls, handle: Any) -> None:
            handle.pods = {"shared": cls}

    handle = make_handle(make_cluster())
    Registry([Quiet, Sharing]).prepare(handle)
    assert handle.pods == {"shared": Sharing}


def test_in_tree_plugins_are_called_as_their_classes() -> None:
    registry = in_tree_registry()
    assert list(registry) == [plugin.__name__ for plugin in (*IN_TREE, *OPTIONAL)]
    assert all(registry.get(name).__name__ == name for name in registry)


def test_an_unknown_plugin_in_a_configuration_is_answered_with_a_guess() -> None:
    config = {
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "NodePort"}]}}}]
    }
    with pytest.raises(ConfigError, match="NodePorts"):
        Scheduler(config=config)


def test_wrong_traits_of_an_object_are_a_mistake_of_its_profile() -> None:
    """A constructor may set traits; what is wrong with them shows when the profile is built."""

    class Vague(Quiet):
        name = "Vague"

        def __init__(self, args: Any, handle: Any) -> None:
            self.traits = {"per_node": True}

    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Vague"}]}}}]}
    with pytest.raises(ConfigError) as caught:
        Scheduler(config=config, plugins=[Vague])
    assert str(caught.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        "initializing plugin \"Vague\": traits is {'per_node': True}; expected Traits(…)"
    )


def test_what_is_added_to_one_registry_is_in_no_other() -> None:
    mine = in_tree_registry()
    mine.register(Quiet)
    assert "Quiet" in mine
    assert "Quiet" not in in_tree_registry()
    assert list(in_tree_registry()) == [plugin.name for plugin in (*IN_TREE, *OPTIONAL)]  # type: ignore[attr-defined]
