"""A lesson's scheduler in real time, until Ctrl-C: in a sandbox, or for a cluster of the learner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType

from rich.console import Console

from mooring.cli.kubeconfig_place import kubeconfig_place
from mooring.client.kubeconfig import find_config
from mooring.client.rest import RestClient
from mooring.lessons.classroom import SCHEDULER_NAME, Say, open_classroom
from mooring.lessons.course import Tell, listening

SANDBOX_NODES = 10
ANSWER_WITHIN_S = 10.0


async def serve_sandbox(
    to: Console, tell: Tell, number: int, module: ModuleType, write_kubeconfig: Path | None = None
) -> None:
    """Give the learner a cluster to play with; its kubeconfig is gone when this ends."""
    say = _since_now(tell)
    with kubeconfig_place(write_kubeconfig) as kubeconfig, listening(say):
        async with open_classroom(module, say, kubeconfig=kubeconfig) as room:
            for i in range(SANDBOX_NODES):
                room.node(f"node{i}")
            await room.start()
            overrides = f'--overrides=\'{{"spec":{{"schedulerName":"{SCHEDULER_NAME}"}}}}\''
            to.print(f"Lesson {number}'s scheduler is running. In another terminal:\n")
            to.print(f"  export KUBECONFIG={kubeconfig}")
            to.print(f"  kubectl run pod3 --image=pause:3.10 {overrides}")
            to.print("  kubectl get pods -o wide\n  kubectl get events\n\nCtrl-C ends it.\n")
            to.file.flush()
            await room.pass_time(10**9)


async def schedule_for(to: Console, tell: Tell, module: ModuleType, kubeconfig: str) -> None:
    """Run a lesson's scheduler for a cluster of the learner's; nothing is created in it."""
    say = _since_now(tell)
    async with RestClient(find_config(kubeconfig)) as client:
        answer = await client.get("/version", timeout_s=ANSWER_WITHIN_S)  # a wrong address is told at once
        to.print(f"The cluster answers ({answer.status}). Pods with schedulerName: {SCHEDULER_NAME} are scheduled.")
        to.print("Ctrl-C ends it.\n")
        to.file.flush()
        with listening(say):
            await module.Scheduler(client).run()


def _since_now(tell: Tell) -> Say:
    """Tell things with the seconds since this call."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda who, text: tell(loop.time() - began, who, text)
