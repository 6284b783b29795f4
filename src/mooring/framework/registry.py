"""Plugins by name: how the configuration's words become objects. What is malformed is found here, not in a cycle."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from mooring.errors import PluginError
from mooring.framework.handle import Handle
from mooring.framework.interfaces import POINTS

Factory = Callable[[Any, Handle], Any]

# For each method of a contract the number of arguments it is called with.
_ARGUMENTS = {
    "pre_enqueue": 1,
    "sort_key": 2,
    "pre_filter": 3,
    "filter": 3,
    "post_filter": 4,
    "pre_score": 3,
    "score": 3,
    "normalize": 4,
    "reserve": 3,
    "unreserve": 3,
    "permit": 3,
    "pre_bind_pre_flight": 3,
    "pre_bind": 3,
    "bind": 3,
    "post_bind": 3,
}


def points_of(plugin_class: type) -> frozenset[str]:
    """The extension points that a class implements, by its methods."""
    needed = {
        "preEnqueue": ("pre_enqueue",),
        "queueSort": ("sort_key",),
        "preFilter": ("pre_filter",),
        "filter": ("filter",),
        "postFilter": ("post_filter",),
        "preScore": ("pre_score",),
        "score": ("score",),
        "reserve": ("reserve", "unreserve"),
        "permit": ("permit",),
        "preBind": ("pre_bind",),
        "bind": ("bind",),
        "postBind": ("post_bind",),
    }
    assert needed.keys() == POINTS.keys()
    return frozenset(
        p for p, methods in needed.items() if all(callable(getattr(plugin_class, m, None)) for m in methods)
    )


class Registry:
    """Plugin classes by the name that configurations use."""

    def __init__(self, plugins: Mapping[str, type] | None = None) -> None:
        self._classes: dict[str, type] = {}
        for plugin in (plugins or {}).values():
            self.register(plugin)

    def register(self, plugin: type) -> None:
        """Add a class, or say in one line what is wrong with it."""
        name = getattr(plugin, "name", None)
        where = f"plugin {plugin.__module__}:{plugin.__qualname__}"
        if not isinstance(name, str) or not name:
            raise PluginError(f'{where}: has no name; give the class a line such as name = "{plugin.__name__}"')
        if name in self._classes:
            raise PluginError(
                f"{where}: the name {name!r} is taken by {self._classes[name].__qualname__}; choose another"
            )
        points = points_of(plugin)
        if not points:
            raise PluginError(f"{where}: implements no extension point; define filter, score, permit or another one")
        for method, count in _ARGUMENTS.items():
            _check_signature(plugin, method, count, where)
        self._classes[name] = plugin

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def get(self, name: str) -> type:
        return self._classes[name]

    def points(self) -> dict[str, frozenset[str]]:
        return {name: points_of(plugin) for name, plugin in self._classes.items()}

    def nearest(self, name: str) -> str | None:
        """The registered name that somebody who wrote this may have meant."""
        close = get_close_matches(name, self._classes, n=1, cutoff=0.6)
        return close[0] if close else None


def _check_signature(plugin: type, method: str, count: int, where: str) -> None:
    function = getattr(plugin, method, None)
    if function is None:
        return
    try:
        inspect.signature(function).bind(*([None] * (count + 1)))  # self and the arguments
    except TypeError as error:
        raise PluginError(f"{where}: {method} is called with {count} arguments, but {error}") from None
