"""A cluster for questions: nodes, running pods, pending pods, and all other objects that scheduling reads."""

from __future__ import annotations

import glob
import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from mooring.api.core import Node, Pod
from mooring.api.defaults import CLUSTER_SCOPED, set_default_meta
from mooring.api.errors import InputError, warn
from mooring.api.manifests import READ_KINDS, Manifests, load_manifests, parse_manifests
from mooring.api.meta import Object
from mooring.api.text import count_of, hint, nearest
from mooring.api.version import UNKNOWN, Release
from mooring.api.well_known import HOSTNAME
from mooring.core.explain.decision import DecisionTable
from mooring.core.framework.handle import Nominations, put_object
from mooring.core.state import cluster as columns
from mooring.core.state.requests import written

# --------------------------------------------------------------------------------------------------------------------
# Objects by name, as kubectl writes them: ``pod/shop/web-7``, ``node/node-3``, ``pvc/shop/data``.

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
    """Return the kind and the key (``namespace/name``, or the name alone) of a reference."""
    kind, *names = text.split("/")
    if kind.lower() not in _KINDS:
        meant = hint(kind.lower(), _SINGULAR, "expected one such as pod, node or pvc")
        raise InputError(f"{text}: {kind!r} is not a kind that scheduling reads; {meant}")
    struct = READ_KINDS[_KINDS[kind.lower()]]
    is_cluster_scoped = issubclass(struct, CLUSTER_SCOPED)
    if not all(names) or len(names) not in ((1,) if is_cluster_scoped else (1, 2)):
        right = f"{kind}/name" if is_cluster_scoped else f"{kind}/namespace/name"
        raise InputError(f"{text}: expected {right}")
    return struct, "/".join(names) if is_cluster_scoped or len(names) == 2 else f"default/{names[0]}"


def not_there(what: str, key: str, known: Iterable[str]) -> InputError:
    """Return the error for a missing object, with the name that was probably meant."""
    keys = list(known)
    near = nearest_key(key, keys)
    hint = f"did you mean {near}?" if near else f"there are {len(keys)}" if keys else "there are none"
    return InputError(f"no {what} {key} in the cluster; {hint}")


def nearest_key(key: str, known: Iterable[str]) -> str:
    """Return the key that was probably meant: the same name in another namespace, or a similar name."""
    space, _, name = key.rpartition("/")
    by_name: dict[str, str] = {}
    for each in sorted(known, key=lambda each: (each.rpartition("/")[0] != space, each)):
        by_name.setdefault(each.rpartition("/")[2], each)
    return by_name.get(nearest(name, by_name), "")


# --------------------------------------------------------------------------------------------------------------------
# Manifests from files, directories, globs, kubectl's output, dicts.

Source: TypeAlias = str | Path | bytes | Mapping[str, Any]
"""A path or glob, the bytes of a manifest, or a manifest as a dict."""


def read_manifests(sources: Iterable[Source], context: Manifests | None = None) -> Manifests:
    """Read all objects of these sources, completed as an API server would."""
    paths: list[str] = []
    texts: list[bytes] = []
    for source in sources:
        match source:
            case bytes():
                texts.append(source)
            case Mapping():
                texts.append(json.dumps(source, default=str).encode())
            case str() | Path():
                paths += _paths(str(source))
            case list() | tuple():
                raise InputError(f"found a {type(source).__name__}; expected its items one by one: add * before it")
            case _:
                expected = "expected a path, a manifest as a dict, or the bytes of one"
                raise InputError(f"found {reprlib.repr(source)}; {expected}")
    found = load_manifests(paths, context)
    for text in texts:
        before: list[Object] = [*(context.objects if context is not None else ()), *found.objects]
        more = parse_manifests(text, "the given manifest", Manifests(objects=before))
        found.objects += more.objects
        found.places += more.places
        found.workloads += more.workloads
        found.unknown += more.unknown
        found.ignored += more.ignored
        found.server_release = max(found.server_release, more.server_release)
        found.kubelet_release = max(found.kubelet_release, more.kubelet_release)
    return found


