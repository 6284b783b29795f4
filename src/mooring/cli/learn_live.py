"""A lesson's scheduler in real time, until Ctrl-C: in a sandbox, or for a cluster of the learner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType

from rich.console import Console

from mooring.cli.kubeconfig_place import kubeconfig_place
from mooring.client.kubeconfig import find_config
from mooring.client.rest import RestClient
from mooring.lessons.classroom import SCHEDULER_NAME, Say, listening, open_classroom
from mooring.lessons.course import Tell
from mooring.lessons.words import Words

SANDBOX_NODES = 10
ANSWER_WITHIN_S = 10.0


async def serve_sandbox(
    to: Console,
    tell: Tell,
    number: int,
    module: ModuleType,
    write_kubeconfig: Path | None = None,
    words: Words | None = None,
) -> None:
    """Give the learner a cluster to play with; its kubeconfig is gone when this ends.

    Every command that is printed names the kubeconfig, so that none of them can reach another cluster.
    """
    words = words or Words()
    say = _since_now(tell)
    with kubeconfig_place(write_kubeconfig) as kubeconfig:
        async with open_classroom(module, say, kubeconfig=kubeconfig, words=words) as room:
            for i in range(SANDBOX_NODES):
                room.node(f"node{i}")
            await room.start()
            kubectl = f"  kubectl --kubeconfig {kubeconfig.resolve()}"  # the other terminal may be in another folder
            overrides = f'--overrides=\'{{"spec":{{"schedulerName":"{SCHEDULER_NAME}"}}}}\''
            to.print(words("The scheduler of lesson {number} is running. In another terminal:", number=number) + "\n")
            for arguments in (f"run pod3 --image=pause:3.10 {overrides}", "get pods -o wide", "get events"):
                to.print(f"{kubectl} {arguments}", soft_wrap=True, markup=False)
            to.print("\n" + words("Ctrl-C ends it.") + "\n")
            to.file.flush()
            await room.pass_time(10**9)


async def schedule_for(
    to: Console, tell: Tell, module: ModuleType, kubeconfig: str, words: Words | None = None
) -> None:
    """Run a lesson's scheduler for a cluster of the learner's; nothing is created in it."""
    words = words or Words()
    say = _since_now(tell)
    async with RestClient(find_config(kubeconfig)) as client:
        answer = await client.get("/version", timeout_s=ANSWER_WITHIN_S)  # a wrong address is told at once
        to.print(words("The cluster answers ({status}).", status=answer.status))
        to.print(words("Pods with schedulerName: {name} are scheduled.", name=SCHEDULER_NAME))
        to.print(words("Ctrl-C ends it.") + "\n")
        to.file.flush()
        with listening(say):
            await module.Scheduler(client).run()


def _since_now(tell: Tell) -> Say:
    """Tell things with the seconds since this call."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda who, text: tell(loop.time() - began, who, text)
