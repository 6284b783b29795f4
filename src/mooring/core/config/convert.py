"""Conversion of older configurations to v1, with a note for every changed field.

``v1beta1`` (Kubernetes 1.19 to 1.24), ``v1beta2`` (1.22 to 1.27) and ``v1beta3`` (1.23 to 1.28) are handled here; the
Policy files of Kubernetes before 1.23 in :mod:`mooring.core.config.policy`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.core.config.types import API_VERSION, ARGS_TYPES, GROUP

OLD_VERSIONS = tuple(f"{GROUP}/{version}" for version in ("v1beta1", "v1beta2", "v1beta3"))


class ConversionNote(msgspec.Struct, frozen=True):
    """The fate of one field; ``lost`` means that v1 has no equivalent."""

    path: str
    text: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


# Plugins whose work another plugin does today, or none.
_GONE = {
    "EBSLimits": "volume limits are NodeVolumeLimits' work since all volumes are CSI volumes",
    "GCEPDLimits": "volume limits are NodeVolumeLimits' work since all volumes are CSI volumes",
    "AzureDiskLimits": "volume limits are NodeVolumeLimits' work since all volumes are CSI volumes",
    "CinderLimits": "volume limits are NodeVolumeLimits' work since all volumes are CSI volumes",
    "SelectorSpread": "PodTopologySpread's default constraints spread the pods of a service today",
    "NodePreferAvoidPods": "no equivalent; taint such nodes with effect PreferNoSchedule",
    "ServiceAffinity": "no equivalent; give the pods an affinity to each other (InterPodAffinity)",
}
_LOST = frozenset(("NodePreferAvoidPods", "ServiceAffinity"))
_STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_REWEIGHTED = frozenset(("TaintToleration", "NodeAffinity", "InterPodAffinity"))
_REMOVED_FIELDS = {
    "healthzBindAddress": "removed; use the flags --bind-address and --secure-port",
    "metricsBindAddress": "removed; use the flags --bind-address and --secure-port",
}


def convert_document(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[ConversionNote]]:
    """Convert a v1beta1, v1beta2 or v1beta3 document to v1; return it with notes."""
    old = str(document.get("apiVersion"))
    new = copy.deepcopy(dict(document))
    notes = [ConversionNote("apiVersion", f"{old} is now {API_VERSION}")]
    new["apiVersion"] = API_VERSION
    for field, text in _REMOVED_FIELDS.items():
        if field in new:
            notes.append(ConversionNote(field, f"{text} (was {new.pop(field)!r})", lost=True))
    for i, extender in enumerate(_objects(new.get("extenders"))):
        if "enableHttps" in extender:
            extender["enableHTTPS"] = extender.pop("enableHttps")
            notes.append(ConversionNote(f"extenders[{i}].enableHttps", "now spelt enableHTTPS"))
    for i, profile in enumerate(_objects(new.get("profiles"))):
        _Profile(profile, f"profiles[{i}]", old, notes).convert()
    if not old.endswith("v1beta3") and not _says_weights(new.get("profiles")):
        notes.append(
            ConversionNote(
                "profiles",
                "the default weights of TaintToleration, NodeAffinity and InterPodAffinity are now 3, 2 and 2 "
                "(were 1); list them at plugins.multiPoint.enabled to keep the old ones",
            )
        )
    return new, notes


def _says_weights(profiles: Any) -> bool:
    """Report whether all profiles list the plugins whose default weights changed, as in a scheduler's own output."""
    return bool(_objects(profiles)) and all(
        {name_of(plugin) for plugin in _objects(_at(profile, "plugins", "score", "enabled"))} >= _REWEIGHTED
        for profile in _objects(profiles)
    )


def _at(value: Any, *path: str) -> Any:
    for field in path:
        value = value.get(field) if isinstance(value, dict) else None
    return value


