"""The classroom: an embedded control plane, a lesson's scheduler, and the few verbs that scenarios and checks need.

The scheduler talks to the API server over HTTP, as it would anywhere; scenarios reach into it directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import logging
import os
import random
import types
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mooring.api.errors import UsageError
from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.storage.store import Event
from mooring.learn import kubectl_view
from mooring.net.credentials import bearer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.sim.virtual_time import LoopClock

# --------------------------------------------------------------------------------------------------------------------
# What the course says, in three languages.
#
# The code holds the English text; it is the key under which a catalogue holds the others. A text without an entry stays
# English, so a learner's own scenario needs no catalogue.

LANGUAGES = ("en", "ja", "zh")


class Words:
    """Texts in one language."""

    def __init__(self, language: str = "en") -> None:
        if language not in LANGUAGES:
            raise UsageError(f"--lang {language}: the course is written in {', '.join(LANGUAGES)}")
        self.language = language

    def __call__(self, text: str, /, **values: object) -> str:
        """Return a text in this language, with its ``{names}`` filled in."""
        found = _catalogue(self.language).get(text, text)
        return found.format(**values) if values else found


@functools.cache
def _catalogue(language: str) -> Mapping[str, str]:
    """English texts and what stands for them, from ``words_<language>.json``; none for English itself."""
    path = Path(__file__).with_name(f"words_{language}.json")
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def language_of(environ: Mapping[str, str] = os.environ) -> str:
    """Return the course's language that the locale asks for, as programs look it up: LC_ALL, LC_MESSAGES, LANG."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return value[:2] if value[:2] in LANGUAGES else "en"
    return "en"


SCHEDULER_NAME = "mooring-lesson"
SEED = 7
_PODS, _NODES, _EVENTS = by_resource("pods"), by_resource("nodes"), by_resource("events")
_PRIORITIES = by_resource("priorityclasses.scheduling.k8s.io")

Say = Callable[[str, str], None]
"""The speaker (``scenario``, ``scheduler``, ``kubectl``, ``note``) and the text."""


class Missing(Exception):
    """What a check expected did not happen; the text says what was seen instead."""

    def __init__(self, text: str, /, **values: object) -> None:
        super().__init__(text.format(**values) if values else text)
        self.text, self.values = text, values


