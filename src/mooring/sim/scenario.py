"""Scenarios: events in a cluster, step by step, and expectations of the scheduler.

A scenario is a plain function, ``async def scenario(cluster)``, or a YAML file (:mod:`mooring.sim.scenario_file`). It
only uses a :class:`ScenarioCluster`, so that it runs unchanged in real and in virtual time, on the embedded control
plane and on a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from mooring.api.clock import Clock
from mooring.api.errors import ApiError, InputError, MooringError
from mooring.controlplane.cluster.kubelet import KUBELET
from mooring.controlplane.types.kind import Object
from mooring.core.config.features import Features, check_supported, parse_feature_gates
from mooring.core.config.versions import DEFAULT_VERSION, parse_version
from mooring.core.framework.extender import ExtenderClient
from mooring.sim.backend import Backend, Ref, kind_named
from mooring.sim.objects import documents, node, pod, taint
from mooring.sim.workload import Arrival, Setting, Workload

__all__ = ["ExpectationFailed", "Play", "Scenario", "ScenarioCluster", "documents", "node", "pod", "taint"]

POLL_S, MAX_POLL_S = 0.05, 0.5
DEFAULT_TIMEOUT_S = 60.0


DRAIN_TIMEOUT_S = 600.0
EVICT_AGAIN_S = 5.0  # as kubectl does


class ExpectationFailed(MooringError, AssertionError):
    """The cluster did not reach the expected state."""


class Audience(Protocol):
    """Receives the narration and expectations of a scenario."""

    def said(self, text: str) -> None: ...

    def expected(self, what: str, held: bool) -> None: ...


class Silence:
    """An audience that ignores everything."""

    def said(self, text: str) -> None:
        pass

    def expected(self, what: str, held: bool) -> None:
        pass


T = TypeVar("T")
Play = Callable[["ScenarioCluster"], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A story with a name.

    ``config`` is a KubeSchedulerConfiguration, ``plugins`` classes that it may name, ``extenders`` objects that are
    called like configured extenders.
    """

    name: str
    title: str
    play: Play
    config: Mapping[str, Any] | None = None
    plugins: tuple[type, ...] = ()
    plugin_files: tuple[str, ...] = ()
    extenders: tuple[ExtenderClient, ...] = ()
    source: str = ""
    kubernetes_version: str = str(DEFAULT_VERSION)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    starts_at: float | None = None  # in virtual time: the time at which the story begins, in seconds since 1970
    records: tuple[str, ...] = ()  # files that it was read from; a record of the story cannot replace them
    parameters: Mapping[str, Any] = field(default_factory=dict)  # their values

    @property
    def features(self) -> Features:
        """The version that decides, with the story's gates; UsageError for one that is not supported."""
        version = parse_version(self.kubernetes_version, "kubernetesVersion")
        gates = (f"{name}={str(on).lower()}" for name, on in self.feature_gates.items())
        features = parse_feature_gates(gates, version)
        check_supported(features)
        return features


async def _no_steps(cluster: ScenarioCluster) -> None:
    pass


NO_STORY = Scenario("", "", _no_steps)
"""For a cluster in which nothing happens by itself."""


class WantedPod(msgspec.Struct, frozen=True):
    """Expected state of a pod."""

    nodes: list[str] | None
    phase: str | None
    pending: str | bool | None
    nominated: str | None

    def compare(self, pod: Object | None) -> str:
        """Return why the pod is not as expected, or ""."""
        if pod is None:
            return "it does not exist"
        status = pod.get("status") or {}
        node = pod["spec"].get("nodeName", "")
        message = why_pending(status)
        if self.nodes is not None and node not in self.nodes:
            return f"it is on {node}" if node else f"it has no node: {message or 'it was not tried yet'}"
        if self.phase is not None and status.get("phase") != self.phase:
            return f"it is {status.get('phase')}"
        if self.pending and node:
            return f"it is on {node}"
        if self.pending is False and not node:
            return f"it has no node: {message}"
        if isinstance(self.pending, str) and self.pending not in message:
            return f"it says {message!r}" if message else "it does not say why it waits"
        if self.pending is True and not message:
            return "it was not tried yet"
        if self.nominated is not None and status.get("nominatedNodeName", "") != self.nominated:
            return f"its nominated node is {status.get('nominatedNodeName') or 'none'}"
        return ""

    def __str__(self) -> str:
        parts = []
        if self.nodes is not None:
            parts.append("has no node" if self.nodes == [""] else "is on " + " or ".join(self.nodes))
        if self.phase is not None:
            parts.append(f"is {self.phase}")
        if self.pending is True:
            parts.append("is pending")
        elif self.pending:
            parts.append(f'is pending because "{self.pending}"')
        if self.nominated is not None:
            parts.append(f"is nominated to {self.nominated or 'no node'}")
        return " and ".join(parts) or "exists"


