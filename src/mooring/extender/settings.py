"""What an extender says about itself, and the scheduler's configuration should say, too."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mooring.config.duration import parse_duration
from mooring.errors import ParseError, PluginError
from mooring.extender.sdk import Extender


@dataclass(slots=True)
class ExtenderSettings:
    """The attributes of an extender, checked."""

    name: str = "extender"
    weight: int = 1
    ignorable: bool = False
    http_timeout: str = ""
    managed_resources: Sequence[str] = ()
    ignored_by_scheduler: bool = False
    node_cache_capable: bool = False


def settings_of(source: Any, where: str) -> ExtenderSettings:
    """Read the attributes of a module or an Extender; raise PluginError for one that makes no sense."""
    is_module = isinstance(source, types.ModuleType)
    default = source.__name__.rpartition(".")[2] if is_module else type(source).__name__
    name = getattr(source, "name", "")
    settings = ExtenderSettings(name if isinstance(name, str) and name else default)
    for field_, kind, right in (
        ("weight", int, "a number above 0"),
        ("ignorable", bool, "True or False"),
        ("http_timeout", str, 'a duration such as "2s"'),
        ("ignored_by_scheduler", bool, "True or False"),
    ):
        value = getattr(source, field_, getattr(Extender, field_))
        fits = isinstance(value, kind) and not (kind is int and (isinstance(value, bool) or int(value) < 1))
        if not fits:
            raise PluginError(f"{where}: {field_} is {value!r}; expected {right}")
        setattr(settings, field_, value)
    _check_timeout(settings.http_timeout, where)
    resources = getattr(source, "managed_resources", ())
    if isinstance(resources, str) or not all(isinstance(resource, str) for resource in resources):
        raise PluginError(f"{where}: managed_resources is {resources!r}; expected a list of resource names")
    settings.managed_resources = tuple(resources)
    return settings


def _check_timeout(text: str, where: str) -> None:
    try:
        if not text or parse_duration(text) > 0:
            return
    except ParseError:
        pass
    raise PluginError(f'{where}: http_timeout is {text!r}; expected a duration such as "2s"')
