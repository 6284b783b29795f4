"""Objects by name, as kubectl writes them: ``pod/shop/web-7``, ``node/node-3``, ``pvc/shop/data``."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.defaults import CLUSTER_SCOPED
from mooring.api.manifests import READ_KINDS
from mooring.api.meta import Object
from mooring.errors import InputError
from mooring.meant import hint, nearest

_SHORT = {
    "po": "Pod",
    "no": "Node",
    "ns": "Namespace",
    "svc": "Service",
    "rc": "ReplicationController",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "pv": "PersistentVolume",
    "pvc": "PersistentVolumeClaim",
    "sc": "StorageClass",
    "pdb": "PodDisruptionBudget",
    "pc": "PriorityClass",
}


def _plural(kind: str) -> str:
    if kind.endswith("y"):
        return kind[:-1] + "ies"
    return kind + ("es" if kind.endswith("s") else "s")


_SINGULAR = {kind.lower(): kind for kind in READ_KINDS}
_KINDS = {**_SINGULAR, **{_plural(kind): name for kind, name in _SINGULAR.items()}, **_SHORT}


def parse_reference(text: str) -> tuple[type[Object], str]:
    """The kind and the key (``namespace/name``, or the name alone) that a reference means."""
    kind, *names = text.split("/")
    if kind.lower() not in _KINDS:
        meant = hint(kind.lower(), _SINGULAR, "expected one such as pod, node or pvc")
        raise InputError(f"{text}: {kind!r} is no kind that scheduling reads; {meant}")
    struct = READ_KINDS[_KINDS[kind.lower()]]
    is_cluster_scoped = issubclass(struct, CLUSTER_SCOPED)
    if not all(names) or len(names) not in ((1,) if is_cluster_scoped else (1, 2)):
        right = f"{kind}/name" if is_cluster_scoped else f"{kind}/namespace/name"
        raise InputError(f"{text}: expected {right}")
    return struct, "/".join(names) if is_cluster_scoped or len(names) == 2 else f"default/{names[0]}"


def not_there(what: str, key: str, known: Iterable[str]) -> InputError:
    """The error for an object that is not in the cluster, with the one that was probably meant."""
    keys = list(known)
    near = nearest_key(key, keys)
    hint = f"did you mean {near}?" if near else f"there are {len(keys)}" if keys else "there are none"
    return InputError(f"no {what} {key} in the cluster; {hint}")


def nearest_key(key: str, known: Iterable[str]) -> str:
    """The key that was probably meant: of the same name in another namespace, or of a similar name."""
    space, _, name = key.rpartition("/")
    by_name: dict[str, str] = {}
    for each in sorted(known, key=lambda each: (each.rpartition("/")[0] != space, each)):
        by_name.setdefault(each.rpartition("/")[2], each)
    return by_name.get(nearest(name, by_name), "")
