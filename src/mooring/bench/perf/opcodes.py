"""The steps of a workload as in scheduler_perf: one method each."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.errors import ApiError, InputError
from mooring.bench.perf.collect import ATTEMPTED, SCHEDULED, Collector, PodBoard, PodRecord, WorkloadFailed
from mooring.bench.perf.definitions import PerfWorkload, WorkloadStep
from mooring.bench.perf.targets import CONNECTIONS, Target
from mooring.bench.perf.templates import NOW, New, Object, Template, kind_of, list_objects, many, object_path
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS, by_resource
from mooring.controlplane.types.kind import Kind
from mooring.net.errors import NotFound
from mooring.net.rest import MERGE_PATCH

CSI_NODES = by_resource("csinodes.storage.k8s.io")
VOLUMES = by_resource("persistentvolumes")
VOLUME_CLAIMS = by_resource("persistentvolumeclaims")
CLAIMS = by_resource("resourceclaims.resource.k8s.io")
SLICES = by_resource("resourceslices.resource.k8s.io")
PRIORITIES = by_resource("priorityclasses.scheduling.k8s.io")

ALLOCATION_ROUNDS = 10
HOSTNAME = "kubernetes.io/hostname"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_NAME = "mooring-bench-name"
_encode = msgspec.json.encode

NODE: Object = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "scheduler-perf-"},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
_RESOURCES = {"cpu": "100m", "memory": "500Mi"}
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"limits": _RESOURCES, "requests": _RESOURCES},
            }
        ]
    },
}


class Executor:
    """Runs the steps of one workload on a target."""

    def __init__(
        self,
        workload: PerfWorkload,
        target: Target,
        new_collector: Callable[[str, Callable[[PodRecord], bool]], Collector],
        *,
        settled: Callable[[int], Awaitable[None]],
        stall_s: float = 120.0,
        tag: str = "",
    ) -> None:
        self.collectors: list[Collector] = []
        self.stage = ""
        self.expected = 0
        self._workload, self._target, self._board = workload, target, target.board
        self._new_collector = new_collector
        self._settled = settled
        self._stall_s = stall_s
        self._tag = tag
        self._numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)
        self._templates: dict[Path, Template] = {}
        self._namespaces: set[str] = set()
        self._nodes = 0
        self._running: Collector | None = None
        self._background: list[asyncio.Task[None]] = []
        self._steps: Mapping[str, Callable[[WorkloadStep], Coroutine[Any, Any, None]]] = {
            "createNodes": self._create_nodes,
            "createNamespaces": self._create_namespaces,
            "createPods": self._create_pods,
            "createAny": self._create_any,
            "updateAny": self._update_any,
            "deletePods": self._delete_pods,
            "churn": self._churn,
            "barrier": self._barrier,
            "sleep": self._sleep,
            "startCollectingMetrics": self._start_collecting,
            "stopCollectingMetrics": self._stop_collecting,
            "createResourceDriver": self._create_resource_driver,
            "allocResourceClaims": self._alloc_resource_claims,
        }

    @property
    def board(self) -> PodBoard:
        return self._board

    async def run(self) -> None:
        """Run all steps, one after another; background steps end with the last."""
        try:
            for step in self._workload.steps:
                self.stage = f"{step.opcode} {step.get('count', '')}".strip()
                try:
                    await self._steps[step.opcode](step)
                except ApiError as error:
                    raise WorkloadFailed(f"{step.where}: {step.opcode}: {error}") from None
                self._raise_background()
            if self._running is not None:
                await self._finish(self._running)
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _raise_background(self) -> None:
        """Raise the failure of a background step, which also fails the workload."""
        for task in self._background:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise WorkloadFailed(f"{task.get_name()}: {task.exception()}")

    # ---- small things ------------------------------------------------------------------------------------------

    def _template(self, path: Path | None, default: Object | None = None) -> Template:
        if path is None:
            assert default is not None
            return Template.of(default)
        if path not in self._templates:
            self._templates[path] = Template.read(path)
        return self._templates[path]

    def _name(self, obj: Object, fallback: str) -> str:
        """Return the name in a template, or the next one of its generateName."""
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            return str(metadata["name"])
        prefix = str(metadata.get("generateName") or f"{fallback}-")
        return f"{prefix}{self._tag}{next(self._numbers[prefix])}"

    async def _namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._target.ensure(New(NAMESPACES, "", _encode(body)))

    async def _priority(self, template: Template) -> None:
        """Ensure a PriorityClass for pods with a numeric priority: API servers accept no numbers from users."""
        obj = template.render()
        value = (obj.get("spec") or {}).get("priority")
        if obj["kind"] == "Pod" and value is not None:
            body = {
                "apiVersion": PRIORITIES.api_version,
                "kind": PRIORITIES.kind,
                "metadata": {"name": _class_of(value)},
                "value": value,
            }
            await self._target.ensure(New(PRIORITIES, "", _encode(body)))

    async def _delete(self, kind: Kind, namespace: str, name: str, options: bytes = b"") -> None:
        with contextlib.suppress(NotFound):
            await self._target.client.delete(object_path(kind, namespace, name), options)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._background.append(asyncio.create_task(work, name=name))

    # ---- nodes and namespaces ----------------------------------------------------------------------------------

    async def _create_nodes(self, step: WorkloadStep) -> None:
        count = step.get("count")
        template = self._template(step.get("nodeTemplatePath"), NODE)
        await self._target.create_all(self._new_nodes(step, template, count))
        self._nodes += count
        await self._settled(self._nodes)

    def _new_nodes(self, step: WorkloadStep, template: Template, count: int) -> Iterator[New]:
        label = step.get("labelNodePrepareStrategy")
        unique = step.get("uniqueNodeLabelStrategy")
        allocatable = step.get("nodeAllocatableStrategy")
        for i in range(count):
            node = template.render(i, count)
            name = self._name(node, "node")
            metadata = node["metadata"]
            metadata["name"] = name
            labels = metadata.setdefault("labels", {})
            labels.setdefault(HOSTNAME, name)
            if label:
                values = label.get("labelValues") or [name]
                labels[label["labelKey"]] = values[i % len(values)]
            if unique:
                labels[unique["labelKey"]] = f"{name}-{i}"
            if allocatable:
                status = node.setdefault("status", {})
                status["allocatable"] = {**(status.get("allocatable") or status.get("capacity") or {})}
                status["allocatable"].update(allocatable.get("nodeAllocatable") or {})
                status["capacity"] = {**(status.get("capacity") or {}), **(allocatable.get("nodeAllocatable") or {})}
            yield New(NODES, "", _encode(node))
            if allocatable and allocatable.get("csiNodeAllocatable"):
                yield New(CSI_NODES, "", _encode(_csi_node(name, allocatable)))

    async def _create_namespaces(self, step: WorkloadStep) -> None:
        count = step.get("count")
        default: Object = {"apiVersion": "v1", "kind": "Namespace"}
        template = self._template(step.get("namespaceTemplatePath"), default)
        for i in range(count):
            namespace = template.render(i, count)
            name = f"{step.get('prefix')}-{i}"
            namespace["metadata"] = {**(namespace.get("metadata") or {}), "name": name}
            self._namespaces.add(name)
            await self._target.ensure(New(NAMESPACES, "", _encode(namespace)))

    # ---- pods --------------------------------------------------------------------------------------------------

    async def _create_pods(self, step: WorkloadStep) -> None:
        namespace, count = step.namespace, step.get("count")
        await self._namespace(namespace)
        await self._priority(self._pod_template(step))
        collector = None
        if step.get("collectMetrics"):
            collector = self._new_collector("", lambda record: record.group == step.index)
            self._begin(collector)
        if step.get("steadyState"):
            await self._steady_state(step)
        else:
            self.expected += count
            await self._target.create_all(self._new_pods(step, range(count), count))
            if not step.get("skipWaitToCompletion"):
                own = [record for record in self._board.records.values() if record.group == step.index]
                await self._board.wait(own).finished(self._stall_s, f"{step.where}: createPods")
        if collector is not None:
            await self._finish(collector)

    def _pod_template(self, step: WorkloadStep) -> Template:
        return self._template(step.get("podTemplatePath") or self._workload.default_pod_template, POD)

    def _new_pods(self, step: WorkloadStep, indices: range, count: int) -> Iterator[New]:
        namespace, template = step.namespace, self._pod_template(step)
        volume = step.get("persistentVolumeTemplatePath")
        claim = step.get("persistentVolumeClaimTemplatePath")
        if volume is None and claim is None and template.is_static:
            yield from self._alike_pods(step, template, indices)
            return
        for i in indices:
            pod = _with_class(template.render(i, count))
            name = pod.setdefault("metadata", {})["name"] = self._name(pod, "pod")
            if volume is not None and claim is not None:
                yield from self._bound_volume(pod, self._template(volume), self._template(claim), namespace, i, count)
            self._board.expect(namespace, name, pod["metadata"].get("labels") or {}, step.index)
            yield New(PODS, namespace, _encode(pod))

    def _alike_pods(self, step: WorkloadStep, template: Template, indices: range) -> Iterator[New]:
        """Yield the pods; those that differ only in their names are encoded once."""
        pod = _with_class(template.render())
        metadata = pod.setdefault("metadata", {})
        labels = metadata.get("labels") or {}
        if metadata.get("name"):
            raise InputError(f"{template.source}: many pods cannot have one name; give a generateName")
        head, _, tail = _encode({**pod, "metadata": {**metadata, "name": _NAME}}).partition(_NAME.encode())
        namespace, expect, group = step.namespace, self._board.expect, step.index
        for _ in indices:
            name = self._name(pod, "pod")
            expect(namespace, name, labels, group)
            yield New(PODS, namespace, head + name.encode() + tail)

    def _bound_volume(
        self, pod: Object, volumes: Template, claims: Template, namespace: str, index: int, count: int
    ) -> Iterator[New]:
        """Yield a volume and a claim for one pod, bound to each other."""
        volume, claim = volumes.render(index, count), claims.render(index, count)
        claim_name, volume_name = f"pvc-{index}", f"pv-{namespace}-{index}"
        volume["metadata"] = {**(volume.get("metadata") or {}), "name": volume_name}
        spec = volume.setdefault("spec", {})
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        }
        if "csi" in spec:
            spec["csi"]["volumeHandle"] = volume_name
        if "awsElasticBlockStore" in spec:
            spec["awsElasticBlockStore"]["volumeID"] = f"vol-{namespace}-{index}"
        claim["metadata"] = {**(claim.get("metadata") or {}), "name": claim_name}
        claim.setdefault("spec", {})["volumeName"] = volume_name
        pod.setdefault("spec", {})["volumes"] = [
            {"name": "vol", "persistentVolumeClaim": {"claimName": claim_name}},
        ]
        yield New(VOLUMES, "", _encode(volume))
        yield New(VOLUME_CLAIMS, namespace, _encode(claim))

    async def _steady_state(self, step: WorkloadStep) -> None:
        """Keep this many pods in flight for a while: each bound pod is deleted and another one created."""
        bound: asyncio.Queue[PodRecord] = asyncio.Queue()

        def note(record: PodRecord) -> None:
            if record.group == step.index:
                bound.put_nowait(record)

        self._board.on_bound.append(note)
        numbers = itertools.count(step.get("count"))
        until = time.monotonic() + step.get("duration", 10.0)
        try:
            await self._target.create_all(self._new_pods(step, range(step.get("count")), step.get("count")))
            while (left_s := until - time.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left_s):
                        record = await bound.get()
                except TimeoutError:
                    return
                self.expected += 1
                await self._delete(PODS, record.namespace, record.key.partition("/")[2], NOW)
                i = next(numbers)
                await self._target.create_all(self._new_pods(step, range(i, i + 1), step.get("count")))
        finally:
            self._board.on_bound.remove(note)

    async def _delete_pods(self, step: WorkloadStep) -> None:
        selector = ",".join(f"{key}={value}" for key, value in (step.get("labelSelector") or {}).items())
        pods = await list_objects(self._target.client, PODS, step.get("namespace"), selector)
        work = self._delete_one_by_one(step, [pod["metadata"]["name"] for pod in pods])
        if step.get("skipWaitToCompletion"):
            self._spawn(work, f"{step.where}: deletePods")
        else:
            await work

    async def _delete_one_by_one(self, step: WorkloadStep, names: list[str]) -> None:
        pace = _Pace(step.get("deletePodsPerSecond", 0))
        for name in names:
            await pace.next()
            await self._delete(PODS, step.get("namespace"), name)

    # ---- anything ----------------------------------------------------------------------------------------------

    async def _create_any(self, step: WorkloadStep) -> None:
        count = step.get("count", 1)
        template = self._template(step.get("templatePath"))
        if step.get("namespace"):
            await self._namespace(step.get("namespace"))
        await self._priority(template)
        namespace = step.get("namespace") or "default"
        objects = (template.render(i, count) for i in range(count))
        await self._target.create_all(self._new(obj, namespace, template) for obj in objects)

    def _new(self, obj: Object, namespace: str, template: Template) -> New:
        kind = kind_of(obj, template.source)
        metadata = obj.setdefault("metadata", {})
        metadata["name"] = self._name(obj, kind.singular)
        return New(kind, namespace if kind.is_namespaced else "", _encode(_with_class(obj)))

    async def _update_any(self, step: WorkloadStep) -> None:
        count = step.get("count")
        template = self._template(step.get("templatePath"))
        pace = _Pace(step.get("updatePerSecond", 0))
        subresources = step.get("subresources") or ("",)
        for i in range(count):
            await pace.next()
            obj = template.render(i, count)
            kind = kind_of(obj, template.source)
            name = str((obj.get("metadata") or {}).get("name") or "")
            if not name:
                raise InputError(f"{template.source}: an object to be updated needs its name")
            namespace = (step.get("namespace") or "default") if kind.is_namespaced else ""
            body = _encode(obj)
            for subresource in subresources:
                await self._target.client.update(object_path(kind, namespace, name, subresource), body)
            if subresources == ("",) and obj.get("status") and kind.has_status:
                # An API server accepts a status only through the status subresource.
                await self._target.client.update(object_path(kind, namespace, name, "status"), body)

    async def _churn(self, step: WorkloadStep) -> None:
        templates = [self._template(path) for path in step.get("templatePaths")]
        if any(template.kind().is_namespaced for template in templates):
            await self._namespace(step.namespace)
        for template in templates:
            await self._priority(template)
        self._spawn(self._keep_churning(step, templates), f"{step.where}: churn")

    async def _keep_churning(self, step: WorkloadStep, templates: list[Template]) -> None:
        interval_s = max(0.001, step.get("intervalMilliseconds", 500) / 1000)
        number = step.get("number", 0)
        is_recreating = step.get("mode") == "recreate"
        slots: dict[tuple[int, int], New] = {}
        for turn in itertools.count():
            await asyncio.sleep(interval_s)
            if not is_recreating and number and turn >= number:
                return
            for i, template in enumerate(templates):
                slot = (i, turn % max(1, number))
                old = slots.pop(slot, None) if is_recreating else None
                if old is not None:
                    name = str(msgspec.json.decode(old.body)["metadata"]["name"])
                    await self._delete(old.kind, old.namespace, name, NOW if old.kind is PODS else b"")
                    continue
                new = self._new(template.render(turn, number), step.namespace, template)
                await self._target.create(new)
                if is_recreating:
                    slots[slot] = new

    # ---- waiting and measuring ---------------------------------------------------------------------------------

    async def _barrier(self, step: WorkloadStep) -> None:
        stage = step.get("stageRequirement", SCHEDULED)
        records = self._board.select(step.get("namespaces") or (), step.get("labelSelector") or {})
        assert stage in (SCHEDULED, ATTEMPTED)
        await self._board.wait(records, stage).finished(self._stall_s, f"{step.where}: barrier")

    async def _sleep(self, step: WorkloadStep) -> None:
        await asyncio.sleep(step.get("duration"))

    async def _start_collecting(self, step: WorkloadStep) -> None:
        if self._running is not None:
            raise InputError(f"{step.where}: metrics are being collected already")
        namespaces, labels = step.get("namespaces") or (), step.get("labelSelector") or {}
        self._running = self._new_collector(step.get("name", ""), lambda record: record.is_selected(namespaces, labels))
        self._begin(self._running)

    async def _stop_collecting(self, step: WorkloadStep) -> None:
        if self._running is None:
            raise InputError(f"{step.where}: no metrics are being collected")
        await self._finish(self._running)
        self._running = None

    def _begin(self, collector: Collector) -> None:
        self._board.collectors.append(collector)
        collector.start()

    async def _finish(self, collector: Collector) -> None:
        collector.stop()
        self._board.collectors.remove(collector)
        self.collectors.append(collector)

    # ---- devices -----------------------------------------------------------------------------------------------

    async def _create_resource_driver(self, step: WorkloadStep) -> None:
        """Publish as many devices on each node as it may have claims."""
        nodes = await list_objects(self._target.client, NODES, "")
        names = [node["metadata"]["name"] for node in nodes]
        driver, pattern = step.get("driverName"), step.get("nodes")
        chosen = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if not chosen:
            raise WorkloadFailed(f"{step.where}: no node is called {pattern}")
        await self._target.create_all(_slice(driver, name, step.get("maxClaimsPerNode")) for name in chosen)

    async def _alloc_resource_claims(self, step: WorkloadStep) -> None:
        """Allocate every claim of a namespace, with a pod that is created and deleted.

        A claim controller deallocates a claim when its last pod is deleted, and reserves it again for a pod whose
        deletion it has not seen. So the allocation is written after the pod is gone, until it persists.
        """
        namespace, client = step.get("namespace"), self._target.client
        claims = await list_objects(client, CLAIMS, namespace)
        names = [claim["metadata"]["name"] for claim in claims if not _allocation_of(claim)]
        records = [self._board.expect(namespace, f"holder-of-{name}", {}, step.index) for name in names]
        await self._target.create_all(New(PODS, namespace, _encode(_holder(name))) for name in names)
        await self._board.wait(records).finished(self._stall_s, f"{step.where}: allocResourceClaims")
        claims = await list_objects(client, CLAIMS, namespace)
        allocations = {claim["metadata"]["name"]: _allocation_of(claim) for claim in claims}

        async def let_go(names: Iterator[str]) -> None:
            for name in names:
                await self._delete(PODS, namespace, f"holder-of-{name}", NOW)
                patch = _encode({"status": {"reservedFor": None, "allocation": allocations[name]}})
                path = object_path(CLAIMS, namespace, name, "status")
                await client.patch(path, patch, content_type=MERGE_PATCH)

        for _ in range(ALLOCATION_ROUNDS):
            await many(let_go, iter(names), CONNECTIONS)
            claims = await list_objects(client, CLAIMS, namespace)
            settled = {
                c["metadata"]["name"] for c in claims if _allocation_of(c) and not c["status"].get("reservedFor")
            }
            names = [name for name in names if name not in settled]
            if not names:
                return
        raise WorkloadFailed(f"{step.where}: {len(names)} claims do not stay allocated, {min(names)} for one")


class _Pace:
    """Limits the rate to this many per second; 0 is no limit."""

    def __init__(self, per_second: float) -> None:
        self._interval_s = 1.0 / per_second if per_second else 0.0
        self._next = time.monotonic()

    async def next(self) -> None:
        if not self._interval_s:
            return
        wait_s = self._next - time.monotonic()
        self._next += self._interval_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)


def _class_of(priority: int) -> str:
    return f"scheduler-perf-{'minus-' if priority < 0 else ''}{abs(priority)}"


def _with_class(obj: Object) -> Object:
    """Return a pod with a numeric priority changed to use the class with that number."""
    if obj["kind"] == "Pod" and (obj.get("spec") or {}).get("priority") is not None:
        obj["spec"]["priorityClassName"] = _class_of(obj["spec"].pop("priority"))
    return obj


def _csi_node(name: str, strategy: Mapping[str, Any]) -> Object:
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": dict(allocatable or {})}
        for driver, allocatable in strategy["csiNodeAllocatable"].items()
    ]
    metadata: Object = {"name": name}
    if strategy.get("migratedPlugins"):
        metadata["annotations"] = {MIGRATED_PLUGINS: ",".join(strategy["migratedPlugins"])}
    return {"apiVersion": CSI_NODES.api_version, "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def _slice(driver: str, node: str, devices: int) -> New:
    body = {
        "apiVersion": SLICES.api_version,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"instance-{i:02d}"} for i in range(devices)],
        },
    }
    return New(SLICES, "", _encode(body))


def _allocation_of(claim: Object) -> Any:
    return (claim.get("status") or {}).get("allocation")


def _holder(claim: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"holder-of-{claim}"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "pause",
                    "image": POD["spec"]["containers"][0]["image"],
                    "resources": {"claims": [{"name": "claim"}]},
                }
            ],
            "resourceClaims": [{"name": "claim", "resourceClaimName": claim}],
        },
    }
