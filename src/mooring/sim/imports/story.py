"""An import as part of a story: the initial cluster is created, and later events happen at their times.

Pods of the import are those of a workload: in a simulation they do not go through the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mooring.api.core import Namespace, Node, Pod, ReplicationController
from mooring.api.errors import ApiError, InputError, MooringError
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.workloads import PriorityClass, ReplicaSet, StatefulSet
from mooring.controlplane.cluster.kubelet import KUBELET
from mooring.core.config.versions import DEFAULT_VERSION
from mooring.sim.backend import Ref, kind_named, manifest_of
from mooring.sim.imports.imported import Imported, ImportedChange
from mooring.sim.objects import check_workload
from mooring.sim.scenario import Scenario, ScenarioCluster
from mooring.sim.step_fields import mapping
from mooring.sim.workload import Arrival, Setting

# An object is preceded by those that it may refer to.
_ORDER = (Namespace, PriorityClass, StorageClass, PersistentVolume, PersistentVolumeClaim, Node)
# Their pods are imported themselves; a controller would create them again.
_CONTROLLERS = (ReplicaSet, StatefulSet, ReplicationController)
_SOURCES = frozenset(
    ("csi", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "portworxVolume")
) | {"vsphereVolume"}
_KUBELETS = {"Unknown": "stopped", "False": "not-ready"}  # by the status of a node's condition Ready
_OF_A_SERVER = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "ownerReferences",
)


def story_of_files(names: Sequence[str]) -> Scenario:
    """A story that is nothing but an import. A record may have a time: ``run.mrec@90s``."""
    from mooring.sim.imports.read import import_story  # most stories import nothing: it reads every format

    found = import_story(names)
    step = ImportStep(found)

    async def play(cluster: ScenarioCluster) -> None:
        await step(cluster)
        await cluster.finish()

    title = f"{found.format}: {found.summary()}"
    return Scenario(
        Path(names[0]).name.partition(".")[0],
        title,
        play,
        found.config,
        source=", ".join(names),
        kubernetes_version=found.kubernetes_version or str(DEFAULT_VERSION),
        feature_gates=found.feature_gates,
        starts_at=found.started_at,
        records=tuple(found.records),
    )


def cluster_of(found: Imported) -> Imported:
    """Return only what exists at the start."""
    return replace(found, arrivals=[], changes=[])


def workload_of(found: Imported) -> Imported:
    """Return only the pods that arrive later, with their changes and deletions."""
    coming = {id(each.pod) for each in found.arrivals}
    changes = [each for each in found.changes if id(each.came_as if each.came_as else each.obj) in coming]
    return replace(found, objects=[], known_pods=[], workloads=[], places=[], changes=changes)


def check_workloads(found: Imported) -> None:
    """Reject workloads that an API server would reject, before anything is simulated."""
    coming = [(each.where, each.obj) for each in found.changes if isinstance(each.obj, Mapping) and not each.is_gone]
    for where, workload in [*zip(found.places, found.workloads, strict=True), *coming]:
        try:
            check_workload(_bare(workload))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


class ImportStep:
    """Creates the cluster, and plays everything else in the background."""

    def __init__(self, found: Imported) -> None:
        self._found = found
        self._came: set[str] = set()  # pods by namespace and name
        self.starts_at = found.started_at
        self.records = found.records

    async def __call__(self, cluster: ScenarioCluster) -> None:
        found = self._found
        self._came = set()
        pods = [obj for obj in found.objects if isinstance(obj, Pod)]
        others = [obj for obj in found.objects if not isinstance(obj, (Pod, *_CONTROLLERS))]
        for obj in found.objects:
            if isinstance(obj, _CONTROLLERS):
                cluster.backend.tell(obj)
        others.sort(key=_rank)
        await self._make_namespaces(cluster)
        try:
            await cluster.apply(*map(_manifest, others), *map(_bare, found.workloads))
        except ApiError as error:
            raise InputError(f"the import has an object that the API server refuses: {error}") from None
        setting = Setting(cluster.seed, await cluster.backend.nodes(), await cluster.backend.admission())
        there = [*(Arrival(0.0, pod) for pod in pods), *found.known_pods]
        happening = _in_order([*there, *found.arrivals], found.changes)
        await cluster.meanwhile(self._play(cluster, happening, setting))

    async def _make_namespaces(self, cluster: ScenarioCluster) -> None:
        """Create the objects' namespaces, if the import lacks them."""
        found = self._found
        objects = [*found.objects, *(each.pod for each in (*found.known_pods, *found.arrivals))]
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
                if isinstance(what, ImportedChange):
                    await self._change(cluster, what, setting)
                else:
                    await self._arrive(cluster, what, setting)
            except MooringError as error:
                raise InputError(f"{at_s:g}s after the start of the import: {error}") from None

    async def _arrive(self, cluster: ScenarioCluster, arrival: Arrival, setting: Setting) -> None:
        pod = arrival.pod
        setting.admit(pod)
        if pod.key in self._came:  # its predecessor was gone by now in the import, and may have waited longer here
            await cluster.backend.delete(Ref(kind_named("Pod"), pod.name, pod.namespace), grace_period_s=0)
        self._came.add(pod.key)
        coming = cluster.backend.arrive(arrival)
        if coming is not None:
            await coming

    async def _change(self, cluster: ScenarioCluster, change: ImportedChange, setting: Setting) -> None:
        obj = change.obj
        if isinstance(obj, _CONTROLLERS):
            cluster.backend.tell(obj, is_gone=change.is_gone)
            return
        if change.is_gone:
            kind = type(obj).__name__ if isinstance(obj, Object) else str(obj.get("kind"))
            name, namespace = (obj.name, obj.namespace) if isinstance(obj, Object) else (_name(obj), _namespace(obj))
            grace_s = change.grace_s if isinstance(obj, Pod) else None
            await cluster.backend.delete(Ref(kind_named(kind), name, namespace), grace_period_s=grace_s)
        elif isinstance(obj, Pod) and change.came_as is not None:
            setting.admit(obj)
            await cluster.backend.revise(obj)
        elif isinstance(obj, Pod):
            await self._arrive(cluster, Arrival(change.at_s, obj), setting)
        elif isinstance(obj, Object):
            await cluster.backend.replace(_manifest(obj))
        else:
            await cluster.backend.apply(_bare(obj))


