"""Plugins from outside: by ``module:Class``, by path to a file, or by entry point. Mistakes are one line each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mooring.errors import PluginError
from mooring.framework.declarations import is_meant_as_plugin
from mooring.framework.registry import Registry
from mooring.loading.source_file import load_module, problem_in, split_reference
from mooring.meant import hint, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "mooring.plugins"


def load_plugins(references: Iterable[str], registry: Registry) -> list[str]:
    """Register what each reference names; return the names that configurations can use from now on.

    A reference is ``package.module:Class``, ``file.py`` (every plugin in it), ``file.py:Class``, or the name of an
    installed entry point of the group ``mooring.plugins``.
    """
    names: list[str] = []
    for reference in references:
        for plugin in find_plugins(reference):
            names.append(registry.register(plugin, reference))
    return names


def load_installed(registry: Registry) -> list[str]:
    """Register every installed plugin; one that cannot be loaded is a line in what is returned, not a failure."""
    problems: list[str] = []
    for point in _installed():
        try:
            registry.register(_load(point), f"entry point {point.name}")
        except PluginError as error:
            problems.append(str(error))
    return problems


def _installed() -> tuple[EntryPoint, ...]:
    """The entry points of plugins. Who installs a package changes the folder that it comes into."""
    return _entry_points(tuple((place, _changed_at(place)) for place in map(os.path.abspath, sys.path)))


@lru_cache(maxsize=1)
def _entry_points(places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """To ask for them reads a file of every installed package: only where something has changed."""
    if not any(_may_offer_plugins(place) for place, _ in places):
        return ()
    from importlib.metadata import entry_points  # takes 1.4 MiB, and most have no plugins installed

    return tuple(entry_points(group=GROUP))


def _may_offer_plugins(place: str) -> bool:
    """Whether a package in this folder names our group, or what is there is no folder, so that it cannot be seen."""
    try:
        packages = [name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return os.path.exists(place)
    for name in packages:
        try:
            with open(os.path.join(place, name, "entry_points.txt"), "rb") as file:
                if f"[{GROUP}]".encode() in file.read():
                    return True
        except OSError:  # most packages have none
            pass
    return False


def _changed_at(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns
    except OSError:  # Python has entries in its path that are not there
        return 0


def find_plugins(reference: str) -> list[type]:
    """The classes that a reference names."""
    place, class_name = split_reference(reference)
    if place != reference and not (place and class_name):
        raise PluginError(f"plugin {reference!r}: expected module:Class, file.py, file.py:Class or an entry point")
    if not class_name and not place.endswith(".py"):
        return [_entry_point(reference)]
    module = load_module(place, "mooring_plugin", f"plugin {reference}")
    if class_name:
        return [_named(module, class_name, reference)]
    found = [value for value in vars(module).values() if _is_plugin_of(value, module)]
    if not found:
        raise PluginError(
            f"plugin {reference}: no plugin in this file; expected a class with a name and a method such as filter"
        )
    return found


def _named(module: ModuleType, class_name: str, reference: str) -> type:
    found = getattr(module, class_name, None)
    if isinstance(found, type):
        return found
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    what = f"no class {class_name}" if found is None else f"{class_name} is not a class"
    near = nearest(class_name, classes)
    raise PluginError(f"plugin {reference}: {what}" + (f"; did you mean {near}?" if near else ""))


def _is_plugin_of(value: Any, module: ModuleType) -> bool:
    """A class that this module defines, that has a name, and that is no mere base."""
    return (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
        and bool(getattr(value, "name", None))
        and is_meant_as_plugin(value)
    )


def _entry_point(name: str) -> type:
    known = {point.name: point for point in _installed()}
    if name in known:
        return _load(known[name])
    meant = hint(name, known, "name a file (plugin.py) or a class (module:Class) instead")
    raise PluginError(f"plugin {name}: no entry point of that name in the group {GROUP}; {meant}")


def _load(point: EntryPoint) -> type:
    reference = f"{point.name} ({point.value})"
    try:
        plugin = point.load()
    except Exception as error:
        raise PluginError(f"plugin {reference}: {problem_in(error, point.module)}") from error
    if not isinstance(plugin, type):
        raise PluginError(f"plugin {reference}: is {type(plugin).__name__}, a class would be right")
    return plugin
