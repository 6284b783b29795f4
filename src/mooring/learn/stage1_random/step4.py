"""Lesson 1, step 4 of 5: write the decision.

Posting a Binding makes the API server set spec.nodeName. The kubelet of that node then starts the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable

from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.net.informer import Informer
from mooring.net.kinds import NODES, PODS
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

SCHEDULER_NAME = "mooring-lesson"
log = logging.getLogger("lesson")

Predicate = Callable[[Pod, Node], bool]
Priority = Callable[[Pod, Node], int]


def any_node(pod: Pod, node: Node) -> bool:
    """A predicate says whether a node may take a pod. This one always says yes."""
    return True


def random_priority(pod: Pod, node: Node) -> int:
    """A priority scores a node for a pod. This one is random."""
    return random.randrange(100)


class FitError(Exception):
    """No node may take the pod."""


class Scheduler:
    """One loop: the next pod, a node for it, a binding."""

    def __init__(self, client: RestClient) -> None:
        self.client = client
        self.predicates: list[Predicate] = [any_node]
        self.priorities: list[Priority] = [random_priority]
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
        """Take the next pod, find a node for it, bind it."""
        pod = await self.queue.get()
        log.info("found a pod to schedule: %s", full_name(pod))
        try:
            node = self.find_node(pod)
            log.info("%s is chosen for %s", node, full_name(pod))
            await self.bind(pod, node)
        except (FitError, ApiError) as error:
            log.info("cannot schedule %s: %s", full_name(pod), error)
            return
        log.info("%s is bound to %s", full_name(pod), node)

    def find_node(self, pod: Pod) -> str:
        """Return the name of the best node that may take the pod."""
        feasible = [node for node in self.nodes if all(may(pod, node) for may in self.predicates)]
        if not feasible:
            raise FitError(f"none of {len(self.nodes)} nodes may take it")
        if len(feasible) == 1:
            return feasible[0].metadata.name  # nothing to compare: no priority is asked for a score
        totals = {node.metadata.name: sum(how(pod, node) for how in self.priorities) for node in feasible}
        return self.select_host(totals)

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
