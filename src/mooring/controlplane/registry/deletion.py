"""Deletion: grace periods, finalizers, propagation; an object is removed when nothing holds it any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mooring.api.times import format_time
from mooring.controlplane.registry.groups.core import NAMESPACES
from mooring.controlplane.registry.groups.pods import PODS
from mooring.controlplane.storage.store import StoredEntry
from mooring.controlplane.types import status
from mooring.controlplane.types.kind import Kind, Object

if TYPE_CHECKING:
    from mooring.controlplane.registry.verbs import Api

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
IMMORTAL = ("default", "kube-public", "kube-system")
MAX_GRACE_S = 2**31
"""No timestamp can represent the end of a longer grace period."""
_POLICIES = ("Background", "Foreground", "Orphan")


def is_finished(kind: Kind, obj: Object) -> bool:
    """Report whether an object that is being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind is NAMESPACES and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def delete(
    api: Api, kind: Kind, entry: StoredEntry, options: Mapping[str, Any], dry_run: bool
) -> tuple[StoredEntry, bool]:
    """Delete or begin to, as the options say; also return whether the object is gone."""
    if kind is NAMESPACES and entry.name in IMMORTAL:
        raise status.forbidden("namespaces", "", entry.name, "this namespace may not be deleted")
    _check_preconditions(kind, entry, options.get("preconditions") or {})
    policy = _policy(options)
    obj = entry.object()
    metadata = obj["metadata"]
    grace_s = _grace_period_s(kind, obj, options)
    finalizers = [name for name in metadata.get("finalizers") or () if name not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        finalizers.append(FOREGROUND)
    elif policy == "Orphan":
        finalizers.append(ORPHAN)
    elif not policy:
        finalizers = list(metadata.get("finalizers") or ())
    if metadata.get("deletionTimestamp"):
        known_s = metadata.get("deletionGracePeriodSeconds", 0)
        if grace_s >= known_s and finalizers == list(metadata.get("finalizers") or ()):
            if is_finished(kind, obj):
                return (entry, True) if dry_run else (api.store.delete(kind, entry, obj), True)
            return entry, False
        grace_s = min(grace_s, known_s)
    elif metadata.get("generation"):
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = format_time(api.clock.now() + grace_s)
    metadata["deletionGracePeriodSeconds"] = grace_s
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if kind is NAMESPACES:
        obj.setdefault("status", {})["phase"] = "Terminating"
    if is_finished(kind, obj):
        # Watchers that saw the object terminating see a last state that says so too; one that is deleted immediately
        # never carries a deletion timestamp.
        if grace_s or b'"deletionTimestamp"' not in entry.raw:
            obj = entry.object()
        return (entry, True) if dry_run else (api.store.delete(kind, entry, obj), True)
    if dry_run:
        return StoredEntry(kind, entry.key, entry.rv, obj), False
    return api.store.update(kind, entry, obj), False


def _check_preconditions(kind: Kind, entry: StoredEntry, preconditions: Mapping[str, Any]) -> None:
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != entry.uid:
        raise status.uid_conflict(kind.plural, kind.group, entry.name, uid, entry.uid)
    if version and version != str(entry.rv):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {str(version)[:32]}, "
            f"ResourceVersion in object meta: {entry.rv}"
        )
        raise status.conflict(kind.plural, kind.group, entry.name, why)


def _invalid(cause: status.Cause) -> status.StatusError:
    return status.invalid("DeleteOptions", "meta.k8s.io", "", [cause])


def _policy(options: Mapping[str, Any]) -> str:
    policy = options.get("propagationPolicy") or ""
    if policy and policy not in _POLICIES:
        raise _invalid(status.unsupported("propagationPolicy", policy, ["Foreground", "Background", "Orphan", "nil"]))
    orphan = options.get("orphanDependents")
    if orphan is not None:
        if policy:
            why = "orphanDependents and deletionPropagation cannot be both set"
            raise _invalid(status.invalid_value("propagationPolicy", policy, why))
        policy = "Orphan" if orphan else "Background"
    return str(policy)


def _grace_period_s(kind: Kind, obj: Object, options: Mapping[str, Any]) -> int:
    given = options.get("gracePeriodSeconds")
    if given is not None and given < 0:
        raise _invalid(status.invalid_value("gracePeriodSeconds", given, "must be greater than or equal to 0"))
    if kind is not PODS:
        return 0
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = int(spec.get("terminationGracePeriodSeconds", 30) if given is None else given)
    return 1 if wanted < 0 else min(wanted, MAX_GRACE_S)
