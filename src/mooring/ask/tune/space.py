"""The space that is searched: which fields of a configuration may take which values.

```yaml
weights:
  NodeResourcesFit: [1, 10]                                  # whole numbers between these
  NodeResourcesBalancedAllocation: [0, 10]                   # 0: it does not score
strategies: [LeastAllocated, MostAllocated]                  # of NodeResourcesFit
arguments:
  InterPodAffinity.hardPodAffinityWeight: [0, 100]
  PodTopologySpread.defaultingType: {choices: [System, List]}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError

FIT = "NodeResourcesFit"
_FIELDS = ("weights", "strategies", "arguments")
_STRATEGY = "strategy"
Document = dict[str, Any]

DEFAULT_SPACE: Mapping[str, Any] = {
    "weights": {FIT: [1, 10], "NodeResourcesBalancedAllocation": [0, 10], "PodTopologySpread": [0, 10]},
    "strategies": ["LeastAllocated", "MostAllocated"],
    "arguments": {"PodTopologySpread.defaultingType": {"choices": ["System", "List"]}},
}
"""What is searched without a file: how full nodes are to be, not what pods ask for."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One field: choices, or numbers from ``low`` to ``high``."""

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


def load_space(path: str | Path | None) -> list[Dimension]:
    """The space in a file, or the default one."""
    if path is None:
        return read_space(DEFAULT_SPACE)
    try:
        document = yaml.load(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        return read_space(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_space(document: Any) -> list[Dimension]:
    if not isinstance(document, Mapping) or not document:
        raise InputError(f"expected a space with the fields {', '.join(_FIELDS)}")
    for name in document:
        if name not in _FIELDS:
            raise InputError(f"{name}: no such field; expected {', '.join(_FIELDS)}")
    weights, arguments = (_mapping(document.get(name), name) for name in ("weights", "arguments"))
    found = [_dimension(f"weights.{name}", each) for name, each in weights.items()]
    for dimension in found:
        if dimension.choices or not dimension.is_whole or dimension.low < 0 or dimension.high > 100:
            raise InputError(f"{dimension.name}: expected [LOW, HIGH], whole numbers from 0 to 100")
    strategies = document.get("strategies")
    if strategies is not None:
        found.append(_dimension(_STRATEGY, {"choices": strategies}))
    for name, each in arguments.items():
        if "." not in name:
            raise InputError(f"arguments.{name}: expected Plugin.field, such as InterPodAffinity.hardPodAffinityWeight")
        found.append(_dimension(f"arguments.{name}", each))
    return found


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: expected names with ranges")
    return value


def _dimension(name: str, given: Any) -> Dimension:
    match given:
        case [int() | float() as low, int() | float() as high] if low < high and not isinstance(low, bool):
            return Dimension(name, low=low, high=high)
        case {"choices": [*choices]} if choices and len(given) == 1:
            return Dimension(name, tuple(choices))
    raise InputError(f"{name}: found {given!r}, expected [LOW, HIGH] or choices: with a list")


# ---- a point as a configuration ----------------------------------------------------------------------------------


def configured(base: Mapping[str, Any] | None, values: Mapping[str, Any]) -> Document:
    """The configuration with these values, in every profile. The base stays as it is."""
    document: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **deepcopy(dict(base or {})),
    }
    document["profiles"] = [dict(profile) for profile in document.get("profiles") or [{}]]
    for profile in document["profiles"]:
        for name, value in values.items():
            kind, _, rest = name.partition(".")
            if kind == "weights":
                _set_weight(profile, rest, value)
            elif kind == _STRATEGY:
                _set_argument(profile, FIT, ["scoringStrategy", "type"], value)
            else:
                plugin, _, path = rest.partition(".")
                _set_argument(profile, plugin, path.split("."), value)
    return document


def _set_weight(profile: Document, plugin: str, weight: int) -> None:
    """A plugin of weight 0 does not score. Where the profile names it at the point, it is changed there."""
    plugins = profile["plugins"] = dict(profile.get("plugins") or {})
    score = plugins["score"] = dict(plugins.get("score") or {})
    everywhere = plugins["multiPoint"] = dict(plugins.get("multiPoint") or {})
    named = {each["name"] for each in score.get("enabled") or ()}
    for points in (score, everywhere):
        points["enabled"] = [each for each in points.get("enabled") or () if each["name"] != plugin]
    score["disabled"] = [each for each in score.get("disabled") or () if each["name"] != plugin]
    if weight == 0:
        score["disabled"].append({"name": plugin})
    else:
        (score if plugin in named else everywhere)["enabled"].append({"name": plugin, "weight": weight})
    for point, chosen in (("score", score), ("multiPoint", everywhere)):
        plugins[point] = {key: value for key, value in chosen.items() if value}
        if not plugins[point]:
            del plugins[point]


def _set_argument(profile: Document, plugin: str, path: list[str], value: Any) -> None:
    entries = profile["pluginConfig"] = [dict(each) for each in profile.get("pluginConfig") or ()]
    entry = next((each for each in entries if each.get("name") == plugin), None)
    if entry is None:
        entry = {"name": plugin}
        entries.append(entry)
    inside = entry["args"] = deepcopy(dict(entry.get("args") or {}))
    for step in path[:-1]:
        inside = inside.setdefault(step, {})
    inside[path[-1]] = value
