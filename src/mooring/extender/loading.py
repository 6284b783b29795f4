"""Extenders from files and modules; mistakes are one line each."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from mooring.errors import PluginError
from mooring.extender.handlers import Served, serve_object
from mooring.extender.sdk import Extender
from mooring.loading.source_file import line_in, module_name, module_of_file


def load_extender(reference: str) -> Served:
    """Make an extender of ``file.py``, ``file.py:Class``, ``package.module`` or ``package.module:Class``.

    Without a class named, a file's only class derived from Extender counts; without such a class its functions do.
    """
    place, class_name = _split(reference)
    module = _from_file(Path(place), reference) if place.endswith(".py") else _import(place, reference)
    if class_name:
        found = getattr(module, class_name, None)
        if found is None:
            raise PluginError(f"{reference}: there is no {class_name} in it")
        return serve_object(found, reference)
    classes = [value for value in vars(module).values() if _is_extender_of(value, module)]
    if len(classes) > 1:
        names = ", ".join(found.__name__ for found in classes)
        raise PluginError(
            f"{reference}: has several extenders ({names}); name one, as in {reference}:{classes[0].__name__}"
        )
    served = serve_object(classes[0] if classes else module, reference)
    if not classes and not getattr(module, "name", ""):
        served.settings.name = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    return served


def _split(reference: str) -> tuple[str, str]:
    place, colon, name = reference.rpartition(":")
    if not colon or name.endswith(".py") or "/" in name or not place:
        return reference, ""
    return place, name


def _is_extender_of(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Extender) and value.__module__ == module.__name__


def _from_file(path: Path, reference: str) -> ModuleType:
    if not path.is_file():
        raise PluginError(f"{reference}: there is no file {path}")
    try:
        return module_of_file(path, module_name("mooring_extender", path))
    except Exception as error:
        raise PluginError(f"{reference}: {_problem(error, str(path))}") from error


def _import(name: str, reference: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = "; a file's name ends in .py" if error.name == name else ""
        raise PluginError(f"{reference}: there is no module {error.name}{hint}") from None
    except Exception as error:
        raise PluginError(f"{reference}: {_problem(error, name)}") from error


def _problem(error: Exception, place: str) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    line = line_in(error, place)
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {error}"
