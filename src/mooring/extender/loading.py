"""Extenders from files and modules; mistakes are one line each."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from mooring.errors import PluginError
from mooring.extender.handlers import Served, serve_object
from mooring.extender.sdk import Extender
from mooring.loading.source_file import load_module, split_reference


def load_extender(reference: str) -> Served:
    """Make an extender of ``file.py``, ``file.py:Class``, ``package.module`` or ``package.module:Class``.

    Without a class named, a file's only class derived from Extender counts; without such a class its functions do.
    """
    place, class_name = split_reference(reference)
    if not place or (place != reference and not class_name):
        raise PluginError(f"{reference!r}: expected file.py, file.py:Class, package.module or package.module:Class")
    module = load_module(place, "mooring_extender", reference)
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


def _is_extender_of(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Extender) and value.__module__ == module.__name__
