"""Bindings that the API server acknowledged and of which its watch does not tell: are they still there?

A pod counts on its node from the moment of the decision until the watch confirms it. An API server that was restored
from a backup may have lost the binding, and then no watch will ever tell of it.

A read of the one pod settles it, whenever it is asked. It was asked after the Binding was acknowledged, and no cache
may answer it from the past: a pod that has no node has lost it. Lists and their versions prove nothing of that kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from mooring.api.codec import decode
from mooring.api.core import Pod
from mooring.client.errors import NotFound
from mooring.client.rest import RestClient
from mooring.errors import ApiError, InputError
from mooring.observe.logs import get_logger
from mooring.scheduler.writer import pod_path
from mooring.state.pod_info import PodInfo

log = get_logger("mooring.scheduler")

LOOK_S = 30.0
"""A pod whose binding is unconfirmed at two looks in a row is asked for: a watch takes milliseconds."""


class Assumptions(Protocol):
    """Who has placed the pods: the scheduler."""

    def unconfirmed(self) -> Sequence[PodInfo]:
        """The pods whose binding was acknowledged, and which the watch shows without a node."""
        ...

    def bring_back(self, pod: PodInfo) -> None:
        """Free what the pod holds and queue it again, unless something has become of it meanwhile."""
        ...


async def watch_over(scheduler: Assumptions, client: RestClient) -> None:
    """Look again and again, until cancelled."""
    before: dict[str, PodInfo] = {}
    while True:
        await asyncio.sleep(LOOK_S)
        now = {pod.uid: pod for pod in scheduler.unconfirmed()}
        try:
            await look([pod for uid, pod in now.items() if before.get(uid) is pod], client, scheduler.bring_back)
        except Exception as error:  # our own mistake: it must not end the looking
            log.error(error, "Unexpected error while looking for lost bindings")
        before = now


async def look(suspects: Sequence[PodInfo], client: RestClient, bring_back: Callable[[PodInfo], None]) -> None:
    """Ask for pods until one is found bound: then the watch is only late, and tells of the others as well.

    Another pod behind that one may have lost its binding all the same. It is found at a later look, once the watch has
    told of the bound one. Going on would ask for thousands of pods at each look while a watch is late.
    """
    for suspect in suspects:
        try:
            answer = await client.get(pod_path(suspect.pod))
            found: Pod = decode(Pod, answer.body)
        except NotFound:
            continue  # the watch is about to say so
        except (ApiError, InputError) as error:
            log.info("Cannot find out whether a pod is still bound", pod=suspect.pod.key, err=str(error))
            return
        if found.spec.node_name:
            return
        if found.uid == suspect.uid:
            log.warning(
                "The API server has lost a binding that it had acknowledged; the pod is queued again",
                pod=suspect.pod.key,
                node=suspect.pod.spec.node_name,
            )
            bring_back(suspect)
