"""The smallest changes that would let a whole pod group run. Each one is tried with the group's own cycle, on a fork.

A gang fails or succeeds as a whole, so what would help one more pod is not what would help the gang.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from msgspec.structs import replace

from mooring.api.core import Node, Pod
from mooring.api.pod_groups import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from mooring.api.text import count_of, first_of
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.explain.remedies import Suggestion
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.runtime import run_pre_enqueue
from mooring.core.session import Session
from mooring.core.state.requests import ask_for, display_name, written

MOST_NODES = 64  # that are added at most
HALVINGS = 6  # steps of a search for an amount
HOSTNAME = "kubernetes.io/hostname"
MIN_COUNT, TOPOLOGY, REQUEST, PRIORITY, NODES = 3.0, 4.0, 3.5, 5.0, 6.0  # what the changes cost


class GroupRemedies:
    """Asks about one group that does not run."""

    def __init__(self, session: Session, group: PodGroup, pods: Sequence[Pod], fits: int, short: Sequence[str]) -> None:
        """``fits`` pods run or would run; ``short`` are the resources that the next pod lacks."""
        self._session, self._group, self._pods, self._fits, self._short = session, group, pods, fits, short

    def run(self) -> list[Suggestion]:
        """The cheapest first."""
        found = [*self._smaller_gang(), *self._without_topology(), *self._smaller_pods()]
        found += [*self._more_nodes(), *self._higher_priority()]
        return sorted(found, key=lambda each: each.cost)

    # ---- the changes ---------------------------------------------------------------------------------------------

    def _smaller_gang(self) -> Iterator[Suggestion]:
        if self._group.spec.scheduling_policy.gang is None or not 0 < self._fits < self._group.minimum:
            return
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=self._fits))
        smaller = _with(self._group, scheduling_policy=policy)
        if self._runs(smaller, self._pods):
            text = f"minCount {self._fits} instead of {self._group.minimum}: {count_of(self._fits, 'pod')} would run"
            yield _suggestion(text, "minCount", MIN_COUNT)

    def _without_topology(self) -> Iterator[Suggestion]:
        key = self._group.topology_key
        if key and self._runs(_with(self._group, scheduling_constraints=None), self._pods):
            yield _suggestion(f"without the topology constraint {key}", "topology", TOPOLOGY)

    def _smaller_pods(self) -> Iterator[Suggestion]:
        for name in self._short:
            asked = self._session.info(self._pods[0]).shape.requests.get(name, 0)
            low, high = 0, asked  # the group runs with low, and does not with high
            if not asked or not self._runs(self._group, self._asking(name, 0)):
                continue
            for _ in range(HALVINGS):
                middle = _rounded(name, (low + high) // 2)
                if middle in (low, high):
                    break
                low, high = (middle, high) if self._runs(self._group, self._asking(name, middle)) else (low, middle)
            amount = f"{written(name, low)} {display_name(name)}" if low else f"no {display_name(name)}"
            yield _suggestion(f"{amount} instead of {written(name, asked)} for each pod", "request", REQUEST)

    def _more_nodes(self) -> Iterator[Suggestion]:
        """As few copies as possible of a node that one of the pods could have if it were empty."""
        node = self._largest()
        if node is None or not self._runs(self._group, self._pods, nodes=[node] * MOST_NODES):
            return
        low, high = 0, MOST_NODES
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._runs(self._group, self._pods, nodes=[node] * middle) else (middle, high)
        text = f"{count_of(high, 'more node')} like {node.name}, empty"
        yield _suggestion(text, "node", NODES + high)

    def _higher_priority(self) -> Iterator[Suggestion]:
        present = sorted({pod.priority for pod in self._session.state.pods()})
        own = self._group.priority
        levels = [level + 1 for level in present if level >= own]
        if not levels or (best := self._with_priority(levels[-1])) is None:
            return
        at = levels[-1]
        for level in levels[:-1][:HALVINGS]:
            if (cheaper := self._with_priority(level)) is not None:
                best, at = cheaper, level
                break
        victims = sorted(each.pod.key for each in best.victims)
        text = f"priority {at} for the group and its pods: evicts {first_of(victims, 3)}"
        yield _suggestion(text, "priority", PRIORITY + len(victims))

    # ---- questions -----------------------------------------------------------------------------------------------

    def _runs(self, group: PodGroup, pods: Sequence[Pod], *, nodes: Sequence[Node] = ()) -> bool:
        decided = self._ask(group, pods, nodes=nodes)
        return decided is not None and decided.attempt_status.is_success

    def _with_priority(self, level: int) -> GroupDecision | None:
        """The decision where evictions help; None where they do not."""
        pods = [deepcopy(pod) for pod in self._pods]
        for pod in pods:
            pod.spec.priority, pod.spec.preemption_policy = level, None
        decided = self._ask(_with(self._group, priority=level, preemption_policy=None), pods)
        return decided if decided is not None and decided.victims else None

    def _ask(self, group: PodGroup, pods: Sequence[Pod], *, nodes: Sequence[Node] = ()) -> GroupDecision | None:
        """What would be decided; None if the group would be held back."""
        state = self._session.state.fork()
        for i, node in enumerate(nodes):
            state.set_node(_copy(node, f"{node.name}-new-{i}"))
        state.put(group)
        there = self._session.on(state)
        profile = there.profile_for(pods[0])
        if not all(run_pre_enqueue(profile.pre_enqueue, pod).is_success for pod in pods):
            return None
        return there.groups(profile).decide(PodGroupInfo(group, [state.info(pod) for pod in pods]), detail=False)

    def _asking(self, name: str, amount: int) -> list[Pod]:
        pods = [deepcopy(pod) for pod in self._pods]
        for pod in pods:
            ask_for(pod, name, amount)
        return pods

    def _largest(self) -> Node | None:
        """The node with the most of what is short, or the first one."""
        nodes = self._session.state.nodes()
        found = [info for info in nodes.infos if info.node is not None]
        if not found:
            return None
        amounts = nodes.allocatable(self._short[0]).tolist() if self._short else [0] * len(nodes)
        sizes = {info.name: amount for info, amount in zip(nodes.infos, amounts, strict=True)}
        return max(found, key=lambda info: sizes[info.name]).node


def _with(group: PodGroup, **fields: object) -> PodGroup:
    return replace(group, spec=replace(group.spec, **fields))


def _suggestion(text: str, kind: str, cost: float) -> Suggestion:
    return Suggestion((text,), (kind,), (), cost, about_node=True)


def _rounded(name: str, amount: int) -> int:
    """An amount that people would write: whole CPUs and GiB where they are large, tenths of them where not."""
    step = {"cpu": 100, "memory": 1 << 28}.get(name, 1)
    return amount if amount < step else amount - amount % step


def _copy(node: Node, name: str) -> Node:
    copy = deepcopy(node)
    copy.metadata.name = copy.metadata.uid = name
    if HOSTNAME in copy.metadata.labels:
        copy.metadata.labels[HOSTNAME] = name
    return copy
