"""Plugins by users: an importable class, a file, or an entry point of an installed package."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from mooring.errors import PluginError, UsageError
from mooring.framework.registry import Registry, points_of
from mooring.plugins.in_tree import in_tree_registry

ENTRY_POINTS = "mooring.plugins"


def load_registry(specs: Iterable[str], *, entry_points: bool = True) -> Registry:
    """The plugins that come with mooring, those of installed packages, and those named: one line for what is wrong."""
    registry = in_tree_registry()
    if entry_points:
        for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                plugin = entry.load()
            except Exception as error:
                raise PluginError(f"entry point {entry.name}: cannot load {entry.value}: {_why(error)}") from None
            registry.register(plugin)
    for spec in specs:
        for plugin in load_plugins(spec):
            registry.register(plugin)
    return registry


def load_plugins(spec: str) -> list[type]:
    """The classes that ``module:Class``, ``FILE.py:Class`` or ``FILE.py`` (all plugins in it) names."""
    where, colon, name = spec.rpartition(":")
    if not colon:
        where, name = spec, ""
    is_file = where.endswith(".py")
    if not name and not is_file:
        raise UsageError(f"--plugin {spec}: expected module:Class, FILE.py or FILE.py:Class")
    module = _load_file(spec, where) if is_file else _import(spec, where)
    if name:
        plugin = getattr(module, name, None)
        if not isinstance(plugin, type):
            raise UsageError(f"--plugin {spec}: {where} has no class {name}")
        return [plugin]
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and "name" in vars(value)
    ]
    plugins = [plugin for plugin in found if points_of(plugin)]
    if not plugins:
        raise UsageError(f"--plugin {spec}: no plugin in it; a plugin is a class with a name and an extension point")
    return plugins


def _import(spec: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise UsageError(f"--plugin {spec}: cannot import {module}: {_why(error)}") from None


def _load_file(spec: str, path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"--plugin {spec}: no such file: {path}")
    name = f"mooring_plugin_{Path(path).stem}"
    made = importlib.util.spec_from_file_location(name, path)
    assert made is not None and made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules[name] = module  # dataclasses and pickling look there
    try:
        made.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"--plugin {spec}: {path} cannot be loaded: {_why(error)}") from None
    return module


def _why(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
