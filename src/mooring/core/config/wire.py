"""Configurations on the wire: strict decoding that reports every mistake with its path, and encoding like
kube-scheduler.

msgspec stops at the first mistake; a user who fixes a configuration wants to see all of them. Unknown fields are
collected separately from wrong types, because upstream reports them as ``unknown field "profiles[0].foo"``.
"""

from __future__ import annotations

import base64
import binascii
import json
import types
import typing
from collections.abc import Collection
from typing import Any, TypeVar, Union

import msgspec
from msgspec.structs import replace

from mooring.api.errors import ParseError
from mooring.api.times import format_duration, parse_duration
from mooring.core.config.types import (
    API_VERSION,
    KIND,
    Duration,
    DynamicResourcesArgs,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    Plugins,
    PluginSet,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    VolumeBindingArgs,
    enabled_names,
)

T = TypeVar("T")

_FAILED: Any = object()  # stands for a value that was invalid and has been reported
_FIELDS: dict[type[Any], dict[str, tuple[str, Any]]] = {}  # by struct type: wire name to attribute and type


class Mistakes:
    """Mistakes in one document."""

    def __init__(self) -> None:
        self.unknown: list[str] = []  # paths of fields that do not exist
        self.wrong: list[str] = []  # full messages

    def __bool__(self) -> bool:
        return bool(self.unknown or self.wrong)


def decode(kind: type[T], value: Any, path: str, mistakes: Mistakes, *, ignore: frozenset[str] = frozenset()) -> T:
    """Return ``value`` as a ``kind``; mistakes go to ``mistakes``, and their fields keep the default.

    ``ignore`` names fields of the outermost object that are known but not kept, such as ``apiVersion``.
    """
    if not isinstance(value, dict):
        _expected("an object", value, path, mistakes)
        return kind()
    fields = _fields(kind)
    known: dict[str, Any] = {}
    for key, item in value.items():
        if key in fields:
            if item is None:  # null leaves a field alone, as in Go
                continue
            name, hint = fields[key]
            decoded = _value(hint, item, _child(path, key), mistakes)
            if decoded is not _FAILED:
                known[name] = decoded
        elif key not in ignore:
            mistakes.unknown.append(_child(path, key))
    return kind(**known)


def _fields(kind: type[Any]) -> dict[str, tuple[str, Any]]:
    known = _FIELDS.get(kind)
    if known is None:
        hints = typing.get_type_hints(kind, include_extras=True)
        known = {field.encode_name: (field.name, hints[field.name]) for field in msgspec.structs.fields(kind)}
        _FIELDS[kind] = known
    return known


