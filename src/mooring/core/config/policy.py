"""Converts Scheduling Policy v1 (predicates, priorities, extenders), removed in Kubernetes 1.23, to a v1 configuration.

The default plugins are the basis: a predicate or priority that the Policy leaves out is disabled, and newer plugins
(scheduling gates, dynamic resources, …) stay enabled, because no Policy could name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.errors import ConfigError
from mooring.api.times import format_duration
from mooring.core.config.convert import ConversionNote, label_affinity, name_of, strings
from mooring.core.config.defaults import default_plugins
from mooring.core.config.profile import IN_TREE_POINTS
from mooring.core.config.types import API_VERSION, KIND
from mooring.core.config.wire import show

_PREDICATES: dict[str, tuple[str, ...]] = {
    "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    "PodFitsResources": ("NodeResourcesFit",),
    "HostName": ("NodeName",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "MatchNodeSelector": ("NodeAffinity",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCSIVolumeCount": ("NodeVolumeLimits",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
}
_CHANGED_PREDICATES = {
    "MaxEBSVolumeCount": ("NodeVolumeLimits", "EBS volumes are counted as CSI volumes today"),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits", "GCE persistent disks are counted as CSI volumes today"),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits", "Azure disks are counted as CSI volumes today"),
    "MaxCinderVolumeCount": ("NodeVolumeLimits", "Cinder volumes are counted as CSI volumes today"),
    "CheckNodeCondition": ("TaintToleration", "conditions are taints today, TaintToleration sees them"),
    "CheckNodeMemoryPressure": ("TaintToleration", "conditions are taints today, TaintToleration sees them"),
    "CheckNodeDiskPressure": ("TaintToleration", "conditions are taints today, TaintToleration sees them"),
    "CheckNodePIDPressure": ("TaintToleration", "conditions are taints today, TaintToleration sees them"),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration", "TaintToleration looks at all taints"),
}
# kube-scheduler added these to every Policy.
_MANDATORY = ("TaintToleration", "NodeUnschedulable")

_PRIORITIES = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
    "EvenPodsSpreadPriority": "PodTopologySpread",
}
_STRATEGIES = {"LeastRequestedPriority": "LeastAllocated", "MostRequestedPriority": "MostAllocated"}
_SPREADING = ("SelectorSpreadPriority", "ServiceSpreadingPriority")
_LOST_PRIORITIES = {
    "NodePreferAvoidPodsPriority": "no equivalent; taint such nodes with effect PreferNoSchedule",
    "ResourceLimitsPriority": "no equivalent",
}
_FIELDS = (
    "kind",
    "apiVersion",
    "metadata",
    "predicates",
    "priorities",
    "extenders",
    "hardPodAffinitySymmetricWeight",
    "alwaysCheckAllPredicates",
)
_EXTENDER_FIELDS = (
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "tlsConfig",
    "httpTimeout",
    "nodeCacheCapable",
    "managedResources",
    "ignorable",
)


def is_policy(document: Mapping[str, Any]) -> bool:
    """Report whether a document is a Policy; many published ones omit the kind."""
    if document.get("kind"):
        return bool(document["kind"] == "Policy")
    return "predicates" in document or "priorities" in document


def convert_policy(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[ConversionNote]]:
    """Convert a Policy to a v1 document; return it with notes."""
    return _Policy(document).convert()


class _Policy:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._notes: list[ConversionNote] = []
        self._problems: list[str] = []
        self._filters: set[str] | None = None  # None: all, as by default
        self._weights: dict[str, int] | None = None
        self._strategy: dict[str, Any] | None = None
        self._present: list[str] = []
        self._absent: list[str] = []
        self._prefer_present: list[tuple[str, int]] = []
        self._prefer_absent: list[tuple[str, int]] = []

    def convert(self) -> tuple[dict[str, Any], list[ConversionNote]]:
        self._note("kind", f"Policy is now {KIND} ({API_VERSION})")
        for field in self._document:
            if field not in _FIELDS:
                self._problems.append(f'strict decoding error: unknown field "{field}"')
        self._read_predicates()
        self._read_priorities()
        extenders = self._read_extenders()
        plugin_config = self._plugin_config()
        if self._document.get("alwaysCheckAllPredicates"):
            self._note(
                "alwaysCheckAllPredicates",
                "no equivalent: a node is refused for the first reason found; `mooring explain` shows more",
                lost=True,
            )
        if self._problems:
            raise ConfigError(*self._problems)
        profile: dict[str, Any] = {"schedulerName": "default-scheduler"}
        plugins = self._plugins()
        if plugins:
            profile["plugins"] = plugins
        if plugin_config:
            profile["pluginConfig"] = plugin_config
        converted: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
        if extenders:
            converted["extenders"] = extenders
        return converted, self._notes

    def _read_predicates(self) -> None:
        predicates = self._list("predicates")
        if predicates is None:
            return
        self._filters = set(_MANDATORY)
        for i, predicate in enumerate(predicates):
            self._predicate(predicate, f"predicates[{i}]")

    def _predicate(self, predicate: dict[str, Any], at: str) -> None:
        assert self._filters is not None
        name, argument = name_of(predicate), predicate.get("argument")
        if isinstance(argument, dict) and isinstance(labels := argument.get("labelsPresence"), dict):
            wanted = self._present if labels.get("presence") else self._absent
            wanted += strings(labels.get("labels"))
            self._filters.add("NodeAffinity")
            self._note(at, f"{name} became NodeAffinity's addedAffinity")
        elif isinstance(argument, dict) and "serviceAffinity" in argument:
            self._note(at, f"{name}: no equivalent; give the pods an affinity to each other", lost=True)
        elif name in _PREDICATES:
            self._filters.update(_PREDICATES[name])
        elif name in _CHANGED_PREDICATES:
            plugin, why = _CHANGED_PREDICATES[name]
            self._filters.add(plugin)
            self._note(at, f"{name} became {plugin}: {why}")
        else:
            self._note(at, f"no predicate named {show(name)} is known, dropped", lost=True)

    def _read_priorities(self) -> None:
        priorities = self._list("priorities")
        if priorities is None:
            return
        self._weights = {}
        for i, priority in enumerate(priorities):
            weight = priority.get("weight")
            if not isinstance(weight, int) or isinstance(weight, bool) or weight <= 0:
                self._problems.append(
                    f"priorities[{i}].weight: Invalid value: {show(weight)}: should be a positive integer"
                )
                continue
            self._priority(priority, weight, f"priorities[{i}]")

    def _priority(self, priority: dict[str, Any], weight: int, at: str) -> None:
        assert self._weights is not None
        name, argument = name_of(priority), priority.get("argument")
        if isinstance(argument, dict) and isinstance(ratio := argument.get("requestedToCapacityRatioArguments"), dict):
            self._score_resources("RequestedToCapacityRatio", weight, at, name, ratio)
        elif isinstance(argument, dict) and isinstance(label := argument.get("labelPreference"), dict):
            wanted = self._prefer_present if label.get("presence") else self._prefer_absent
            wanted.append((str(label.get("label", "")), min(weight, 100)))
            self._weights.setdefault("NodeAffinity", 1)
            self._note(at, f"{name} became a preference in NodeAffinity's addedAffinity and shares its weight")
        elif isinstance(argument, dict) and "serviceAntiAffinity" in argument:
            self._note(at, f"{name}: no equivalent; give the pods topologySpreadConstraints", lost=True)
        elif name in _PRIORITIES:
            self._weights[_PRIORITIES[name]] = weight
        elif name in _STRATEGIES:
            self._score_resources(_STRATEGIES[name], weight, at, name, {})
        elif name in _SPREADING:
            self._weights.setdefault("PodTopologySpread", weight)
            self._note(at, f"{name} became PodTopologySpread, whose default constraints spread a service's pods")
        elif name == "EqualPriority":
            self._note(at, "EqualPriority gives every node the same and is dropped")
        elif name in _LOST_PRIORITIES:
            self._note(at, f"{name}: {_LOST_PRIORITIES[name]}", lost=True)
        else:
            self._note(at, f"no priority named {show(name)} is known, dropped", lost=True)

    def _score_resources(self, kind: str, weight: int, at: str, name: str, ratio: dict[str, Any]) -> None:
        assert self._weights is not None
        if self._strategy is not None:
            self._note(
                at, f"{name} cannot run beside {self._strategy['type']}: NodeResourcesFit has one strategy", lost=True
            )
            return
        self._weights["NodeResourcesFit"] = weight
        self._strategy = {"type": kind}
        if ratio:
            self._strategy["requestedToCapacityRatio"] = {"shape": ratio.get("shape", [])}
            if ratio.get("resources"):
                self._strategy["resources"] = ratio["resources"]
        self._note(at, f"{name} became NodeResourcesFit with scoringStrategy.type {kind}")

    def _plugins(self) -> dict[str, Any]:
        """Return the differences from the defaults."""
        disabled: dict[str, list[str]] = {}
        enabled: list[dict[str, Any]] = []
        for plugin in default_plugins():
            points = IN_TREE_POINTS[plugin.name]
            is_filter = plugin.name in _KNOWN_FILTERS
            is_score = plugin.name in _KNOWN_SCORES
            filters = is_filter and (self._filters is None or plugin.name in self._filters)
            scores = is_score and (self._weights is None or plugin.name in self._weights)
            if not (is_filter or is_score):
                continue
            if not filters and not scores:
                disabled.setdefault("multiPoint", []).append(plugin.name)
                continue
            if is_filter and not filters:
                for point in ("preFilter", "filter"):
                    disabled.setdefault(point, []).append(plugin.name)
            if is_score and not scores:
                for point in ("preScore", "score"):
                    if point in points:
                        disabled.setdefault(point, []).append(plugin.name)
            elif self._weights is not None and is_score and self._weights[plugin.name] != plugin.weight:
                enabled.append({"name": plugin.name, "weight": self._weights[plugin.name]})
        plugins: dict[str, Any] = {
            point: {"disabled": [{"name": name} for name in names]} for point, names in disabled.items()
        }
        if enabled:
            # At multiPoint a default keeps its place and takes the new weight.
            plugins.setdefault("multiPoint", {})["enabled"] = enabled
        return plugins

    def _plugin_config(self) -> list[dict[str, Any]]:
        config: list[dict[str, Any]] = []
        weight = self._document.get("hardPodAffinitySymmetricWeight")
        if weight:
            config.append({"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": weight}})
            self._note("hardPodAffinitySymmetricWeight", "became InterPodAffinity's hardPodAffinityWeight")
        affinity = label_affinity(
            present=self._present,
            absent=self._absent,
            prefer_present=self._prefer_present,
            prefer_absent=self._prefer_absent,
        )
        if affinity:
            config.append({"name": "NodeAffinity", "args": {"addedAffinity": affinity}})
        if self._strategy is not None and self._strategy != {"type": "LeastAllocated"}:
            config.append({"name": "NodeResourcesFit", "args": {"scoringStrategy": self._strategy}})
        return config

    def _read_extenders(self) -> list[dict[str, Any]]:
        converted = []
        for i, extender in enumerate(self._list("extenders") or []):
            at = f"extenders[{i}]"
            new = dict(extender)
            if "enableHttps" in new:
                new["enableHTTPS"] = new.pop("enableHttps")
                self._note(f"{at}.enableHttps", "now spelt enableHTTPS")
            timeout = new.get("httpTimeout")
            if isinstance(timeout, int) and not isinstance(timeout, bool):
                new["httpTimeout"] = format_duration(timeout / 1e9)
                self._note(f"{at}.httpTimeout", f"was {timeout} nanoseconds, now written {new['httpTimeout']}")
            for field in [field for field in new if field not in _EXTENDER_FIELDS]:
                self._note(f"{at}.{field}", "no such field today, dropped", lost=True)
                del new[field]
            converted.append(new)
        return converted

    def _list(self, field: str) -> list[dict[str, Any]] | None:
        value = self._document.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._problems.append(f"{field}: Invalid value: {show(value)}: expected a list of objects")
            return []
        return value

    def _note(self, path: str, text: str, *, lost: bool = False) -> None:
        self._notes.append(ConversionNote(path, text, lost))


# Plugins that a Policy could enable and disable.
_KNOWN_FILTERS = frozenset(name for plugins in _PREDICATES.values() for name in plugins)
_KNOWN_SCORES = frozenset(_PRIORITIES.values()) | {"NodeResourcesFit"}
