"""External plugins: by ``module:Class``, by path to a file, or by entry point. Every mistake is one line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from mooring.api.errors import MooringError, PluginError
from mooring.api.text import hint, nearest
from mooring.core.framework.registry import Registry, looks_like_plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


# ---- an author's module, named on the command line: a Python file or an importable name ----------------------------


def split_reference(reference: str) -> tuple[str, str]:
    """Split a reference into the file or module, and the class if there is one: ``file.py:Class`` or
    ``package.module:Class``.
    """
    place, colon, class_name = reference.rpartition(":")
    if not colon or class_name.endswith(".py") or "/" in class_name:
        return reference, ""
    return place, class_name


def load_module(place: str, prefix: str, where: str) -> ModuleType:
    """Run a file as a module whose name begins with the prefix, or import a module. Errors begin with ``where``.

    A file that was run before is not run again.
    """
    if not place.endswith(".py"):
        return _import(place, where)
    path = Path(place)
    if not path.is_file():
        raise PluginError(f"{where}: there is no file {path}")
    name = f"{prefix}_" + "".join(c if c.isalnum() else "_" for c in str(path.resolve()))
    if name in sys.modules:
        return sys.modules[name]
    try:
        return _run(path, name)
    except Exception as error:
        raise PluginError(f"{where}: {problem_in(error, str(path))}") from error


def _import(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            hint = "is it installed? (the name of a file ends in .py)"
            raise PluginError(f"{where}: there is no module {error.name}; {hint}") from None
        raise PluginError(f"{where}: importing {name} needs the module {error.name}") from None
    except Exception as error:
        raise PluginError(f"{where}: {problem_in(error, name)}") from error


class _AsItIsNow(SourceFileLoader):
    """Compiles the file each time: cached byte code may belong to an older text of the same second and size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _run(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, loader=_AsItIsNow(name, str(path)))
    assert spec is not None and spec.loader is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def problem_in(error: Exception, place: str) -> str:
    """Describe an error in an author's module, with the line if known."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or place}, line {error.lineno}: {error.msg}"
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(place):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = place if line is None else f"{place}, line {line}"
    return f"{where}: {error}" if isinstance(error, MooringError) else f"{where}: {type(error).__name__}: {error}"


GROUP = "mooring.plugins"


def load_plugins(references: Iterable[str], registry: Registry) -> list[str]:
    """Register the plugins of each reference; return their names for configurations.

    A reference is ``package.module:Class``, ``file.py`` (every plugin in it), ``file.py:Class``, or the name of an
    installed entry point of the group ``mooring.plugins``.
    """
    names: list[str] = []
    for reference in references:
        for plugin in find_plugins(reference):
            names.append(registry.register(plugin, reference))
    return names


def load_installed(registry: Registry) -> list[str]:
    """Register every installed plugin; return a line for each that cannot be loaded."""
    problems: list[str] = []
    for point in _installed():
        try:
            registry.register(_load(point), f"entry point {point.name}")
        except PluginError as error:
            problems.append(str(error))
    return problems


def _installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of plugins. Installing a package changes the folder that contains it."""
    return _entry_points(tuple((place, _changed_at(place)) for place in map(os.path.abspath, sys.path)))


@lru_cache(maxsize=1)
def _entry_points(places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Read entry points, which opens a file of every installed package: only where something has changed."""
    if not any(_may_offer_plugins(place) for place, _ in places):
        return ()
    from importlib.metadata import entry_points  # takes 1.4 MiB, and most have no plugins installed

    return tuple(entry_points(group=GROUP))


def _may_offer_plugins(place: str) -> bool:
    """Report whether a package in this folder has our group, or the entry is not a folder and cannot be inspected."""
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
    except OSError:  # Python's path may contain entries that do not exist
        return 0


def find_plugins(reference: str) -> list[type]:
    """Return the classes of a reference."""
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
    """Report whether a class is defined in this module, has a name, and is not just a base."""
    return (
        isinstance(value, type)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
        and bool(getattr(value, "name", None))
        and looks_like_plugin(value)
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
        raise PluginError(f"plugin {reference}: is {type(plugin).__name__}, expected a class")
    return plugin
