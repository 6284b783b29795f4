"""cluster-autoscaler's node groups and flags, as a small YAML file, and the ``nodeGroup`` step of a simulation.

```yaml
kind: ClusterAutoscaler
flags: {expander: "priority,least-waste", scale-down-unneeded-time: 5m}     # or the arguments of the container
nodeGroups:
- {name: general, type: general-8, zones: [north], min: 1, max: 50}
- {name: spot, type: general-8, capacityType: spot, max: 50, flags: {scale-down-unneeded-time: 2m}}
priorities: {10: ["spot"], 1: [".*"]}                                        # of the expander priority
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mooring.api.core import Taint
from mooring.api.errors import InputError
from mooring.api.text import hint
from mooring.api.well_known import ZONE
from mooring.sim.autoscaler.cloud import OS, Offering, amounts_of, taint_of
from mooring.sim.catalogue import ARCHITECTURE, MAX_PRICE, ON_DEMAND, SPOT
from mooring.sim.objects import taint
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts, truth, whole_number

KIND = "ClusterAutoscaler"
EXPANDERS = ("random", "least-waste", "most-pods", "least-nodes", "price", "priority")
CHEAPEST = "cheapest"  # of the step nodeGroup: the lowest price of a node, regardless of its pods
DEFAULT_IDLE_S, DEFAULT_STEP_DELAY_S = 600.0, 120.0


@dataclass(frozen=True)
class Flags:
    """Flags that matter to a simulation, with upstream's defaults. Durations are in seconds."""

    expander: tuple[str, ...] = ("least-waste",)
    scan_interval: float = 10.0
    max_nodes_total: int = 0  # 0: no limit
    max_nodes_per_scaleup: int = 1000
    salvo_scale_up: bool = False  # several scale-ups in one scan
    new_pod_scale_up_delay: float = 0.0
    expendable_pods_priority_cutoff: int = -10
    initial_node_group_backoff_duration: float = 300.0
    max_node_group_backoff_duration: float = 1800.0
    node_group_backoff_reset_timeout: float = 10800.0
    scale_down_enabled: bool = True
    scale_down_delay_after_add: float = 600.0
    scale_down_delay_after_delete: float = 0.0
    scale_down_delay_after_failure: float = 180.0
    scale_down_unneeded_time: float = 600.0
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    ignore_daemonsets_utilization: bool = False
    unremovable_node_recheck_timeout: float = 300.0
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    max_pod_eviction_time: float = 120.0
    node_delete_delay_after_taint: float = 5.0
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True


_OF_A_GROUP = ("scale-down-unneeded-time", "scale-down-utilization-threshold", "scale-down-gpu-utilization-threshold",
               "ignore-daemonsets-utilization")  # fmt: skip
_ELSEWHERE = frozenset(("address", "alsologtostderr", "aws-use-static-instance-list", "cloud-config", "cloud-provider",
    "cluster-name", "kubeconfig", "kubernetes", "leader-elect", "log-file", "logtostderr", "max-bulk-soft-taint-count",
    "max-bulk-soft-taint-time", "namespace", "node-group-auto-discovery", "profiling", "stderrthreshold", "v",
    "write-status-configmap", "status-config-map-name", "record-duplicated-events", "user-agent", "regional",
    "cordon-node-before-terminating", "emit-per-nodegroup-metrics", "max-binpacking-time", "max-inactivity",
    "max-failing-time", "scale-down-simulation-timeout", "max-nodegroup-binpacking-duration"))  # fmt: skip
"""Flags that change nothing in virtual time."""


def _field(name: str) -> str:
    return name.replace("-", "_")


def read_flags(value: Any, base: Flags | None = None, only: Sequence[str] = ()) -> Flags:
    """Flags as a mapping, or as the arguments of the container."""
    known = {
        name.replace("_", "-"): name for name in Flags.__dataclass_fields__ if not only or name in map(_field, only)
    }
    changes: dict[str, Any] = {}
    for name, each in _flag_items(value):
        if name in _ELSEWHERE and not only:
            continue
        if name not in known:
            raise InputError(f"flags: --{name} is not simulated; {hint(name, known)}")
        changes[known[name]] = _flag(name, each, getattr(Flags(), known[name]))
    flags = replace(base or Flags(), **changes)
    for expander in flags.expander:
        if expander not in (*EXPANDERS, CHEAPEST):
            raise InputError(f"flags: --expander: no expander {expander!r}; {hint(expander, EXPANDERS)}")
    return flags


def _flag_items(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, list):
        return [(name.lstrip("-"), each) for name, each in mapping(value, "flags").items()]
    found = []
    for text in texts(value, "flags"):
        if text.startswith("-"):
            name, equals, each = text.lstrip("-").partition("=")
            found.append((name, each if equals else "true"))
    return found


