"""Lesson 1, step 2 of 5: watch the cluster.

Two informers keep a copy of all nodes and pods. A handler queues the pods that this scheduler is responsible for; no
code takes them out yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from mooring.api.core import Node, Pod
from mooring.net.informer import Informer
from mooring.net.kinds import NODES, PODS
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

SCHEDULER_NAME = "mooring-lesson"
log = logging.getLogger("lesson")


class Scheduler:
    """Knows the nodes, and which pods need one."""

    def __init__(self, client: RestClient) -> None:
        self.client = client
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer keeps a copy of all objects of a kind and tells handlers what changes.
        self.nodes = Informer(client, NODES)
        self.pods = Informer(client, PODS)
        self.nodes.add_handler(on_add=self.node_added)
        self.pods.add_handler(on_add=self.pod_added)

    def node_added(self, node: Node) -> None:
        log.info("new node: %s", node.metadata.name)

    def pod_added(self, pod: Pod) -> None:
        """Queue a pod that has no node yet and asks for this scheduler; all others belong to other schedulers."""
        if not pod.spec.node_name and pod.spec.scheduler_name == SCHEDULER_NAME:
            log.info("queued: %s", full_name(pod))
            self.queue.put_nowait(pod)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as background:
            background.create_task(self.nodes.run())
            background.create_task(self.pods.run())
            # Do not decide before all nodes are known: wait for the first lists.
            await self.nodes.wait_synced()
            await self.pods.wait_synced()
            log.info("%d nodes are known, %d pods are queued", len(self.nodes), self.queue.qsize())


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
