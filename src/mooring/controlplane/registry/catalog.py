"""The served kinds: every Kind that a module in ``groups`` defines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.controlplane.registry.groups import (
    batch,
    core,
    nodes,
    pods,
    queues,
    scheduling,
    volumes,
    workloads,
)
from mooring.controlplane.types.kind import Kind
from mooring.core.config.versions import KubernetesVersion

GROUPS: Final = (batch, core, nodes, pods, queues, scheduling, volumes, workloads)
KINDS: Final[tuple[Kind, ...]] = tuple(
    sorted(
        {value for module in GROUPS for value in vars(module).values() if isinstance(value, Kind)},
        key=lambda kind: (kind.group, kind.version, kind.plural),
    )
)
"""In the order of their groups and names, which discovery and garbage collection follow."""

_BY_PATH: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
_BY_RESOURCE: Final = {kind.resource: kind for kind in KINDS}
_BY_GROUP_KIND: Final = {(kind.group, kind.kind): kind for kind in KINDS}
STORED: Final = tuple(kind for kind in KINDS if kind.is_stored)


def by_path(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind served under ``/apis/group/version/plural``."""
    return _BY_PATH.get((group, version, plural))


def by_group_kind(group: str, kind: str) -> Kind | None:
    return _BY_GROUP_KIND.get((group, kind))


def by_resource(resource: str) -> Kind:
    """Return the kind of ``pods`` or ``deployments.apps``; KeyError for a resource that is not served."""
    return _BY_RESOURCE[resource]


def kinds_of(version: KubernetesVersion | None) -> tuple[Kind, ...]:
    """Return the kinds that a version serves; all of them without one."""
    later = version.later_kinds if version is not None else ()
    return tuple(kind for kind in KINDS if f"{kind.api_version} {kind.kind}" not in later)


def group_versions(kinds: Iterable[Kind] = KINDS) -> list[tuple[str, str]]:
    """Return the (group, version) pairs of kinds, the core group first."""
    return list(dict.fromkeys((kind.group, kind.version) for kind in kinds))


PODS: Final = pods.PODS
NODES: Final = nodes.NODES
NAMESPACES: Final = core.NAMESPACES
