"""Pod groups that somebody asks about: which there are, which pods they have, and which gates they need."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.config.features import Features
from mooring.errors import InputError
from mooring.state.group_members import group_of
from mooring.surface.cluster import Cluster
from mooring.surface.references import nearest_key

PREFIXES = ("podgroup/", "podgroups/", "pg/")


def with_groups(features: Features, objects: Iterable[Object]) -> Features:
    """The features with the gates on that a cluster with these objects must have: it serves PodGroups.

    A version that cannot schedule them stays as it is.
    """
    groups = [obj for obj in objects if isinstance(obj, PodGroup)]
    if not groups or "GenericWorkload" in features.version.unsupported:
        return features
    on = {"GenericWorkload": True}
    if any(group.topology_key for group in groups):
        on["TopologyAwareWorkloadScheduling"] = True
    return Features(features.version, **{**features.changed(), **on})


def asked_group(text: str, namespace: str = "default") -> str:
    """``namespace/name`` of the group that is asked for, or nothing: ``podgroup/train-1`` is one."""
    for prefix in PREFIXES:
        if text.startswith(prefix):
            key = text.removeprefix(prefix)
            return key if "/" in key else f"{namespace}/{key}"
    return ""


def find_group(key: str, cluster: Cluster) -> tuple[PodGroup, list[Pod]]:
    """The group, and its pods that have no node, in the order of their creation."""
    group = cluster.state.objects.get(PodGroup, key)
    if group is None:
        known = [each.key for each in cluster.state.objects.all(PodGroup)]
        near = nearest_key(key, known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
        raise InputError(f"there is no PodGroup {key}; {hint}")
    pods = [pod for pod in cluster.pending if group_of(pod) == key]
    return group, sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "")
