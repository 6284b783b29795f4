"""Lesson 4: pre-score plugins do once per pod what score would do once per node.

What they find out they leave in the CycleState, a notebook that lives as long as one attempt to schedule one pod and
is handed to every plugin.

It runs by itself against the cluster of your kubeconfig: python scheduler.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.net.informer import Informer
from mooring.net.kinds import NODES, PODS
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

SCHEDULER_NAME = "mooring-lesson"
log = logging.getLogger("lesson")


@dataclass(frozen=True)
class Status:
    """A plugin's answer: Success, or Unschedulable with a reason for people."""

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


class NodeUnschedulable(Plugin):
    """Keep pods off cordoned nodes: those that an administrator has closed to new pods."""

    name = "NodeUnschedulable"

    def filter(self, state: CycleState, pod: Pod, node: Node) -> Status:
        if node.spec.unschedulable:
            return Status("Unschedulable", "node(s) were unschedulable")
        return SUCCESS


class NodeNumber(Plugin):
    """Prefer the node whose name ends in the same digit as the pod's."""

    name = "NodeNumber"

    def pre_score(self, state: CycleState, pod: Pod, nodes: list[Node]) -> None:
        log.info("NodeNumber reads the digit of %s", pod.metadata.name)
        state["NodeNumber/wanted"] = trailing_digit(pod.metadata.name)

    def score(self, state: CycleState, pod: Pod, node: Node) -> int:
        wanted = state["NodeNumber/wanted"]
        return 10 if wanted is not None and trailing_digit(node.metadata.name) == wanted else 0


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


class Scheduler:
    """One loop: the next pod, a node for it, a binding, an event."""

    def __init__(self, client: RestClient) -> None:
        self.client = client
        self.plugins: list[Plugin] = [NodeUnschedulable(), NodeNumber()]
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer keeps a copy of all objects of a kind and tells handlers what changes.
        self.nodes = Informer(client, NODES)
        self.pods = Informer(client, PODS)
        self.pods.add_handler(on_add=self.pod_added)

    def pod_added(self, pod: Pod) -> None:
        """Queue a pod that has no node yet and asks for this scheduler; all others belong to other schedulers."""
        if not pod.spec.node_name and pod.spec.scheduler_name == SCHEDULER_NAME:
            self.queue.put_nowait(pod)

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        async with asyncio.TaskGroup() as background:
            background.create_task(self.nodes.run())
            background.create_task(self.pods.run())
            # Do not decide before all nodes are known: wait for the first lists.
            await self.nodes.wait_synced()
            await self.pods.wait_synced()
            while True:
                await self.schedule_one()

    async def schedule_one(self) -> None:
        """Take the next pod, find a node for it, bind it, write an event."""
        pod = await self.queue.get()
        log.info("found a pod to schedule: %s", full_name(pod))
        try:
            node = self.find_node({}, pod)
            log.info("%s is chosen for %s", node, full_name(pod))
            await self.bind(pod, node)
        except (FitError, ApiError) as error:
            await self.emit_event(pod, "Warning", "FailedScheduling", str(error))
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


async def main() -> None:
    """Schedule for the cluster that kubectl would talk to."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    async with RestClient(find_config()) as client:
        await Scheduler(client).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