_Timed = tuple[float, Arrival | ImportedChange]


def _in_order(arrivals: Sequence[Arrival], changes: Iterable[ImportedChange]) -> list[_Timed]:
    """Sort everything by time.

    At one time, earlier pods are deleted first, so that their names are free. Then other objects change, in the order
    of the import, then pods arrive. A pod that arrives and ends at one time ends last.
    """
    came_s = {id(each.pod): each.at_s for each in arrivals}

    def turn(change: ImportedChange) -> int:
        if not isinstance(change.obj, Pod):
            return 1
        if not change.is_gone:
            return 2
        return 0 if came_s.get(id(change.obj), -1.0) < change.at_s else 3

    timed: list[tuple[float, int, Arrival | ImportedChange]] = [(each.at_s, 2, each) for each in arrivals]
    timed += [(each.at_s, turn(each), each) for each in changes]
    timed.sort(key=lambda each: each[:2])  # stable
    return [(at_s, what) for at_s, _, what in timed]


def _rank(obj: Object) -> int:
    return next((i for i, kind in enumerate(_ORDER) if isinstance(obj, kind)), len(_ORDER))


def _manifest(obj: Object) -> dict[str, Any]:
    """Return an object as a manifest for another cluster."""
    value = manifest_of(obj, without=_OF_A_SERVER)
    if isinstance(obj, Node) and (mode := _KUBELETS.get(ready(obj))) is not None:
        # An import only has a node's status; its kubelet has to be in the state that leads to it.
        meta = value["metadata"]
        value["metadata"] = {**meta, "annotations": {**meta.get("annotations", {}), KUBELET: mode}}
    if isinstance(obj, PersistentVolume):
        value["spec"] = _volume(value["spec"])
    return value


def ready(node: Node) -> str:
    """Return the status of a node's condition Ready; True if there is none."""
    return next((each.status for each in node.status.conditions if each.type == "Ready"), "True")


def _volume(spec: dict[str, Any]) -> dict[str, Any]:
    reference = spec.get("claimRef")
    if reference:  # its claim gets another uid here, and is found by its name
        spec = {**spec, "claimRef": {name: each for name, each in reference.items() if name not in _OF_A_SERVER}}
    if not spec.keys() & _SOURCES:  # scheduling does not read NFS, host paths and the like; a server wants some source
        spec = {**spec, "hostPath": {"path": "/not-imported"}}
    return spec


def _bare(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload without its status and a server's additions."""
    value = {key: each for key, each in workload.items() if key != "status"}
    given = mapping(workload.get("metadata"), "metadata")
    metadata = {name: each for name, each in given.items() if name not in _OF_A_SERVER}
    return {**value, "metadata": metadata}


def _name(workload: Mapping[str, Any]) -> str:
    return str((workload.get("metadata") or {}).get("name") or "")


def _namespace(workload: Mapping[str, Any]) -> str:
    return str((workload.get("metadata") or {}).get("namespace") or "default")