def _value(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _value(options[0], value, path, mistakes)
    if origin is typing.Annotated:
        return _annotated(hint, value, path, mistakes)
    if origin is list:
        return _list(typing.get_args(hint)[0], value, path, mistakes)
    if origin is dict:
        return _dict(typing.get_args(hint)[1], value, path, mistakes)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return decode(hint, value, path, mistakes)
    if hint is Any:
        return value
    return _scalar(hint, value, path, mistakes)


def _annotated(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    base, *notes = typing.get_args(hint)
    for note in notes:
        if isinstance(note, msgspec.Meta):
            if note.extra and note.extra.get("wire") == "duration":
                return _duration(value, path, mistakes)
            if base is int:
                return _integer(note, value, path, mistakes)
    return _value(base, value, path, mistakes)


def _integer(limits: msgspec.Meta, value: Any, path: str, mistakes: Mistakes) -> Any:
    number = _scalar(int, value, path, mistakes)
    low, high = limits.ge, limits.le
    if isinstance(number, int) and low is not None and high is not None and not low <= number <= high:
        bits = 32 if high < 2**31 else 64
        mistakes.wrong.append(f"{path}: Invalid value: {number}: does not fit a {bits}-bit integer")
        return _FAILED
    return number


def _list(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, list):
        return _expected("a list", value, path, mistakes)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        value = [{} if item is None else item for item in value]  # null is the zero object, as in Go
    items = [_value(hint, item, f"{path}[{i}]", mistakes) for i, item in enumerate(value)]
    return _FAILED if _FAILED in items else items


def _dict(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, dict):
        return _expected("an object", value, path, mistakes)
    items = {key: _value(hint, item, _child(path, key), mistakes) for key, item in value.items()}
    return _FAILED if _FAILED in items.values() else items


def _scalar(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if hint is str:
        return value if isinstance(value, str) else _expected("a string", value, path, mistakes)
    if hint is bool:
        return value if isinstance(value, bool) else _expected("true or false", value, path, mistakes)
    if hint is bytes:
        return _bytes(value, path, mistakes)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _expected("an integer" if hint is int else "a number", value, path, mistakes)
    if hint is float:
        try:
            return float(value)
        except OverflowError:
            return _expected("a number", "a far larger one", path, mistakes)
    if isinstance(value, float):
        # YAML's 1e3 is a float that is an integer.
        return int(value) if value.is_integer() else _expected("an integer", value, path, mistakes)
    return value


def _bytes(value: Any, path: str, mistakes: Mistakes) -> Any:
    # Not quoted in the error: it may be a key or a certificate.
    if isinstance(value, str):
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    mistakes.wrong.append(f"{path}: Invalid value: expected base64 text")
    return _FAILED


def _duration(value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, str):
        return _expected('a duration in quotes such as "15s" or "1m30s"', value, path, mistakes)
    try:
        return parse_duration(value)
    except ParseError as e:
        mistakes.wrong.append(f'{path}: Invalid value: {json.dumps(value)}: {e}; expected one such as "15s" or "1m30s"')
        return _FAILED


def _expected(what: str, value: Any, path: str, mistakes: Mistakes) -> Any:
    mistakes.wrong.append(f"{path or 'document'}: Invalid value: {show(value)}: expected {what}")
    return _FAILED


def show(value: Any, limit: int = 80) -> str:
    """Return a value for an error message: JSON, cut short."""
    text = json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return text if len(text) <= limit else text[: limit - 3] + "…"


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# ---- a configuration as kube-scheduler writes it: ``--write-config-to`` and ``/configz``, field by field -------------

_REDACTED = "REDACTED"

# Fields that Go omits when they are empty; all others are written, even if empty.
_OMIT_EMPTY: dict[type[msgspec.Struct], frozenset[str]] = {
    KubeSchedulerConfiguration: frozenset(("profiles", "extenders", "delay_cache_until_active")),
    KubeSchedulerProfile: frozenset(("percentage_of_nodes_to_score", "plugin_config")),
    Plugins: frozenset(("pod_group_post_filter", "placement_feasible")),  # their versions write them even if empty
    PluginSet: frozenset(("enabled", "disabled")),
    DynamicResourcesArgs: frozenset(("binding_timeout",)),
    NodeAffinityArgs: frozenset(("added_affinity",)),
    NodeResourcesBalancedAllocationArgs: frozenset(("resources",)),
    NodeResourcesFitArgs: frozenset(("ignored_resources", "ignored_resource_groups")),
    ScoringStrategy: frozenset(("type", "resources", "requested_to_capacity_ratio")),
    RequestedToCapacityRatioParam: frozenset(("shape",)),
    ResourceSpec: frozenset(("weight",)),
    PodTopologySpreadArgs: frozenset(("default_constraints", "defaulting_type")),
    VolumeBindingArgs: frozenset(("shape",)),
    Extender: frozenset(Extender.__struct_fields__) - {"url_prefix", "http_timeout"},
    ExtenderTLSConfig: frozenset(ExtenderTLSConfig.__struct_fields__),
    ExtenderManagedResource: frozenset(("ignored_by_scheduler",)),
}
_POINTER = frozenset(("percentage_of_nodes_to_score", "binding_timeout"))  # absent is not the same as zero


def to_wire(
    config: KubeSchedulerConfiguration, *, redact: bool = False, leave_out: Collection[str] = ()
) -> dict[str, Any]:
    """Return the configuration as a plain v1 document; ``redact`` hides private keys and passwords.

    ``leave_out`` names fields of profiles' plugins that the reader's version does not support.
    """
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    document.update(_object(config, redact))
    for profile in document.get("profiles", ()):
        for name in leave_out:
            profile.get("plugins", {}).pop(name, None)
    return document


def completed(config: KubeSchedulerConfiguration, registered: Collection[str]) -> KubeSchedulerConfiguration:
    """Return the configuration as a running scheduler reports it: only arguments of plugins in use, by name."""
    profiles = []
    for profile in config.profiles:
        used = enabled_names(profile.plugins).intersection(registered)
        entries = [entry for entry in profile.plugin_config if entry.name in used and entry.args is not None]
        profiles.append(replace(profile, plugin_config=sorted(entries, key=lambda entry: entry.name)))
    return replace(config, profiles=profiles)


def _object(value: msgspec.Struct, redact: bool) -> dict[str, Any]:
    kind = type(value)
    omit = _OMIT_EMPTY.get(kind, frozenset())
    written: dict[str, Any] = {}
    if isinstance(value, PluginArgs):
        written.update(apiVersion=API_VERSION, kind=value.kind())
    for wire_name, (name, hint) in _fields(kind).items():
        item = getattr(value, name)
        if name in omit and (item is None if name in _POINTER else not item or item == PluginSet()):
            continue
        if item is not None and Duration in (hint, *typing.get_args(hint)):
            written[wire_name] = format_duration(item)
        elif name == "key_data" and redact:
            written[wire_name] = _REDACTED
        elif isinstance(value, Extender) and name == "url_prefix" and redact:
            written[wire_name] = value.shown_url
        else:
            written[wire_name] = _wire_value(item, redact)
    return written


def _wire_value(item: Any, redact: bool) -> Any:
    if isinstance(item, msgspec.Struct):
        # Kubernetes API objects (affinity, constraints) have their own encoding.
        return (
            _object(item, redact)
            if type(item).__module__.startswith("mooring.core.config")
            else msgspec.to_builtins(item)
        )
    if isinstance(item, list):
        return [_wire_value(one, redact) for one in item]
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if isinstance(item, float) and item.is_integer():
        return int(item)
    return item
