"""A configuration as kube-scheduler writes it: ``--write-config-to`` and ``/configz``, field by field."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.times import format_duration
from mooring.core.config.types import (
    API_VERSION,
    KIND,
    DynamicResourcesArgs,
    ExtenderConfig,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
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

_REDACTED = "REDACTED"

# Fields that Go leaves out when they are empty; all others are written, even if they say nothing.
_OMIT_EMPTY: dict[type[msgspec.Struct], frozenset[str]] = {
    KubeSchedulerConfiguration: frozenset(("profiles", "extenders", "delay_cache_until_active")),
    KubeSchedulerProfile: frozenset(("percentage_of_nodes_to_score", "plugin_config")),
    Plugins: frozenset(("pod_group_post_filter",)),  # new in 1.37, which writes it even if it is empty
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
    ExtenderConfig: frozenset(ExtenderConfig.__struct_fields__) - {"url_prefix", "http_timeout"},
    ExtenderTLSConfig: frozenset(ExtenderTLSConfig.__struct_fields__),
    ExtenderManagedResource: frozenset(("ignored_by_scheduler",)),
}
_POINTER = frozenset(("percentage_of_nodes_to_score", "binding_timeout"))  # absent is not the same as zero
_DURATIONS: dict[type[msgspec.Struct], frozenset[str]] = {
    LeaderElectionConfiguration: frozenset(("lease_duration", "renew_deadline", "retry_period")),
    DynamicResourcesArgs: frozenset(("filter_timeout", "binding_timeout")),
    ExtenderConfig: frozenset(("http_timeout",)),
}


def to_wire(config: KubeSchedulerConfiguration, *, redact: bool = False) -> dict[str, Any]:
    """Return the configuration as a plain v1 document; ``redact`` hides private keys and passwords."""
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    document.update(_object(config, redact))
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
    durations = _DURATIONS.get(kind, frozenset())
    written: dict[str, Any] = {}
    if isinstance(value, PluginArgs):
        written.update(apiVersion=API_VERSION, kind=value.kind())
    for field in msgspec.structs.fields(kind):
        item = getattr(value, field.name)
        if field.name in omit and (item is None if field.name in _POINTER else not item or item == PluginSet()):
            continue
        if field.name in durations and item is not None:
            written[field.encode_name] = format_duration(item)
        elif field.name == "key_data" and redact:
            written[field.encode_name] = _REDACTED
        elif isinstance(value, ExtenderConfig) and field.name == "url_prefix" and redact:
            written[field.encode_name] = value.shown_url
        else:
            written[field.encode_name] = _value(item, redact)
    return written


def _value(item: Any, redact: bool) -> Any:
    if isinstance(item, msgspec.Struct):
        # Kubernetes API objects (affinity, constraints) know their own wire form.
        return (
            _object(item, redact)
            if type(item).__module__.startswith("mooring.core.config")
            else msgspec.to_builtins(item)
        )
    if isinstance(item, list):
        return [_value(one, redact) for one in item]
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if isinstance(item, float) and item.is_integer():
        return int(item)
    return item
