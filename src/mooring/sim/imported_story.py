"""An import as a part of a story: the cluster of the start is created, and what follows happens at its times.

Pods of the import are those of a workload: in a simulation they do not go through the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.api.codec import to_plain
from mooring.api.core import Namespace, Node, Pod, ReplicationController
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.workloads import PriorityClass, ReplicaSet, StatefulSet
from mooring.errors import ApiError, InputError, MooringError
from mooring.importing.imported import Arrival as ImportedArrival
from mooring.importing.imported import Change, Imported
from mooring.importing.read import import_files
from mooring.sim.backend import Ref, kind_named
from mooring.sim.scenario import Scenario, ScenarioCluster
from mooring.sim.workload import Arrival, Setting

# What an object may refer to comes before it.
_ORDER = (Namespace, PriorityClass, StorageClass, PersistentVolume, PersistentVolumeClaim, Node)
# Their pods are imported themselves; a controller would make them a second time.
_CONTROLLERS = (ReplicaSet, StatefulSet, ReplicationController)
_OF_A_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


def story_of_files(paths: Sequence[Path]) -> Scenario:
    """A story that is nothing but an import."""
    found = import_files(paths)
    step = ImportStep(found)

    async def play(cluster: ScenarioCluster) -> None:
        await step(cluster)
        await cluster.finish()

    title = f"{found.format}: {found.summary()}"
    source = ", ".join(str(path) for path in paths)
    return Scenario(paths[0].stem, title, play, found.config, source=source)


class ImportStep:
    """Creates the cluster, and lets everything else happen meanwhile."""

    def __init__(self, found: Imported) -> None:
        self._found = found

    async def __call__(self, cluster: ScenarioCluster) -> None:
        found = self._found
        pods = [obj for obj in found.objects if isinstance(obj, Pod)]
        others = [obj for obj in found.objects if not isinstance(obj, (Pod, *_CONTROLLERS))]
        others.sort(key=_rank)
        await self._make_namespaces(cluster)
        try:
            await cluster.apply(*map(_manifest, others), *map(_bare, found.workloads))
        except ApiError as error:
            raise InputError(f"the import has an object that the API server refuses: {error}") from None
        setting = Setting(cluster.seed, await cluster.backend.nodes(), await cluster.backend.admission())
        happening = _in_order([*(ImportedArrival(0.0, pod) for pod in pods), *found.arrivals], found.changes)
        await cluster.meanwhile(self._play(cluster, happening, setting))

    async def _make_namespaces(self, cluster: ScenarioCluster) -> None:
        """The namespaces that objects are in, if the import does not have them."""
        found = self._found
        objects = [*found.objects, *(each.pod for each in found.arrivals)]
        objects += [each.obj for each in found.changes if isinstance(each.obj, Object)]
        workloads = [*found.workloads, *(each.obj for each in found.changes if isinstance(each.obj, Mapping))]
        there = {obj.name for obj in found.objects if isinstance(obj, Namespace)}
        needed = {obj.namespace for obj in objects} | {_namespace(each) for each in workloads}
        for name in sorted(needed - there - {""}):
            if await cluster.get(f"namespace/{name}") is None:
                await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def _play(self, cluster: ScenarioCluster, happening: Iterable[_Timed], setting: Setting) -> None:
        started_s = cluster.clock.monotonic()
        for at_s, what in happening:
            wait_s = started_s + at_s - cluster.clock.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            try:
                if isinstance(what, Change):
                    await self._change(cluster, what, setting)
                else:
                    await _arrive(cluster, what, setting)
            except MooringError as error:
                raise InputError(f"{at_s:g}s after the start of the import: {error}") from None

    async def _change(self, cluster: ScenarioCluster, change: Change, setting: Setting) -> None:
        obj = change.obj
        if isinstance(obj, _CONTROLLERS):
            return
        if change.is_gone:
            kind = type(obj).__name__ if isinstance(obj, Object) else str(obj.get("kind"))
            name, namespace = (obj.name, obj.namespace) if isinstance(obj, Object) else (_name(obj), _namespace(obj))
            grace_s = 0 if isinstance(obj, Pod) else None
            await cluster.backend.delete(Ref(kind_named(kind), name, namespace), grace_period_s=grace_s)
        elif isinstance(obj, Pod):
            await _arrive(cluster, ImportedArrival(change.at_s, obj), setting)
        else:
            await cluster.backend.apply(_manifest(obj) if isinstance(obj, Object) else _bare(obj))


async def _arrive(cluster: ScenarioCluster, arrival: ImportedArrival, setting: Setting) -> None:
    setting.admit(arrival.pod)
    coming = cluster.backend.arrive(Arrival(arrival.at_s, arrival.pod, arrival.run_s))
    if coming is not None:
        await coming


_Timed = tuple[float, ImportedArrival | Change]


def _in_order(arrivals: Sequence[ImportedArrival], changes: Iterable[Change]) -> list[_Timed]:
    """Everything by its time.

    At one time pods that came before go first, so that their names are free. Then other objects change, in the order
    of the import, then pods come. A pod that comes and goes at one time goes last.
    """
    came_s = {id(each.pod): each.at_s for each in arrivals}

    def turn(change: Change) -> int:
        if not isinstance(change.obj, Pod):
            return 1
        if not change.is_gone:
            return 2
        return 0 if came_s.get(id(change.obj), -1.0) < change.at_s else 3

    timed: list[tuple[float, int, ImportedArrival | Change]] = [(each.at_s, 2, each) for each in arrivals]
    timed += [(each.at_s, turn(each), each) for each in changes]
    timed.sort(key=lambda each: each[:2])  # stable
    return [(at_s, what) for at_s, _, what in timed]


def _rank(obj: Object) -> int:
    return next((i for i, kind in enumerate(_ORDER) if isinstance(obj, kind)), len(_ORDER))


def _manifest(obj: Object) -> dict[str, Any]:
    """An object as a manifest; an API server gives it a uid and a version of its own."""
    value: dict[str, Any] = to_plain(obj)
    kind = kind_named(type(obj).__name__)
    return {**value, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": _own(value["metadata"])}


def _bare(workload: Mapping[str, Any]) -> dict[str, Any]:
    """A workload without its status and without what a server adds."""
    value = {key: each for key, each in workload.items() if key != "status"}
    return {**value, "metadata": _own(workload.get("metadata") or {})}


def _own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in metadata.items() if name not in _OF_A_SERVER and name != "ownerReferences"}


def _name(workload: Mapping[str, Any]) -> str:
    return str((workload.get("metadata") or {}).get("name") or "")


def _namespace(workload: Mapping[str, Any]) -> str:
    return str((workload.get("metadata") or {}).get("namespace") or "default")
