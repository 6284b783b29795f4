"""Plugins by name: how the configuration's words become objects. What is malformed is found here, not in a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.errors import PluginError
from mooring.framework import declarations
from mooring.framework.extension_points import has, points_of
from mooring.framework.handle import Handle
from mooring.framework.resolved import ResolvedPlugin, resolve


class Registry:
    """Plugin classes by the name that configurations use."""

    def __init__(self, plugins: Iterable[type] = ()) -> None:
        self._classes: dict[str, Any] = {}
        self._points: dict[str, frozenset[str]] = {}
        for plugin in plugins:
            self.register(plugin)

    @classmethod
    def of_checked(cls, plugins: Iterable[Any]) -> Registry:
        """A registry of classes that are known to be well-formed, and to have names of their own."""
        registry = cls()
        for plugin in plugins:
            registry._classes[plugin.name] = plugin
            registry._points[plugin.name] = points_of(plugin)
        return registry

    def register(self, plugin: Any, where: str = "") -> str:
        """Add a class under its name, which is returned, or say in one line what is wrong with it.

        The same class once more is fine. ``where`` is what the message calls the place that the class comes from.
        """
        if not isinstance(plugin, type):
            expected = type(plugin).__name__
            raise PluginError(f"plugin {where or repr(plugin)}: is an object; its class {expected} is expected")
        at = f"plugin {where}: {plugin.__qualname__}" if where else f"plugin {plugin.__module__}:{plugin.__qualname__}"
        try:
            name = declarations.check(plugin)
        except PluginError as error:
            raise PluginError(f"{at}: {error}") from None
        taken_by = self._classes.setdefault(name, plugin)
        if taken_by is not plugin:
            raise PluginError(f"{at}: the name {name!r} is taken by {taken_by.__qualname__}; choose another")
        self._points[name] = points_of(plugin)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def copy(self) -> Registry:
        """Another registry with the same classes, which have been looked at already."""
        copied = Registry()
        copied._classes.update(self._classes)
        copied._points.update(self._points)
        return copied

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def get(self, name: str) -> type:
        found: type = self._classes[name]
        return found

    def prepare(self, handle: Handle) -> None:
        """Let the classes that share something between profiles put it into the handle."""
        for plugin in self._classes.values():
            if has(plugin, "prepare"):
                plugin.prepare(handle)

    def make(self, name: str, args: Any, handle: Handle) -> ResolvedPlugin:
        """Make the plugin of this name for a profile."""
        return resolve(self._classes[name](args, handle), self._points[name])

    def points(self) -> dict[str, frozenset[str]]:
        """By name, the extension points at which each plugin can be enabled."""
        return dict(self._points)