def _paths(path: str) -> Iterator[str]:
    """Yield the path itself, or the matches of a pattern."""
    if not glob.has_magic(path) or Path(path).exists():
        yield path
        return
    matching = sorted(glob.glob(path, recursive=True))
    if not matching:
        raise InputError(f"{path}: no file matches this pattern")
    yield from matching


_FUNCTIONS = ("capacity", "diff", "drill", "explain", "plan", "plan_removal", "simulate")
_ASKED_ELSEWHERE = {
    **{name: f"mooring.{name}(cluster, …)" for name in _FUNCTIONS},
    **{name: f"mooring.Scheduler(cluster).{name}(pod)" for name in ("decide", "place", "schedule")},
    "lint": "mooring.lint(manifests, cluster=cluster)",
}
"""Functions that users look for on a cluster, with the right call."""

Addable: TypeAlias = Object | Source
"""An API object, the path of a file or directory with manifests, or a manifest as a dict or as bytes."""


class Cluster:
    """Nodes, pods and all other objects that scheduling reads. All changes go through this class.

    Ask hypothetical questions of a :meth:`fork`. Objects in ``nodes``, ``pods`` and ``pending`` are the cluster's own:
    treat them as read-only. To change one, get a copy with :meth:`get`, and :meth:`add` it again.
    """

    def __init__(self, *objects: Addable) -> None:
        self.state = columns.ClusterState()  # what the engine reads
        self.nominations = Nominations()
        self.release: Release = UNKNOWN  # of Kubernetes, if known
        self.namespace = "default"  # namespace of pods named without one
        self.records: tuple[str, ...] = ()  # files that it was read from; no record of it may replace them
        self._pods: dict[str, Pod] = {}  # by namespace/name, without finished ones
        self.add(*objects)

    @classmethod
    def of(cls, state: columns.ClusterState, pods: Iterable[Pod], nominations: Nominations) -> Self:
        """Return a cluster of an existing state, which has no other owner, and its unfinished pods."""
        cluster = cls()
        cluster.state, cluster.nominations = state, nominations
        cluster._pods = {pod.key: pod for pod in pods if not pod.is_finished}
        return cluster

    def __reduce__(self) -> tuple[Any, ...]:
        """How another process gets the same cluster: its objects in an order that gives the same rows."""
        pods = [info.pod for info in self.state.pods()]
        counted = {pod.uid for pod in pods}
        pods += [pod for pod in self._pods.values() if pod.uid not in counted]
        objects = [*self.state.table.nodes_by_zone(), *self.state.objects, *pods]
        nominated = [(node, pod.pod) for node, pod in self.nominations.all()]
        return _cluster_of, (objects, list(self._pods), nominated, self.release, self.namespace, self.records)

    # ---- reading -----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the scheduler's order."""
        return [info.node for info in self.state.nodes().infos if info.node is not None]

    @property
    def pods(self) -> list[Pod]:
        """Pods with a node."""
        return [pod for pod in self._pods.values() if pod.spec.node_name]

    @property
    def pending(self) -> list[Pod]:
        """Pods without a node."""
        return [pod for pod in self._pods.values() if not pod.spec.node_name]

    def get(self, reference: str) -> Any:
        """Return a copy of an object, such as ``node/node-3`` or ``pod/shop/web-7``."""
        return deepcopy(self._get(*parse_reference(reference)))

    def __getitem__(self, reference: str) -> Any:
        """Return the same as :meth:`get`; nodes and pods may be named without their kind: ``cluster["shop/web-7"]``."""
        if not isinstance(reference, str):
            raise InputError(f"found {reference!r}; expected a name, such as node-3 or shop/web-7")
        return deepcopy(self._named(reference))

    def __contains__(self, reference: str) -> bool:
        """Report whether there is an object of this name, such as ``node-3`` or ``shop/web-7``."""
        try:
            self._named(reference)
        except InputError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """Yield the references of all objects, such as ``node/node-3`` and ``pod/shop/web-7``."""
        for obj in (*self.nodes, *self._pods.values(), *self.state.objects):
            yield f"{type(obj).__name__.lower()}/{obj.key}"

    def __len__(self) -> int:
        """Number of objects of all kinds."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        """A cluster is true, even if it is empty."""
        return True

    def _named(self, reference: str) -> Object:
        """Return an object by its reference; a node by its name, a pod by its key or by its name in the default
        namespace.
        """
        kind = reference.partition("/")[0].lower()
        if "/" in reference and kind in _KINDS and reference not in self._pods:
            return self._get(*parse_reference(reference))
        with suppress(InputError):
            return self._get(Node, reference)
        for key in (reference, f"{self.namespace}/{reference}"):
            if key in self._pods:
                return self._pods[key]
        raise not_there("node or pod", reference, (each.key for each in (*self.nodes, *self._pods.values())))

    if not TYPE_CHECKING:  # types know what there is

        def __getattr__(self, name: str) -> Any:
            how = _ASKED_ELSEWHERE.get(name)
            raise AttributeError(f"a Cluster has no {name!r}" + (f"; ask {how}" if how else ""), name=name, obj=self)

    def find_pod(self, key: str) -> Pod | None:
        """Return the pod of this ``namespace/name``, or None. It is the cluster's own object: do not change it."""
        return self._pods.get(key)

    def _get(self, kind: type[Object], key: str) -> Object:
        found: Object | None
        if kind is Pod:
            found = self._pods.get(key)
        elif kind is Node:
            info = self.state.table.nodes.get(key)
            found = None if info is None else info.node
        else:
            found = self.state.objects.get(kind, key)
        if found is None:
            raise not_there(kind.__name__.lower(), key, (obj.key for obj in self._all(kind)))
        return found

    def _all(self, kind: type[Object]) -> Iterable[Object]:
        if kind is Pod:
            return self._pods.values()
        return self.nodes if kind is Node else self.state.objects.all(kind)

    # ---- changing ----------------------------------------------------------------------------------------------

    def add(self, *objects: Addable, copies: int | None = None) -> list[Any]:
        """Add objects, or replace those of the same kind and name. Return copies of what was added.

        With ``copies``, this many of each are added instead, with new names (``web-1``, ``web-2`` …) and uids; a copy
        of a node gets its own hostname label. Related objects of a node, such as its CSINode, are not copied.
        """
        given, notes = self._read(objects)
        warn(notes)
        added = given if copies is None else [each for obj in given for each in self._copies(obj, copies)]
        for obj in added:
            self._put(deepcopy(obj))
        return added

    def remove(self, reference: str | Object) -> None:
        """Remove an object, such as ``pod/shop/web-7``. A node's pods are removed with it."""
        kind, key = (type(reference), reference.key) if isinstance(reference, Object) else parse_reference(reference)
        found = self._get(kind, key)
        if isinstance(found, Pod):
            self._drop(found)
        elif isinstance(found, Node):
            for pod in [pod for pod in self.pods if pod.spec.node_name == found.name]:
                self._drop(pod)
            self.state.remove_node(key)
        else:
            self.state.objects.remove(kind, key)

    def cordon(self, *names: str) -> None:
        """Mark nodes as unschedulable."""
        self._set_unschedulable(names, True)

    def uncordon(self, *names: str) -> None:
        """Mark nodes as schedulable again."""
        self._set_unschedulable(names, False)

    def bind(self, pod: Pod, node: str) -> None:
        """Count a pending or new pod on a node. The pod must not be changed any more."""
        placed = copy(pod)
        placed.spec, placed.status = copy(pod.spec), copy(pod.status)
        placed.spec.node_name = node
        placed.status.nominated_node_name = ""
        self._put(placed)

    def take_over(self, objects: Iterable[Object]) -> Self:
        """Add objects without copying them; the caller must not use them any more."""
        for obj in objects:
            self._put(obj)
        return self

    def _set_unschedulable(self, names: Iterable[str], value: bool) -> None:
        nodes = [deepcopy(self._get(Node, name)) for name in names]  # all exist, or none is changed
        for node in nodes:
            assert isinstance(node, Node)
            node.spec.unschedulable = value
            self.state.set_node(node)

    def _read(self, objects: Iterable[Addable]) -> tuple[list[Object], list[str]]:
        """Return copies of objects, and those of manifests as an API server would store them; and warnings."""
        copies: list[Object] = []
        sources: list[Source] = []
        for each in objects:
            if isinstance(each, Object):
                copies.append(deepcopy(each))
                set_default_meta(copies[-1])
            else:
                sources.append(each)
        found = read_manifests(sources, self.context() if sources else None)
        return [*copies, *found.objects], found.unknown_notes

    def context(self) -> Manifests:
        """Objects that matter for completing a manifest as an API server would, such as classes."""
        return Manifests(objects=list(self.state.objects))

    def _copies(self, obj: Object, count: int) -> Iterator[Object]:
        taken = {each.name for each in self._all(type(obj)) if each.namespace == obj.namespace}
        number = 0
        for _ in range(count):
            number += 1
            while f"{obj.name}-{number}" in taken:
                number += 1
            twin = deepcopy(obj)
            twin.metadata.name, twin.metadata.uid = f"{obj.name}-{number}", ""
            if isinstance(twin, Node) and HOSTNAME in twin.labels:
                twin.metadata.labels = {**twin.labels, HOSTNAME: twin.name}
            set_default_meta(twin)
            yield twin

    def _put(self, obj: Object) -> None:
        if not isinstance(obj, Pod):
            self.state.put(obj)
            return
        old = self._pods.get(obj.key)
        if old is not None and (old.uid != obj.uid or obj.is_finished):
            self._drop(old)
        if obj.is_finished:
            return
        self._pods[obj.key] = obj
        put_object(self.state, self.nominations, obj)

    def _drop(self, pod: Pod) -> None:
        self._pods.pop(pod.key, None)
        self.nominations.withdraw(pod.uid)
        self.state.remove_pod(pod.uid)

    # ---- what if -----------------------------------------------------------------------------------------------

    def fork(self) -> Self:
        """Return a cluster for a hypothetical question; later changes of one do not affect the other.

        It is cheap: unchanged parts are shared. Typical use: ``with cluster.fork() as tomorrow:``.
        """
        fork = self.__class__()
        fork.state = self.state.fork()
        fork.nominations = self.nominations.copy()
        fork.release = self.release
        fork.namespace = self.namespace
        fork.records = self.records
        fork._pods = dict(self._pods)
        return fork

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    # ---- rendering ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        running = sum(bool(pod.spec.node_name) for pod in self._pods.values())
        waiting = len(self._pods) - running
        return f"<Cluster: {count_of(len(self.state.nodes()), 'node')}, {count_of(running, 'pod')}, {waiting} pending>"

    def table(self) -> DecisionTable:
        """Return the nodes, their utilisation, and whether they are schedulable."""
        return nodes_table(self.state)

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per node."""
        return self.table().to_pandas("node")

    def _repr_html_(self) -> str:
        return f"<p>{repr(self)[1:-1]}</p>{self.table().html()}"


def _cluster_of(
    objects: list[Object],
    keys: list[str],
    nominated: list[tuple[str, Pod]],
    release: Release,
    namespace: str,
    records: tuple[str, ...],
) -> Cluster:
    cluster = Cluster().take_over(objects)
    cluster._pods = {key: cluster._pods[key] for key in keys}
    cluster.nominations = Nominations()
    for node, pod in nominated:
        cluster.nominations.nominate(cluster.state.info(pod), node)
    cluster.release, cluster.namespace, cluster.records = release, namespace, records
    return cluster


def nodes_table(state: columns.ClusterState) -> DecisionTable:
    """Return the nodes, their utilisation, and whether they are schedulable."""
    rows = state.nodes()
    amounts = [(name, rows.requested(name), rows.allocatable(name)) for name in ("cpu", "memory")]
    cells = []
    for i, info in enumerate(rows.infos):
        full = [f"{written(name, int(used[i]))} of {written(name, int(there[i]))}" for name, used, there in amounts]
        cordoned = "cordoned" if rows.unschedulable[i] else ""
        cells.append((info.name, f"{rows.pod_count[i]} of {rows.allowed_pods[i]}", *full, cordoned))
    return DecisionTable(("node", "pods", "cpu", "memory", ""), cells)


def as_cluster(value: object) -> Cluster:
    """Check the argument of a function that takes a cluster."""
    if not isinstance(value, Cluster):
        raise InputError(f"found {value!r}; expected a Cluster, such as mooring.load(path) makes")
    return value
