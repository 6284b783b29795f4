"""Lesson 6: a scheduling queue loses no pod.

A pod whose attempt failed comes back. The queue has three parts: active (may be tried now), backoff (failed a moment
ago) and unschedulable (nothing has changed that could help). Timers move pods back to active.

It runs by itself against the cluster of your kubeconfig: python scheduler.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections import Counter, deque
from dataclasses import dataclass
from datetime import UTC, datetime

from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.net.informer import Informer
from mooring.net.kinds import NODES, PODS
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

SCHEDULER_NAME = "mooring-lesson"
INITIAL_BACKOFF_S, MAX_BACKOFF_S = 1.0, 10.0
MAX_IN_UNSCHEDULABLE_S = 300.0
log = logging.getLogger("lesson")


@dataclass(frozen=True)
class Status:
    """A plugin's answer: Success, or Unschedulable with a reason for people; Wait is for permit only."""

    code: str = "Success"
    reason: str = ""


SUCCESS = Status()


CycleState = dict[str, object]
"""What plugins note down during one attempt, under keys of their own."""


class Plugin:
    """The extension points. A plugin overrides those that it needs."""

    name = ""
    weight = 1

    def filter(self, state: CycleState, pod: Pod, node: Node) -> Status:
        """May the node take the pod? Asked for every node."""
        return SUCCESS

    def pre_score(self, state: CycleState, pod: Pod, nodes: list[Node]) -> None:
        """What should be known before scoring? Asked once, with the nodes that are left."""

    def score(self, state: CycleState, pod: Pod, node: Node) -> int:
        """How good is the node? Asked for every node that is left."""
        return 0

    def permit(self, state: CycleState, pod: Pod, node: str) -> Status:
        """May the pod be bound to its node now? Asked once, in the end."""
        return SUCCESS


class WaitingPod:
    """A pod that has a node and waits until every plugin that made it wait allows it, or one rejects it."""

    def __init__(self, pending: set[str]) -> None:
        self.pending = pending  # names of plugins
        self.verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def allow(self, plugin: str) -> None:
        self.pending.discard(plugin)
        if not self.pending and not self.verdict.done():
            self.verdict.set_result(None)

    def reject(self, plugin: str, node: str, reason: str) -> None:
        if not self.verdict.done():
            self.verdict.set_exception(FitError({node: (plugin, Status("Unschedulable", reason))}))


class NodeUnschedulable(Plugin):
    """Keep pods off cordoned nodes: those that an administrator has closed to new pods."""

    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: Pod, node: Node) -> Status:
        if node.spec.unschedulable:
            return Status("Unschedulable", "node(s) were unschedulable")
        return SUCCESS


class NodeNumber(Plugin):
    """Prefer the node whose name ends in the same digit as the pod's, and wait that many seconds to bind."""

    name = "NodeNumber"

    def __init__(self, waiting_pods: dict[str, WaitingPod]) -> None:
        self.waiting_pods = waiting_pods

    def pre_score(self, state: CycleState, pod: Pod, nodes: list[Node]) -> None:
        log.info("NodeNumber reads the digit of %s", pod.metadata.name)
        state["NodeNumber/wanted"] = trailing_digit(pod.metadata.name)

    def score(self, state: CycleState, pod: Pod, node: Node) -> int:
        wanted = state["NodeNumber/wanted"]
        return 10 if wanted is not None and trailing_digit(node.metadata.name) == wanted else 0

    def permit(self, state: CycleState, pod: Pod, node: str) -> Status:
        seconds = trailing_digit(node)
        if not seconds:
            return SUCCESS
        asyncio.get_running_loop().call_later(seconds, self.allow, pod.metadata.uid)
        return Status("Wait", f"{seconds} s")

    def allow(self, uid: str) -> None:
        if uid in self.waiting_pods:
            self.waiting_pods[uid].allow(self.name)


def trailing_digit(name: str) -> int | None:
    """Return 8 for node8, and None for a name that ends in no digit."""
    return int(name[-1]) if name[-1:] in tuple("0123456789") else None


class FitError(Exception):
    """No node may take the pod. It knows which plugin refused which node, and counts the reasons."""

    def __init__(self, refusals: dict[str, tuple[str, Status]]) -> None:
        self.plugins = {plugin for plugin, _ in refusals.values()}
        counts = Counter(status.reason for _, status in refusals.values())
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        super().__init__(f"0/{len(refusals)} nodes are available: {reasons or 'there are none'}.")