class _Profile:
    """Converts one profile in place."""

    def __init__(self, profile: dict[str, Any], at: str, version: str, notes: list[ConversionNote]) -> None:
        self._profile = profile
        self._at = at
        self._version = version
        self._notes = notes
        self._strategy: str | None = None  # of the resource scorer that was enabled, by its old plugin name
        self._node_labels = False

    def convert(self) -> None:
        plugins = self._profile.get("plugins")
        if isinstance(plugins, dict):
            for point, plugin_set in plugins.items():
                if isinstance(plugin_set, dict):
                    self._plugin_set(point, plugin_set, f"{self._at}.plugins.{point}")
        self._plugin_config()

    def _plugin_set(self, point: str, plugin_set: dict[str, Any], at: str) -> None:
        enabled = _objects(plugin_set.get("enabled"))
        scorers = [plugin for plugin in enabled if name_of(plugin) in _STRATEGIES]
        kept: list[Any] = []
        for i, plugin in enumerate(enabled):
            name, path = name_of(plugin), f"{at}.enabled[{i}]"
            if name in _GONE:
                self._note(path, f"{name} is gone: {_GONE[name]}", lost=name in _LOST)
            elif name in _STRATEGIES:
                if point == "score":
                    self._scorer(plugin, path, kept)
                else:
                    self._note(path, f"{name} only scores, dropped here")
            elif name == "NodeLabel":
                self._node_labels = True
                self._note(path, "NodeLabel is gone: its labels became NodeAffinity's addedAffinity")
            else:
                kept.append(plugin)
        if len(kept) != len(enabled) or scorers:
            plugin_set["enabled"] = kept
        disabled = plugin_set.get("disabled")
        if isinstance(disabled, list):
            kept = self._disabled(point, disabled, at, replaced=bool(scorers))
            if kept:
                plugin_set["disabled"] = kept
            else:
                del plugin_set["disabled"]

    def _scorer(self, plugin: dict[str, Any], path: str, kept: list[Any]) -> None:
        name = plugin["name"]
        if self._strategy is not None:
            self._note(path, f"{name} cannot run beside {self._strategy}: NodeResourcesFit has one strategy", lost=True)
            return
        self._strategy = name
        kept.append({**plugin, "name": "NodeResourcesFit"})
        self._note(path, f"{name} is now NodeResourcesFit with scoringStrategy.type {_STRATEGIES[name]}")

    def _disabled(self, point: str, disabled: list[Any], at: str, *, replaced: bool) -> list[Any]:
        kept = []
        for i, plugin in enumerate(disabled):
            name = name_of(plugin)
            path = f"{at}.disabled[{i}]"
            if name == "NodeResourcesLeastAllocated" and point == "score" and not replaced and self._is("v1beta1"):
                # It was the default resource scorer; today that is NodeResourcesFit.
                kept.append({"name": "NodeResourcesFit"})
                self._note(path, "NodeResourcesLeastAllocated is now NodeResourcesFit")
            elif name in _GONE or name in _STRATEGIES or name == "NodeLabel":
                self._note(path, f"{name} does not exist any more and need not be disabled")
            else:
                kept.append(plugin)
        return kept

    def _plugin_config(self) -> None:
        said = self._profile.get("pluginConfig")
        entries = _objects(said)
        if said and not entries:
            return
        kept: list[Any] = []
        by_name: dict[str, dict[str, Any]] = {}
        for i, entry in enumerate(entries):
            name, args = name_of(entry), entry.get("args")
            path = f"{self._at}.pluginConfig[{i}]"
            if isinstance(args, dict):
                self._args_version(args, f"{path}.args")
            if name in _STRATEGIES:
                self._strategy_args(name, args if isinstance(args, dict) else {}, path, by_name)
            elif name == "NodeLabel":
                self._node_label_args(args if isinstance(args, dict) else {}, path, by_name)
            elif name in _GONE:
                self._note(path, f"{name} is gone: {_GONE[name]}", lost=name in _LOST)
            else:
                if name == "PodTopologySpread" and isinstance(args, dict):
                    self._spread_args(args, f"{path}.args")
                kept.append(entry)
        if self._strategy is not None and "NodeResourcesFit" not in by_name:
            by_name["NodeResourcesFit"] = {"scoringStrategy": {"type": _STRATEGIES[self._strategy]}}
        for name, args in by_name.items():
            _merge_args(kept, name, args)
        if kept or "pluginConfig" in self._profile:
            self._profile["pluginConfig"] = kept

    def _args_version(self, args: dict[str, Any], path: str) -> None:
        version = args.get("apiVersion")
        if isinstance(version, str) and version.startswith(GROUP + "/") and version != API_VERSION:
            kind = args.get("kind")
            if isinstance(kind, str) and kind.removesuffix("Args") in ARGS_TYPES:
                args["apiVersion"] = API_VERSION
                self._note(f"{path}.apiVersion", f"{version} is now {API_VERSION}")

    def _spread_args(self, args: dict[str, Any], path: str) -> None:
        if args.get("defaultConstraints") and not args.get("defaultingType"):
            args["defaultingType"] = "List"
            self._note(f"{path}.defaultingType", "must say List when there are defaultConstraints")

    def _strategy_args(self, name: str, args: dict[str, Any], path: str, by_name: dict[str, dict[str, Any]]) -> None:
        if name != (self._strategy or "NodeResourcesLeastAllocated"):
            self._note(path, f"{name} is not enabled, its arguments are dropped")
            return
        strategy: dict[str, Any] = {"type": _STRATEGIES[name]}
        if args.get("resources"):
            strategy["resources"] = args["resources"]
        if name == "RequestedToCapacityRatio":
            strategy["requestedToCapacityRatio"] = {"shape": args.get("shape", [])}
        by_name["NodeResourcesFit"] = {"scoringStrategy": strategy}
        self._note(path, "moved to NodeResourcesFit's scoringStrategy")

    def _node_label_args(self, args: dict[str, Any], path: str, by_name: dict[str, dict[str, Any]]) -> None:
        if not self._node_labels:
            self._note(path, "NodeLabel is not enabled, its arguments are dropped")
            return
        affinity = label_affinity(
            present=strings(args.get("presentLabels")),
            absent=strings(args.get("absentLabels")),
            prefer_present=[(label, 1) for label in strings(args.get("presentLabelsPreference"))],
            prefer_absent=[(label, 1) for label in strings(args.get("absentLabelsPreference"))],
        )
        by_name["NodeAffinity"] = {"addedAffinity": affinity}
        self._note(path, "moved to NodeAffinity's addedAffinity; preferences now share NodeAffinity's weight")

    def _is(self, version: str) -> bool:
        return self._version.endswith("/" + version)

    def _note(self, path: str, text: str, *, lost: bool = False) -> None:
        self._notes.append(ConversionNote(path, text, lost))


