"""What would help a pod that asks for more than nodes have left: a smaller request, or a pod less on the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mooring.api.core import Pod
from mooring.api.wording import count_of
from mooring.framework.remedies import FEW, Change, Remedy
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo
from mooring.state.quantity_text import handy, spoken, written
from mooring.state.reduced_requests import ask_for
from mooring.state.shortfall import distance, shortfalls

MAX_BLOCKERS = 3


def facts(requests: Mapping[str, int], nodes: NodeRows) -> Iterator[str]:
    """For each resource that is short: how much is asked for, and the most that is free where it is short."""
    for name, missing in shortfalls(requests, nodes).items():
        there = nodes.subset(np.flatnonzero(missing))
        if not len(there):
            continue
        if not there.allocatable(name).any():
            yield f"no {name} at all on {count_of(len(there), 'node')}"
            continue
        free = there.allocatable(name) - there.requested(name)
        most = np.flatnonzero(free == free.max())[-1]
        amount = written(name, max(0, int(free[most])))
        yield f"{name}: {written(name, requests[name])} asked for, at most {amount} free (on {there.infos[most].name})"


def remedies(requests: Mapping[str, int], nodes: NodeRows) -> Iterator[Remedy]:
    """For the nodes that are closest to having room."""
    for i in np.argsort(distance(requests, nodes), kind="stable")[:FEW].tolist():
        yield from _remedies(requests, nodes.subset(np.array([i])))


def _remedies(requests: Mapping[str, int], here: NodeRows) -> Iterator[Remedy]:
    node = here.infos[0]
    missing = {name: int(column[0]) for name, column in shortfalls(requests, here).items() if column[0]}
    count, allowed = int(here.pod_count[0]), int(here.allowed_pods[0])
    room: Remedy = ()
    if count >= allowed:
        room = _fewer_pods(node, count, allowed)
        if not room:
            return
    smaller = []
    for name, lack in missing.items():
        amount = min(handy(name, lack), requests[name])
        smaller.append(_less(name, amount, requests[name] - amount))
    yield (*room, *smaller)
    if missing and not room:
        blocker = _who_frees(node, missing)
        if blocker is not None:
            text = f"without pod {blocker.pod.key} on {node.name}"
            yield (Change(text, "removePod", 6.0, removes=(blocker.pod,)),)


def _less(resource: str, amount: int, target: int) -> Change:
    share = amount / (amount + target)
    if not target:
        text = f"no {spoken(resource)} request ({written(resource, amount)} now)"
    else:
        now = written(resource, amount + target)
        text = f"{written(resource, amount)} less {spoken(resource)} ({written(resource, target)} instead of {now})"

    def edit(pod: Pod) -> None:
        ask_for(pod, resource, target)

    return Change(text, "request", 1.0 + 10.0 * share, edit=edit)


def _least_important(node: NodeInfo) -> list[PodInfo]:
    pods = [pod for pod in node.pods.values() if not pod.pod.is_terminating]
    return sorted(pods, key=lambda pod: (pod.priority, pod.pod.metadata.creation_timestamp or "", pod.pod.key))


def _fewer_pods(node: NodeInfo, count: int, allowed: int) -> Remedy:
    pods = _least_important(node)
    needed = count - allowed + 1
    if needed > len(pods) or needed > MAX_BLOCKERS:
        return ()
    what = "one pod" if needed == 1 else f"{needed} pods"
    text = f"{what} fewer on {node.name} (pods: {count} of {allowed})"
    return (Change(text, "podCount", 2.0 + needed, removes=tuple(pod.pod for pod in pods[:needed])),)


def _who_frees(node: NodeInfo, missing: Mapping[str, int]) -> PodInfo | None:
    """The least important pod whose requests cover what is missing."""
    for pod in _least_important(node):
        if all(pod.shape.requests.get(name, 0) >= amount for name, amount in missing.items()):
            return pod
    return None