@dataclass
class QueuedPodInfo:
    """A pod in the queue, with its past attempts."""

    pod: Pod
    attempts: int = 0
    failed_at: float = 0.0
    refused_by: frozenset[str] = frozenset()  # plugins that refused a node at the last attempt

    def backoff_until(self) -> float:
        """Every failure doubles the pause: 1, 2, 4, 8 and from then on 10 seconds."""
        return self.failed_at + min(INITIAL_BACKOFF_S * 2.0 ** (self.attempts - 1), MAX_BACKOFF_S)


class SchedulingQueue:
    """Pods that have no node yet; each is in one of the three parts, or is being scheduled."""

    def __init__(self) -> None:
        self.active: deque[QueuedPodInfo] = deque()
        self.backoff: dict[str, QueuedPodInfo] = {}  # by the pod's uid
        self.unschedulable: dict[str, QueuedPodInfo] = {}
        self.not_empty = asyncio.Event()

    def add(self, info: QueuedPodInfo) -> None:
        """Put a pod into active: it is new, or its time has come again."""
        self.active.append(info)
        self.not_empty.set()

    async def pop(self) -> QueuedPodInfo:
        """Wait for the next pod."""
        while not self.active:
            self.not_empty.clear()
            await self.not_empty.wait()
        info = self.active.popleft()
        info.attempts += 1
        return info

    def add_unschedulable(self, info: QueuedPodInfo) -> None:
        """Take back a pod whose attempt failed: into backoff after an error, else into unschedulable."""
        info.failed_at = now()
        part = self.unschedulable if info.refused_by else self.backoff
        part[info.pod.metadata.uid] = info

    def delete(self, pod: Pod) -> None:
        """Forget a pod, wherever it is."""
        uid = pod.metadata.uid
        self.active = deque(info for info in self.active if info.pod.metadata.uid != uid)
        self.backoff.pop(uid, None)
        self.unschedulable.pop(uid, None)

    async def flush(self) -> None:
        """Look once a second which pods have waited long enough: in backoff, and in unschedulable."""
        while True:
            await asyncio.sleep(1.0)
            for uid, info in list(self.backoff.items()):
                if info.backoff_until() <= now():
                    self.add(self.backoff.pop(uid))
            for uid, info in list(self.unschedulable.items()):
                if info.failed_at + MAX_IN_UNSCHEDULABLE_S <= now():
                    self.add(self.unschedulable.pop(uid))


