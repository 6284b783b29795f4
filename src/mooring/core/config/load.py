"""Loads a KubeSchedulerConfiguration: strictly, with defaults and validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api import yaml
from mooring.api.errors import ConfigError, InputError
from mooring.core.config.convert import OLD_VERSIONS, convert_document
from mooring.core.config.defaults import set_defaults
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.policy import is_policy
from mooring.core.config.types import (
    API_VERSION,
    ARGS_TYPES,
    GROUP,
    KIND,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    enabled_names,
)
from mooring.core.config.validation import validate
from mooring.core.config.versions import KubernetesVersion
from mooring.core.config.wire import Mistakes, decode

_TYPE_META = frozenset(("apiVersion", "kind"))


class LoadedConfig(msgspec.Struct, frozen=True):
    """A usable configuration with notes for its author: one line per changed field of an old version."""

    config: KubeSchedulerConfiguration
    warnings: tuple[str, ...] = ()


def load_config_file(path: str | Path, features: Features = DEFAULT_FEATURES) -> LoadedConfig:
    """Load the configuration in a file; errors begin with the file's name."""
    return load_config(read_file(path), features, source=str(path))


def load_config(text: str | bytes, features: Features = DEFAULT_FEATURES, *, source: str = "") -> LoadedConfig:
    """Load a YAML or JSON document of version v1, or of v1beta1 to v1beta3, which is converted first."""
    document = read_document(text, source)
    try:
        return load_document(document, features)
    except ConfigError as e:
        raise ConfigError(*(f"{source}: {problem}" if source else problem for problem in e.problems)) from None


def load_document(document: dict[str, Any], features: Features = DEFAULT_FEATURES) -> LoadedConfig:
    """Load a document that is already a plain value; apiVersion and kind are required."""
    examined, problems = examine(document, features)
    if problems:
        raise ConfigError(*problems)
    return examined


def examine(document: dict[str, Any], features: Features = DEFAULT_FEATURES) -> tuple[LoadedConfig, list[str]]:
    """Return a document's configuration as far as it can be understood, and all of its mistakes."""
    _check_kind(document)
    warnings: tuple[str, ...] = ()
    if document["apiVersion"] in OLD_VERSIONS:
        document, notes = convert_document(document)
        warnings = tuple(str(note) for note in notes)
    config, problems = _decode(document)
    problems = [*_later_fields(document, features.version), *problems]
    config = set_defaults(config, features)
    # What could not be decoded has its default here; a second error about it would only confuse.
    undecoded = tuple(problem.partition(": ")[0] for problem in problems)
    problems += [problem for problem in validate(config, features) if not problem.startswith(undecoded)]
    return LoadedConfig(config, warnings), problems


def config_from_dict(
    document: Mapping[str, Any] | None, features: Features = DEFAULT_FEATURES
) -> KubeSchedulerConfiguration:
    """Return the configuration of a document that may leave out apiVersion and kind; None is the default one."""
    document = dict(document or {})
    document.setdefault("apiVersion", API_VERSION)
    document.setdefault("kind", KIND)
    return load_document(document, features).config


def default_config(features: Features = DEFAULT_FEATURES) -> KubeSchedulerConfiguration:
    """Return the default configuration."""
    return set_defaults(KubeSchedulerConfiguration(), features)