def why_pending(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


class ScenarioCluster:
    """A cluster as a scenario sees it.

    Objects are named as kubectl names them: ``pod/web``, ``pod/team-a/web``, ``node/node1``. Manifests are dicts, lists
    of dicts, or YAML text. Everything that can take a while has a time limit, in the cluster's own time.
    """

    def __init__(self, backend: Backend, clock: Clock, audience: Audience | None = None, *, seed: int = 0) -> None:
        self.backend = backend
        self.clock = clock
        self.seed = seed
        self.place = ""  # the step that is being played, as its file names it
        self._audience = audience or Silence()
        self._workloads: list[asyncio.Task[None]] = []
        self._beside: set[asyncio.Task[None]] = set()  # background work that is running, or failed
        self._expected: list[int | None] = []

    # Writing

    async def create(self, *manifests: Any) -> list[Object]:
        """Create objects; one that exists already is an error."""
        created = [await self.backend.create(each) for each in documents(*manifests)]
        await self.backend.settle()
        return await self._told(created)

    async def apply(self, *manifests: Any) -> list[Object]:
        """Create objects, or apply the manifests to existing ones."""
        applied = [await self.backend.apply(each) for each in documents(*manifests)]
        await self.backend.settle()
        return await self._told(applied)

    async def patch(self, target: str, patch: Any, *, type: str = "merge", subresource: str = "") -> Object:
        """Change an object by a ``merge``, ``strategic`` or ``json`` patch."""
        return await self._told(await self.backend.patch(Ref.parse(target), patch, type=type, subresource=subresource))

    async def label(self, target: str, **labels: str | None) -> Object:
        """Set labels; None removes one. For keys with a slash use ``patch``."""
        return await self.patch(target, {"metadata": {"labels": labels}})

    async def annotate(self, target: str, annotations: Mapping[str, str | None]) -> Object:
        return await self.patch(target, {"metadata": {"annotations": dict(annotations)}})

    async def scale(self, target: str, replicas: int) -> Object:
        return await self.patch(target, {"spec": {"replicas": replicas}})

    async def cordon(self, node: str, *, undo: bool = False) -> Object:
        return await self.patch(f"node/{node}", {"spec": {"unschedulable": None if undo else True}})

    async def drain(self, node: str, *, within_s: float = DRAIN_TIMEOUT_S) -> None:
        """Cordon a node and evict its pods, as ``kubectl drain`` does: pods of DaemonSets stay, budgets are kept."""
        await self.cordon(node)
        deadline = self.clock.monotonic() + within_s
        while True:
            refusal = ""
            for each in await self._drainable(node):
                try:
                    await self.backend.evict(each)
                except ApiError as error:
                    if error.code == 404:
                        continue
                    if error.code != 429:
                        raise
                    refusal = f"pod/{each['metadata']['name']}: {error}"
            left_s = deadline - self.clock.monotonic()
            if not refusal:
                return
            if left_s <= 0:
                raise ExpectationFailed(f"node/{node} is not drained within {within_s:g}s: {refusal}")
            await asyncio.sleep(min(EVICT_AGAIN_S, left_s))

    async def _drainable(self, node: str) -> list[Object]:
        pods = await self.list("pods", fields=f"spec.nodeName={node}")
        return [pod for pod in pods if pod["spec"].get("nodeName") == node and not _is_left_by_drain(pod)]

    async def taint(self, node: str, *taints: str) -> Object:
        """Replace a node's taints; each is written ``key=value:Effect`` or ``key:Effect``."""
        return await self.patch(f"node/{node}", {"spec": {"taints": [taint(each) for each in taints] or None}})

    async def fail_node(self, node: str) -> None:
        """Silence a node's kubelet, as after a power failure."""
        await self.annotate(f"node/{node}", {KUBELET: "stopped"})

    async def recover_node(self, node: str) -> None:
        await self.annotate(f"node/{node}", {KUBELET: None})

    async def delete(self, target: str, *, grace_period_s: int | None = None, propagation: str = "Background") -> bool:
        """Begin to delete; false if the object does not exist. ``wait_gone`` waits for the end."""
        return await self._told(
            await self.backend.delete(Ref.parse(target), grace_period_s=grace_period_s, propagation=propagation)
        )

    @staticmethod
    async def _told(result: T) -> T:
        """Let other tasks see a write before the story continues, so that lines appear in the right order.

        It takes a few rounds of the loop until watches, handlers and the narration have processed a write.
        """
        for _ in range(5):
            await asyncio.sleep(0)
        return result

    # Reading

    async def get(self, target: str) -> Object | None:
        return await self.backend.get(Ref.parse(target))

    async def list(self, kind: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        return await self.backend.list(kind_named(kind), namespace, labels=labels, fields=fields)

    async def placements(self, namespace: str = "default", *, labels: str = "") -> dict[str, str]:
        """Return the node of each pod; "" for those without one."""
        pods = await self.list("pods", namespace, labels=labels)
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

    # Time

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)
        self.check_workloads()

    async def finish(self) -> None:
        """Let time pass until every pod of every workload has arrived, and nothing is left to happen."""
        await asyncio.gather(*self._workloads)
        await self.backend.quiet()

    # Workloads

    async def begin(self, workload: Workload) -> None:
        """Let the pods of a workload arrive, each at its time from now on. The story continues."""
        setting = Setting(self.seed + len(self._workloads), await self.backend.nodes(), await self.backend.admission())
        arrivals = workload.arrivals(setting)
        self._expected.append(workload.total)
        await self.meanwhile(self._arrive(arrivals))

    async def meanwhile(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in parallel to the story; :meth:`finish` waits for its end.

        An error appears in a later step, but is attributed to this one.
        """
        place = self.place

        async def blaming() -> None:
            try:
                await work
            except MooringError as error:
                error.blame(place)
                raise

        self._workloads.append(asyncio.create_task(blaming(), name=f"workload {len(self._workloads)}"))
        await asyncio.sleep(0)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background of the story. Nothing waits for its end; an error ends the story."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        """Keep a failed task for :meth:`check_workloads`."""
        if task.cancelled() or task.exception() is None:
            self._beside.discard(task)

    @property
    def expected_arrivals(self) -> int:
        """Number of pods that the started workloads will create, as far as known."""
        return sum(filter(None, self._expected))

    async def _arrive(self, arrivals: Generator[Arrival]) -> None:
        """Let the pods of a stream arrive, each at its time.

        The next pod is taken from the generator only when the previous one has arrived: a trace may be larger than the
        memory, and random numbers are drawn in the order of the pods. What is wrong with a pod is thrown into the
        generator, which knows its line or template and names it in the error.
        """
        now, take_in, loop = self.clock.monotonic, self.backend.arrive, asyncio.get_running_loop()
        started, before_s = now(), 0.0
        for arrival in arrivals:
            problem = arrival.problem_after(before_s)
            if problem:
                arrivals.throw(InputError(problem))
            before_s = arrival.at_s
            wait_s = started + arrival.at_s - now()
            if wait_s > 0:  # like asyncio.sleep, with half as many calls: a week has a million of them
                due: asyncio.Future[None] = loop.create_future()
                timer = loop.call_at(loop.time() + wait_s, _is_due, due)
                try:
                    await due
                except BaseException:
                    timer.cancel()
                    raise
            try:
                coming = take_in(arrival)
                if coming is not None:
                    await coming
            except MooringError as error:
                arrivals.throw(error)

    def check_workloads(self) -> None:
        """Raise the error of a failed workload. One that the end of the simulation interrupted has not failed."""
        for task in (*self._workloads, *self._beside):
            if task.done() and not task.cancelled():
                task.result()

    async def stop_workloads(self) -> None:
        """Stop the arrival of pods."""
        tasks = (*self._workloads, *self._beside)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def say(self, text: str) -> None:
        """Narrate a text."""
        self._audience.said(text)

    # Waiting and expecting

    async def until(
        self, what: str, holds: Callable[[], Awaitable[Any]], *, within_s: float = DEFAULT_TIMEOUT_S
    ) -> Any:
        """Wait until something holds; a falsy result means not yet, a text says why not yet."""
        started = self.clock.monotonic()
        deadline = started + within_s
        while True:
            found = await holds()
            if found and not isinstance(found, str):
                return found
            left_s = deadline - self.clock.monotonic()
            if left_s <= 0:
                why = f"; {found}" if isinstance(found, str) and found else ""
                raise ExpectationFailed(f"{what}: not within {within_s:g}s{why}")
            # After minutes of waiting, half a second more does not matter.
            patience_s = (self.clock.monotonic() - started) / 100
            await asyncio.sleep(min(max(POLL_S, patience_s), MAX_POLL_S, left_s))

    async def expect(
        self, what: str, holds: Callable[[], Awaitable[Any]], *, within_s: float = DEFAULT_TIMEOUT_S
    ) -> Any:
        """Wait like ``until``, and report the result to the audience."""
        try:
            found = await self.until(what, holds, within_s=within_s)
        except (ExpectationFailed, ApiError) as error:
            self._audience.expected(str(error), False)
            raise
        self._audience.expected(what, True)
        return found

    def expect_now(self, what: str, holds: bool, why_not: str) -> None:
        """Expect something that is decided immediately."""
        self._audience.expected(what if holds else f"{what}: {why_not}", holds)
        if not holds:
            raise ExpectationFailed(f"{what}: {why_not}")

    async def expect_pod(
        self,
        name: str,
        *,
        node: str | Iterable[str] | None = None,
        phase: str | None = None,
        pending: str | bool | None = None,
        nominated: str | None = None,
        for_s: float = 0.0,
        within_s: float = DEFAULT_TIMEOUT_S,
    ) -> Object:
        """Expect a pod on a node (or one of several), in a phase, or pending with a text in its condition.

        ``for_s`` says how long a pending pod has to stay pending.
        """
        ref = Ref.parse(name if "/" in name and name.startswith(("pod/", "pods/", "po/")) else f"pod/{name}")
        wanted = WantedPod([node] if isinstance(node, str) else None if node is None else list(node), phase, pending,
                         nominated)  # fmt: skip

        async def holds() -> Any:
            pod = await self.backend.get(ref)
            return wanted.compare(pod) or pod

        what = f"{ref} {wanted}"
        found: Object = await self.expect(what, holds, within_s=within_s)
        if for_s:
            await asyncio.sleep(for_s)
            found = await self.expect(f"{what} after another {for_s:g}s", holds, within_s=0.0)
        return found

    async def expect_event(
        self,
        target: str,
        *,
        reason: str = "",
        message: str = "",
        within_s: float = DEFAULT_TIMEOUT_S,
    ) -> Object:
        """Expect an Event about an object, by its reason and a part of its message."""
        ref = Ref.parse(target)

        async def holds() -> Any:
            events = await self.backend.list(kind_named("events"), ref.namespace or "default")
            about = [e for e in events if (e.get("involvedObject") or {}).get("name") == ref.name
                     and (e.get("involvedObject") or {}).get("kind") == ref.kind.kind]  # fmt: skip
            for event in about:
                if reason in ("", event.get("reason")) and message in event.get("message", ""):
                    return event
            return "its events are " + (", ".join(sorted({e.get("reason", "") for e in about})) or "none")

        what = " ".join(
            part for part in (f"{ref} has an event", reason, f'saying "{message}"' if message else "") if part
        )
        found: Object = await self.expect(what, holds, within_s=within_s)
        return found

    async def wait(self, target: str, condition: str = "Ready", *, within_s: float = DEFAULT_TIMEOUT_S) -> Object:
        """Wait until a condition is True; ``wait("deployment/web", "Available")``."""
        ref = Ref.parse(target)

        async def holds() -> Any:
            obj = await self.backend.get(ref)
            if obj is None:
                return "it does not exist"
            conditions = (obj.get("status") or {}).get("conditions") or ()
            found = next((each for each in conditions if each.get("type", "").lower() == condition.lower()), None)
            if found is None:
                return "it has no such condition"
            return obj if found.get("status") == "True" else f"it is {found.get('status')} ({found.get('reason', '')})"

        found: Object = await self.until(f"{ref} {condition}", holds, within_s=within_s)
        return found

    async def wait_gone(self, target: str, *, within_s: float = DEFAULT_TIMEOUT_S) -> None:
        ref = Ref.parse(target)

        async def holds() -> Any:
            return "it is still there" if await self.backend.get(ref) is not None else True

        await self.until(f"{ref} gone", holds, within_s=within_s)


def _is_due(arrival: asyncio.Future[None]) -> None:
    if not arrival.done():
        arrival.set_result(None)


def _is_left_by_drain(pod: Object) -> bool:
    """Report whether ``kubectl drain`` ignores a pod: a DaemonSet's, or a terminating or finished one."""
    owners = pod["metadata"].get("ownerReferences") or ()
    is_daemon = any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return is_daemon or has_ended or bool(pod["metadata"].get("deletionTimestamp"))