class Classroom:
    """One cluster and one lesson's scheduler, which starts when ``start`` is called.

    Usable inside ``open_classroom``. Names are those of the default namespace.
    """

    def __init__(
        self,
        plane: ControlPlane,
        client: RestClient,
        module: types.ModuleType,
        say: Say,
        faults: Faults,
        words: Words,
    ) -> None:
        self.words = words
        self.log: list[str] = []
        """What the scheduler has logged so far."""
        self.plane = plane
        self.client = client
        self.module = module
        self.scheduler: Any = None
        self.bound_at: dict[str, float] = {}
        """When each pod got its node, in the order in which that happened."""
        self.binding_order: list[str] = []
        """The pods in the order in which the scheduler asked for their bindings, the same pod twice if it did."""
        self._create = client.create
        client.create = self._note_binding  # type: ignore[method-assign]
        self._say = say
        self._faults = faults
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._began = self.now
        for kind in (_PODS, _EVENTS):
            plane.store.subscribe(kind, self._saw)

    async def _note_binding(self, path: str, *arguments: Any, **options: Any) -> Any:
        if path.endswith("/binding"):
            self.binding_order.append(path.split("/")[-2])
        return await self._create(path, *arguments, **options)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the classroom opened."""
        return self.now - self._began

    def _saw(self, event: Event) -> None:
        self._changed.set()
        for name in self.pod_names():
            if name not in self.bound_at and self.where(name):
                self.bound_at[name] = self.elapsed_s

    # What a scenario says

    def say(self, text: str, /, **values: object) -> None:
        """Tell what happens now in the cluster; ``{names}`` in the text are filled in."""
        self._say("scenario", self.words(text, **values))

    def note(self, text: str, /, **values: object) -> None:
        """Explain what has just been seen."""
        self._say("note", self.words(text, **values))

    def kubectl(self, command: str) -> None:
        """Show what kubectl would show now: ``get pods``, ``get pod NAME``, ``describe pod NAME`` (its events)."""
        self._say("kubectl", f"$ kubectl {command}")
        for line in kubectl_view.answer(self.plane, command):
            self._say("kubectl", line)

    def heard(self, who: str, text: str) -> None:
        """Keep and pass on a line of the scheduler's log."""
        self.log.append(text)
        self._say(who, text)

    # What a scenario does

    def make(self) -> Any:
        """Make the scheduler without starting it, so that something can be handed in; ``start`` starts it."""
        if self.scheduler is None:
            random.seed(SEED)
            self.scheduler = self.module.Scheduler(self.client)
        return self.scheduler

    def plugin(self, plugin_name: str, /, **members: Any) -> Any:
        """Hand a plugin of your own to the scheduler, before all others; its methods are given by name."""
        base = getattr(self.module, "Plugin", None)
        plugins = getattr(self.make(), "plugins", None)
        if base is None or not isinstance(plugins, list):
            raise Missing(
                "keep the class Plugin and the list self.plugins of the Scheduler: a plugin is handed in there"
            )
        made = type(plugin_name, (base,), {"name": plugin_name, **members})()
        plugins.insert(0, made)
        return made

    async def start(self) -> None:
        """Start the scheduler and wait until it has seen the cluster."""
        self._task = asyncio.create_task(self.make().run(), name="the lesson's scheduler")
        await self.settle()

    async def quit(self) -> None:
        """Stop the scheduler; the cluster continues without one."""
        await self.stop()
        self._task = None

    async def settle(self) -> None:
        """Let all that can finish without time passing finish."""
        await self.pass_time(0.001)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; raises if the scheduler dies."""
        if self._task is None:
            await asyncio.sleep(seconds)
            return
        done, _ = await asyncio.wait((self._task,), timeout=seconds)
        if done:
            self._task.result()
            raise Missing("Scheduler.run() has ended; it should go on until it is cancelled")

    def node(
        self, name: str, *, unschedulable: bool = False, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """Add a node; more of its spec (taints, say) by the names of the API."""
        if unschedulable:
            spec["unschedulable"] = True
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": spec,
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.plane.api.create(_NODES, "", body)

    def pod(self, name: str, *, scheduler: str = SCHEDULER_NAME, **spec: Any) -> None:
        """Create a pod; more of its spec by the names of the API."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "pause:3.10"}], **spec},
        }
        self.plane.api.create(_PODS, "default", body)

    def delete_node(self, name: str) -> None:
        """Take a node away; what runs there is not looked after."""
        self.plane.api.delete(_NODES, "", name)

    def cordon(self, name: str, *, unschedulable: bool = True) -> None:
        """Close a node to new pods, as ``kubectl cordon`` does."""
        self.plane.api.modify(_NODES, "", name, lambda node: node["spec"].__setitem__("unschedulable", unschedulable))

    def uncordon(self, name: str) -> None:
        """Open a node to new pods again."""
        self.cordon(name, unschedulable=False)

    def label_node(self, name: str, key: str, value: str) -> None:
        """Give a node a label."""
        self.plane.api.modify(_NODES, "", name, lambda node: node["metadata"]["labels"].__setitem__(key, value))

    def tolerate(self, name: str, key: str) -> None:
        """Add a toleration to a pod, one of the few changes of a pod's spec that the API allows."""
        toleration = {"key": key, "operator": "Exists"}
        self.plane.api.modify(
            _PODS, "default", name, lambda pod: pod["spec"].setdefault("tolerations", []).append(toleration)
        )

    def delete_pod(self, name: str) -> None:
        """Delete a pod immediately."""
        self.plane.api.delete(_PODS, "default", name, {"gracePeriodSeconds": 0})

    def priority_class(self, name: str, value: int) -> None:
        """Create a PriorityClass; a pod asks for it with ``priorityClassName``."""
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        self.plane.api.create(_PRIORITIES, "", {**body, "value": value})

    def fail_next_binding(self) -> None:
        """Let the API server answer the next binding with an error, once."""
        self._faults.add(
            FaultRule("error", method="POST", path="/binding$", code=500, message="etcdserver: request timed out")
        )

    def slow_next_binding(self, seconds: float) -> None:
        """Let the API server take this long for the next binding."""
        self._faults.add(FaultRule("delay", method="POST", path="/binding$", seconds=seconds))

    # What a scenario sees

    def logged(self, text: str) -> int:
        """How many lines of the scheduler's log contain this text."""
        return sum(text in line for line in self.log)

    def in_queue(self, name: str) -> str:
        """The part of the queue in which a pod is: active, backoff or unschedulable; empty if it is in none."""
        queue = getattr(self.scheduler, "queue", None)
        for part in ("active", "backoff", "unschedulable"):
            infos = getattr(queue, part, ())
            infos = infos.values() if isinstance(infos, dict) else infos
            if any(getattr(info, "pod", None) is not None and info.pod.metadata.name == name for info in infos):
                return part
        return ""

    def pod_names(self) -> list[str]:
        """The names of all pods."""
        return [pod["metadata"]["name"] for pod in self.plane.api.objects(_PODS, "default")]

    def where(self, name: str) -> str:
        """The node of a pod; empty while it has none."""
        for pod in self.plane.api.objects(_PODS, "default"):
            if pod["metadata"]["name"] == name:
                return str(pod["spec"].get("nodeName", ""))
        return ""

    def shown(self, name: str) -> str:
        """The node of a pod, or ``<none>`` as kubectl shows it."""
        return self.where(name) or "<none>"

    def events(self, name: str, reason: str) -> list[str]:
        """The messages of a pod's events with this reason, oldest first."""
        found = [
            event
            for event in self.plane.api.objects(_EVENTS, "default")
            if event.get("involvedObject", {}).get("name") == name and event.get("reason") == reason
        ]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [str(event.get("message", "")) for event in found for _ in range(int(event.get("count") or 1))]

    async def wait_bound(self, name: str, within_s: float = 30.0) -> str:
        """Wait for a pod to get its node; return the node's name, or an empty one if the time is over."""
        until = self.now + within_s
        while not self.where(name) and self.now < until:
            self._changed.clear()
            await self._wait_change(until - self.now)
        await self.settle()
        return self.where(name)

    async def wait_event(self, name: str, reason: str, within_s: float = 30.0) -> str:
        """Wait for a pod's event; return its message, or an empty one if the time is over."""
        until = self.now + within_s
        while not self.events(name, reason) and self.now < until:
            self._changed.clear()
            await self._wait_change(until - self.now)
        return (self.events(name, reason) or [""])[-1]

    async def _wait_change(self, timeout_s: float) -> None:
        change = asyncio.ensure_future(self._changed.wait())
        watched: set[asyncio.Future[Any]] = {change} | ({self._task} if self._task is not None else set())
        try:
            await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
        if self._task is not None and self._task.done():
            await self.pass_time(0)

    async def stop(self) -> None:
        """Stop the scheduler, whatever state it is in."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=5.0)
            if self._task.done() and not self._task.cancelled():
                self._task.exception()  # it was raised where it was awaited; here it is only collected


@contextlib.asynccontextmanager
async def open_classroom(
    module: types.ModuleType, say: Say | None = None, *, kubeconfig: Path | None = None, words: Words | None = None
) -> AsyncIterator[Classroom]:
    """Start a control plane and prepare a lesson's scheduler; both end with the block.

    With ``kubeconfig`` it is open to visitors: kubectl finds its way in by that file, over TLS and in real time.
    """
    is_open = kubeconfig is not None
    faults = Faults()
    plane = ControlPlane(
        use_tls=is_open,
        also_plain=is_open,
        kubeconfig_path=kubeconfig,
        faults=faults,
        clock=None if is_open else LoopClock(asyncio.get_running_loop()),
        rng=random.Random(SEED),
        default_tolerations=False,
    )
    async with plane:
        config = ClientConfig(server=plane.plain_url, credentials=bearer(plane.token))
        async with RestClient(config, qps=-1) as client:
            kubelets = Kubelets(plane.api, asyncio.get_running_loop())
            kubelets.start()
            room = Classroom(plane, client, module, say or (lambda who, text: None), faults, words or Words())
            try:
                with listening(room.heard):
                    yield room
            finally:
                await room.stop()
                kubelets.stop()


def problem_with(module: types.ModuleType) -> str:
    """Say what keeps a module from being a lesson's scheduler, or nothing."""
    found = getattr(module, "Scheduler", None)
    if found is None:
        return "there is no class Scheduler in it; keep its name, the checker starts it by that"
    if not inspect.isclass(found):
        return f"Scheduler should be a class, it is a {type(found).__name__}"
    try:
        inspect.signature(found).bind(object())
    except TypeError as error:
        return f"Scheduler(client) cannot be made: {error}; __init__ should take self and the client, no more"
    run = getattr(found, "run", None)
    if run is None:
        return "the class Scheduler has no method run; the checker calls: await Scheduler(client).run()"
    if not inspect.iscoroutinefunction(run):
        return "Scheduler.run should be written `async def run(self)`; the checker awaits it"
    try:
        inspect.signature(run).bind(object())
    except TypeError as error:
        return f"Scheduler.run() cannot be called: {error}; it should take self, no more"
    return ""


@contextlib.contextmanager
def listening(say: Say) -> Iterator[None]:
    """Hand the log lines of lessons' schedulers to ``say``, and to nothing else."""
    log = logging.getLogger("lesson")
    handler = SchedulerLog(say)
    before = (log.level, log.propagate)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


class SchedulerLog(logging.Handler):
    """Hands over what a lesson's scheduler logs."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("scheduler", record.getMessage())
