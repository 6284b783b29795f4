"""What is evicted as one: a pod, or all pods of a group that asks for it (``disruptionMode: all``)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.pod_groups import PodGroup
from mooring.engine.preemption.dry_run_columns import start_time
from mooring.state.cluster import Cluster
from mooring.state.group_members import group_of
from mooring.state.pod_info import PodInfo


class Unit(msgspec.Struct, frozen=True):
    """One or more pods that go together. A pod of a group has the group's priority, evicted alone or not."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_of_group: bool = False


def units_among(pods: Iterable[PodInfo], cluster: Cluster) -> list[Unit]:
    """The units that these pods belong to, each once; a group's pods on other nodes are part of its unit."""
    units: list[Unit] = []
    seen: set[str] = set()
    for pod in pods:
        key = group_of(pod.pod)
        group = cluster.objects.get(PodGroup, key) if key else None
        if group is None:
            units.append(Unit((pod,), pod.priority, bool(key)))
        elif not group.is_evicted_as_one:
            units.append(Unit((pod,), group.priority, True))
        elif key not in seen:
            seen.add(key)
            members = tuple(cluster.groups.placed(key).values()) or (pod,)
            units.append(Unit(members, group.priority, True))
    return units


def by_importance(units: Iterable[Unit], now: float) -> list[Unit]:
    """The most important first: by priority; groups before pods; large before small; those that started early."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            not unit.is_of_group,
            -len(unit.pods),
            min(start_time(pod.pod, now) for pod in unit.pods),
        ),
    )