def read_file(path: str | Path) -> bytes:
    """Return a file's bytes; raise a one-line error if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise InputError(f"{path}: {(e.strerror or str(e)).lower()}") from None


def read_document(text: str | bytes, source: str = "") -> dict[str, Any]:
    """Return the only document of a text; a duplicate key is a mistake."""
    where = f"{source}: " if source else ""
    documents = yaml.load_documents(text, source)
    if not documents:
        raise ConfigError(f"{where}empty; expected a {KIND} (apiVersion: {API_VERSION})")
    if len(documents) > 1:
        raise ConfigError(f"{where}line {documents[1].line}: a second document starts here; expected only one")
    document = documents[0]
    if document.duplicates:
        raise ConfigError(*(f"{where}strict decoding error: {duplicate}" for duplicate in document.duplicates))
    if not isinstance(document.value, dict):
        raise ConfigError(f"{where}expected a {KIND} object, found {type(document.value).__name__}")
    return document.value


def _decode(document: Mapping[str, Any]) -> tuple[KubeSchedulerConfiguration, list[str]]:
    """Decode a v1 document strictly, without defaults for profiles and without validation."""
    mistakes = Mistakes()
    config = decode(KubeSchedulerConfiguration, dict(document), "", mistakes, ignore=_TYPE_META)
    problems: list[str] = []
    if mistakes.unknown:
        problems.append("strict decoding error: " + _unknown(mistakes))
    problems += mistakes.wrong
    profiles = [_with_typed_args(profile, i, problems) for i, profile in enumerate(config.profiles)]
    return replace(config, profiles=profiles), problems


def _later_fields(document: Mapping[str, Any], version: KubernetesVersion) -> Iterator[str]:
    """Yield fields that only another version supports; an empty field is ignored."""
    profiles = document.get("profiles")
    for i, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        plugins = profile.get("plugins") if isinstance(profile, dict) else None
        if not isinstance(plugins, dict):
            continue
        for name in sorted(version.later_fields):
            if plugins.get(name):
                yield f'strict decoding error: unknown field "profiles[{i}].plugins.{name}" in Kubernetes {version}'


def _check_kind(document: Mapping[str, Any]) -> None:
    version, kind = document.get("apiVersion"), document.get("kind")
    if is_policy(document):
        raise ConfigError(
            "this is a scheduling Policy, which Kubernetes 1.23 removed; `mooring config convert` turns it into "
            f"a {KIND}"
        )
    if kind == "ConfigMap":
        data = document.get("data")
        keys = ", ".join(data) if isinstance(data, dict) and data else "none"
        raise ConfigError(f"this is a ConfigMap; the configuration is in its data (keys: {keys}), take it out first")
    if not kind:
        raise ConfigError(f"Object 'Kind' is missing; expected kind: {KIND} and apiVersion: {API_VERSION}")
    if not version:
        raise ConfigError(f"Object 'apiVersion' is missing; expected apiVersion: {API_VERSION}")
    if kind != KIND or version not in (API_VERSION, *OLD_VERSIONS):
        raise ConfigError(
            f'no kind "{kind}" is registered for version "{version}"; expected kind {KIND}, version {API_VERSION} '
            "(v1beta1 to v1beta3 are converted)"
        )


def _with_typed_args(profile: KubeSchedulerProfile, i: int, problems: list[str]) -> KubeSchedulerProfile:
    entries = []
    for j, entry in enumerate(profile.plugin_config):
        at = f"decoding .profiles[{i}].pluginConfig[{j}]: "
        entries.append(_typed(entry, at, f"profiles[{i}].pluginConfig[{j}].args", problems))
    return replace(profile, plugin_config=entries)


def _typed(entry: PluginConfig, at: str, path: str, problems: list[str]) -> PluginConfig:
    """Decode an in-tree plugin's arguments into their type; those of other plugins stay unchanged."""
    kind = ARGS_TYPES.get(entry.name)
    if kind is None:
        return entry
    args = {} if entry.args is None else entry.args
    if not isinstance(args, dict):
        problems.append(f"{path}: Invalid value: expected an object")
        return entry
    said_kind = args.get("kind") or kind.kind()
    said_version = args.get("apiVersion") or API_VERSION
    group = said_version.rpartition("/")[0] if isinstance(said_version, str) else ""
    if (said_kind, group) != (kind.kind(), GROUP):
        problems.append(
            f"{at}args for plugin {entry.name} were not of type {kind.kind()}.{GROUP}, got {said_kind}.{group}"
        )
        return entry
    if said_version != API_VERSION:
        problems.append(
            f'{at}decoding args for plugin {entry.name}: no kind "{said_kind}" is registered for version '
            f'"{said_version}"; expected {API_VERSION}'
        )
        return entry
    mistakes = Mistakes()
    typed = decode(kind, args, "", mistakes, ignore=_TYPE_META)
    if mistakes.unknown:
        problems.append(
            f"strict decoding error: {at}strict decoding error: decoding args for plugin {entry.name}: "
            f"strict decoding error: {_unknown(mistakes)}"
        )
    problems += [f"{path}.{wrong}" for wrong in mistakes.wrong]
    return PluginConfig(entry.name, typed)


def _unknown(mistakes: Mistakes) -> str:
    return ", ".join(f'unknown field "{path}"' for path in sorted(mistakes.unknown))


# ---- the user's own plugins: enabled without a configuration file, with warnings where a file omits them
# --------------


def enabling(document: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the configuration with these plugins enabled in every profile, wherever they can run."""
    found = dict(document or {})
    if names:
        found["profiles"] = [_with_plugins(profile, names) for profile in found.get("profiles") or [{}]]
    return found


def unused(config: KubeSchedulerConfiguration, names: Sequence[str], where: str) -> list[str]:
    """Return a warning for each of these plugins that no profile enables."""
    enabled = {name for profile in config.profiles for name in enabled_names(profile.plugins)}
    return [
        f"{where}: no profile enables the plugin {name}, so it does nothing" for name in names if name not in enabled
    ]


def _with_plugins(profile: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    plugins = dict(profile.get("plugins") or {})
    there = {each.get("name") for chosen in plugins.values() for each in (chosen or {}).get("enabled") or ()}
    everywhere = dict(plugins.get("multiPoint") or {})
    everywhere["enabled"] = [
        *(everywhere.get("enabled") or ()),
        *({"name": name} for name in names if name not in there),
    ]
    return {**profile, "plugins": {**plugins, "multiPoint": everywhere}}