class Scheduler:
    """One loop: the next pod, a node for it. Each pod's waiting and binding are a task of its own."""

    def __init__(self, client: RestClient) -> None:
        self.client = client
        self.waiting_pods: dict[str, WaitingPod] = {}  # by the pod's uid
        self.plugins: list[Plugin] = [NodeUnschedulable(), NodeNumber(self.waiting_pods)]
        self.queue = SchedulingQueue()
        # An informer keeps a copy of all objects of a kind and tells handlers what changes.
        self.nodes = Informer(client, NODES)
        self.pods = Informer(client, PODS)
        self.pods.add_handler(on_add=self.pod_added, on_delete=self.queue.delete)

    def pod_added(self, pod: Pod) -> None:
        """Queue a pod that has no node yet and asks for this scheduler; all others belong to other schedulers."""
        if not pod.spec.node_name and pod.spec.scheduler_name == SCHEDULER_NAME:
            self.queue.add(QueuedPodInfo(pod))

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        async with asyncio.TaskGroup() as background:
            background.create_task(self.nodes.run())
            background.create_task(self.pods.run())
            background.create_task(self.queue.flush())
            # Do not decide before all nodes are known: wait for the first lists.
            await self.nodes.wait_synced()
            await self.pods.wait_synced()
            while True:
                await self.schedule_one(background)

    async def schedule_one(self, background: asyncio.TaskGroup) -> None:
        """The scheduling cycle: take the next pod, find a node for it, hand both to a binding cycle."""
        info = await self.queue.pop()
        pod = info.pod
        log.info("found a pod to schedule: %s, attempt %d", full_name(pod), info.attempts)
        state: CycleState = {}
        try:
            node = self.find_node(state, pod)
            log.info("%s is chosen for %s", node, full_name(pod))
            self.run_permit_plugins(state, pod, node)
        except FitError as error:
            await self.handle_failure(info, error)
            return
        background.create_task(self.binding_cycle(info, node))

    async def handle_failure(self, info: QueuedPodInfo, error: Exception) -> None:
        """Put a pod back into the queue, unless it is gone or has a node by now, and say why its attempt failed."""
        known = self.pods.get(full_name(info.pod))
        if known is None or known.metadata.uid != info.pod.metadata.uid or known.spec.node_name:
            return
        info.pod = known
        info.refused_by = frozenset(error.plugins) if isinstance(error, FitError) else frozenset()
        self.queue.add_unschedulable(info)
        await self.emit_event(info.pod, "Warning", "FailedScheduling", str(error))

    async def binding_cycle(self, info: QueuedPodInfo, node: str) -> None:
        """Wait for permission, bind, write an event: in the background, for each pod separately."""
        pod = info.pod
        try:
            await self.wait_on_permit(pod)
            await self.bind(pod, node)
        except (FitError, ApiError) as error:
            await self.handle_failure(info, error)
            return
        await self.emit_event(pod, "Normal", "Scheduled", f"Successfully assigned {full_name(pod)} to {node}")

    def find_node(self, state: CycleState, pod: Pod) -> str:
        """Return the name of the best node that may take the pod."""
        feasible = self.run_filter_plugins(state, pod)
        if len(feasible) == 1:
            return feasible[0].metadata.name  # nothing to compare: no plugin is asked for a score
        for plugin in self.plugins:
            plugin.pre_score(state, pod, feasible)
        return self.select_host(self.run_score_plugins(state, pod, feasible))

    def run_filter_plugins(self, state: CycleState, pod: Pod) -> list[Node]:
        """Return the nodes that no plugin refuses; after the first refusal the other plugins are not asked."""
        feasible, refusals = [], {}
        for node in self.nodes:
            answers = ((plugin.name, plugin.filter(state, pod, node)) for plugin in self.plugins)
            refusal = next((answer for answer in answers if answer[1].code != "Success"), None)
            if refusal is None:
                feasible.append(node)
            else:
                refusals[node.metadata.name] = refusal
        if not feasible:
            raise FitError(refusals)
        return feasible

    def run_score_plugins(self, state: CycleState, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """Return each node's total: every plugin's score times that plugin's weight."""
        return {
            node.metadata.name: sum(plugin.weight * plugin.score(state, pod, node) for plugin in self.plugins)
            for node in nodes
        }

    def run_permit_plugins(self, state: CycleState, pod: Pod, node: str) -> None:
        """Ask every plugin: one refusal is enough, and if any answers Wait, the pod becomes a waiting pod."""
        pending = set()
        for plugin in self.plugins:
            status = plugin.permit(state, pod, node)
            if status.code == "Wait":
                log.info("%s waits for %s: %s", full_name(pod), plugin.name, status.reason)
                pending.add(plugin.name)
            elif status.code != "Success":
                raise FitError({node: (plugin.name, status)})
        if pending:
            self.waiting_pods[pod.metadata.uid] = WaitingPod(pending)

    async def wait_on_permit(self, pod: Pod) -> None:
        """Return when every plugin allows the pod; a rejection is raised."""
        waiting = self.waiting_pods.get(pod.metadata.uid)
        if waiting is None:
            return
        try:
            await waiting.verdict
        finally:
            del self.waiting_pods[pod.metadata.uid]

    def select_host(self, totals: dict[str, int]) -> str:
        """Return a node with the highest total; among equals one is picked at random, or the first would get all."""
        log.info("scores: %s", " ".join(f"{name}={total}" for name, total in totals.items()))
        best = max(totals.values())
        return random.choice([name for name, total in totals.items() if total == best])

    async def bind(self, pod: Pod, node: str) -> None:
        """Write the decision: the API server sets spec.nodeName, and the kubelet of that node starts the pod."""
        meta = pod.metadata
        who = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": who, "target": {"kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding"
        await self.client.create(path, json.dumps(binding).encode())

    async def emit_event(self, pod: Pod, type_: str, reason: str, message: str) -> None:
        """Write an Event, which kubectl get events and kubectl describe pod show. A failure does not affect the pod."""
        log.info("%s: %s", reason, message)
        meta = pod.metadata
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "metadata": {"generateName": f"{meta.name}-", "namespace": meta.namespace},
            "involvedObject": {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "source": {"component": SCHEDULER_NAME},
            **{"type": type_, "reason": reason, "message": message},
            **{"firstTimestamp": when, "lastTimestamp": when, "count": 1},
        }
        with contextlib.suppress(ApiError):
            await self.client.create(f"/api/v1/namespaces/{meta.namespace}/events", json.dumps(event).encode())


def full_name(pod: Pod) -> str:
    """Pods of different namespaces may share a name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def now() -> float:
    """Seconds that never go back; the wall clock may jump."""
    return asyncio.get_running_loop().time()


async def main() -> None:
    """Schedule for the cluster that kubectl would talk to."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    async with RestClient(find_config()) as client:
        await Scheduler(client).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