def label_affinity(
    *,
    present: list[str],
    absent: list[str],
    prefer_present: list[tuple[str, int]],
    prefer_absent: list[tuple[str, int]],
) -> dict[str, Any]:
    """Return the node affinity that requires or prefers labels to be present or absent."""
    affinity: dict[str, Any] = {}
    wanted = [{"key": label, "operator": "Exists"} for label in present]
    wanted += [{"key": label, "operator": "DoesNotExist"} for label in absent]
    if wanted:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": wanted}]
        }
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": label, "operator": operator}]}}
        for labels, operator in ((prefer_present, "Exists"), (prefer_absent, "DoesNotExist"))
        for label, weight in labels
    ]
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


def _merge_args(entries: list[Any], name: str, args: dict[str, Any]) -> None:
    """Merge into a plugin's arguments; existing values win."""
    for entry in entries:
        if entry.get("name") == name:
            said = entry.get("args")
            entry["args"] = {**args, **said} if isinstance(said, dict) else args
            return
    entries.append({"name": name, "args": args})


def name_of(value: Any) -> str:
    """Return an object's name; empty if it is missing or invalid."""
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; malformed entries are left for strict decoding to report."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return []
    return value


def strings(value: Any) -> list[str]:
    """Return the strings of a list, ignoring other values."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
