"""Plugins of the user's own in a configuration: enabled where there is no file, warned of where a file forgets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooring.config.types import EXTENSION_POINTS, KubeSchedulerConfiguration, plugin_set


def enabling(document: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    """The configuration with these plugins enabled in every profile, wherever they can run."""
    found = dict(document or {})
    if names:
        found["profiles"] = [_with_plugins(profile, names) for profile in found.get("profiles") or [{}]]
    return found


def unused(config: KubeSchedulerConfiguration, names: Sequence[str], where: str) -> list[str]:
    """A warning for each of these plugins that no profile enables."""
    enabled = set(_enabled(config))
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


def _enabled(config: KubeSchedulerConfiguration) -> Iterator[str]:
    for profile in config.profiles:
        if profile.plugins is not None:
            for point in (*EXTENSION_POINTS, "multiPoint"):
                yield from (plugin.name for plugin in plugin_set(profile.plugins, point).enabled)