def _flag(name: str, value: Any, default: Any) -> Any:
    where = f"flags: --{name}"
    match default:
        case tuple():
            return tuple(each.strip() for each in str(value).split(",") if each.strip())
        case bool():
            return truth(value, where)
        case int():
            return whole_number(value, where, least=-1_000_000_000)
        case _ if name.endswith("threshold"):
            try:
                return float(value)
            except (TypeError, ValueError):
                raise InputError(f"{where}: expected a share such as 0.5, found {described(value)}") from None
        case _:
            return seconds(value, where)


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one kind, in its zones by turns."""

    name: str
    least: int
    most: int
    offerings: tuple[Offering, ...]
    taints: tuple[Taint, ...] = ()
    delay_s: float | None = None  # None: as the cloud says
    flags: Flags = field(default_factory=Flags)  # with its own

    def offering(self, number: int) -> Offering:
        """Return the offering of the node with this number."""
        return self.offerings[(number - 1) % len(self.offerings)]


@dataclass(frozen=True)
class ClusterAutoscalerPolicy:
    """A policy file of cluster-autoscaler."""

    flags: Flags
    groups: tuple[NodeGroup, ...]
    priorities: Mapping[int, tuple[re.Pattern[str], ...]] = field(default_factory=dict)


def read_policy(value: Mapping[str, Any], offerings: Sequence[Offering]) -> ClusterAutoscalerPolicy:
    """Read a policy file, with the nodes of a catalogue."""
    fields = fields_of(value, {"apiVersion", "kind", "flags", "nodeGroups", "priorities"}, required=("nodeGroups",))
    flags = read_flags(fields.get("flags"))
    rows = fields["nodeGroups"]
    if not isinstance(rows, list) or not rows:
        raise InputError(f"nodeGroups: expected a list of node groups, found {described(rows)}")
    groups: list[NodeGroup] = []
    for i, row in enumerate(rows):
        try:
            groups.append(_group(row, flags, offerings))
        except InputError as error:
            raise InputError(f"nodeGroups[{i}]: {error}") from None
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"nodeGroups: {name!r} occurs twice; names must be unique")
    return ClusterAutoscalerPolicy(flags, tuple(groups), _priorities(fields.get("priorities")))


def _priorities(value: Any) -> dict[int, tuple[re.Pattern[str], ...]]:
    found = {}
    for number, patterns in mapping(value, "priorities").items():
        try:
            found[int(number)] = tuple(re.compile(each) for each in texts(patterns, f"priorities.{number}"))
        except (ValueError, re.error) as error:
            raise InputError(f"priorities.{number}: {error}; expected a number with regular expressions") from None
    return found


def _group(row: Any, flags: Flags, offerings: Sequence[Offering]) -> NodeGroup:
    fields = fields_of(
        row, {"name", "type", "zones", "capacityType", "min", "max", "labels", "taints", "flags"},
        required=("name", "type", "max"),
    )  # fmt: skip
    least, most = _sizes(fields)
    capacity_type = str(fields.get("capacityType", ON_DEMAND))
    if capacity_type not in (ON_DEMAND, SPOT):
        raise InputError(f"capacityType: expected {ON_DEMAND} or {SPOT}, found {capacity_type!r}")
    zones, labels = texts(fields.get("zones", []), "zones"), mapping(fields.get("labels"), "labels")
    of_type = [each for each in offerings if each.type == str(fields["type"])]
    if not of_type:
        known = sorted({each.type for each in offerings})
        raise InputError(f"type: no type {str(fields['type'])!r} in the catalogue; {hint(str(fields['type']), known)}")
    found = [each for each in of_type if each.capacity_type == capacity_type and (not zones or each.zone in zones)]
    if not found or (zones and {each.zone for each in found} != set(zones)):
        raise InputError(f"type: {fields['type']} cannot be had as {capacity_type} in {', '.join(zones) or 'any zone'}")
    own = {key: str(each) for key, each in labels.items()}
    return NodeGroup(
        str(fields["name"]),
        least,
        most,
        tuple(each.with_labels(own) for each in found),
        _taints(fields.get("taints")),
        flags=read_flags(fields.get("flags"), flags, _OF_A_GROUP),
    )


def _taints(value: Any) -> tuple[Taint, ...]:
    """Read taints in the form of a story or of the API."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InputError(f"taints: expected a list, found {described(value)}")
    return tuple(taint_of(taint(each) if isinstance(each, str) else each) for each in value)


def _sizes(fields: Mapping[str, Any]) -> tuple[int, int]:
    least = whole_number(fields.get("min", 0), "min", most=100_000)
    most = whole_number(fields["max"], "max", most=100_000)
    if most < least:
        raise InputError(f"max: expected at least min, which is {least}, found {most}")
    return least, most


_STEP = {"name", "min", "max", "delay", "idle", "price", "cpu", "memory", "pods", "capacity", "labels", "taints",
         "zones"}  # fmt: skip
STEP_FLAGS = Flags(
    expander=(CHEAPEST,),
    salvo_scale_up=True,
    scale_down_delay_after_add=0.0,
    scale_down_utilization_threshold=0.0,  # only nodes that are empty
)


def read_step(value: Any) -> NodeGroup:
    """Read the step ``nodeGroup``: a group without a catalogue, whose nodes are removed when they stay empty."""
    fields = fields_of(value, _STEP, required=("name", "max"))
    least, most = _sizes(fields)
    price = fields.get("price", 0)
    if not isinstance(price, int | float) or isinstance(price, bool) or not 0 <= price < MAX_PRICE:
        raise InputError(f"price: expected what a node costs in an hour, below {MAX_PRICE:,}, found {described(price)}")
    capacity = {key: str(each) for key, each in mapping(fields.get("capacity"), "capacity").items()}
    shape = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    shape |= {name: str(fields[name]) for name in shape if name in fields}
    amounts_of({**shape, **capacity}, "nodeGroup")
    labels = {OS: "linux", ARCHITECTURE: "amd64"}
    labels |= {key: str(each) for key, each in mapping(fields.get("labels"), "labels").items()}
    name, zones = str(fields["name"]), texts(fields.get("zones", []), "zones")
    idle_s = seconds(fields.get("idle", DEFAULT_IDLE_S))
    return NodeGroup(
        name,
        least,
        most,
        tuple(
            Offering(
                name, zone, ON_DEMAND, float(price), {**shape, **capacity}, {**({ZONE: zone} if zone else {}), **labels}
            )
            for zone in zones or [""]
        ),
        _taints(texts(fields.get("taints", []), "taints")),
        seconds(fields.get("delay", DEFAULT_STEP_DELAY_S)),
        replace(STEP_FLAGS, scale_down_unneeded_time=idle_s),
    )
