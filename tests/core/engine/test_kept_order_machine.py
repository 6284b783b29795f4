"""The node of every decision against a plain sort: over random histories, forks, ties, nominations and pod groups.

The scheduler under test keeps everything that it can. The other side keeps nothing: an engine without caches says what
each node scores, and the nodes are sorted by that, in the order in which a heap is walked where they are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from mooring.api.core import Pod
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37
from mooring.core.engine import kinds, order, search
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.session import Session, open_session
from mooring.testing import bound, make_cluster, make_node, make_pod, make_pod_group

FEATURES = Features(V1_37, GenericWorkload=True)
NODES = 36
MAX_FORKS = 3
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def spread(key: str, when: str, skew: int = 1) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}


def affinity(kind: str, key: str, when: str = "required", weight: int = 0) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    if weight:
        term = {"weight": weight, "podAffinityTerm": term}
    return {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": [term]}}}


WEB = {"cpu": "500m", "labels": {"app": "web"}}
TEMPLATES: list[dict[str, Any]] = [
    {"cpu": "1"},
    {"cpu": "1"},
    {"cpu": "3", "memory": "1Gi", "priority": 5},
    {"cpu": "500m", "spec": {"nodeSelector": {"disk": "ssd"}}},
    {**WEB, "spec": {"topologySpreadConstraints": [spread(ZONE, "DoNotSchedule"), spread(HOST, "ScheduleAnyway")]}},
    {**WEB, "spec": {"topologySpreadConstraints": [spread(ZONE, "ScheduleAnyway")]}},
    {**WEB, "spec": {"topologySpreadConstraints": [spread(HOST, "DoNotSchedule")]}},
    {**WEB, "spec": affinity("podAffinity", ZONE)},
    {**WEB, "spec": affinity("podAntiAffinity", HOST)},
    {**WEB, "spec": affinity("podAntiAffinity", HOST, "preferred", 40)},
    {**WEB, "spec": affinity("podAffinity", ZONE, "preferred", 70)},
]


def walk(i: int, n: int) -> Iterator[int]:
    """The positions of a heap in pre-order."""
    if i < n:
        yield from (i, *walk(2 * i + 1, n), *walk(2 * i + 2, n))


def best_of(decision: ScheduleResult) -> str:
    """The node at the front when all that were scored are sorted."""
    assert decision.scores is not None
    names, totals = decision.scores.names, decision.scores.totals.tolist()
    places = {position: place for place, position in enumerate(walk(0, len(names)))}
    return str(names[min(range(len(names)), key=lambda i: (-totals[i], places[i]))])


def check(decision: ScheduleResult, plain: ScheduleResult) -> None:
    assert (decision.outcome, decision.node, decision.message) == (plain.outcome, plain.node, plain.message)
    if plain.scores is not None:
        assert plain.node == best_of(plain)
        assert decision.scores is not None
        assert decision.scores.best == max(plain.scores.totals)


@dataclass
class World:
    """A session, and what runs and waits there."""

    session: Session
    running: list[Pod] = field(default_factory=list)
    nominated: list[Pod] = field(default_factory=list)

    def fork(self) -> World:
        return World(self.session.fork(), list(self.running), list(self.nominated))

    def decide(self, pod: Pod) -> None:
        """Decide with all that is kept and with nothing, and count the pod in."""
        session = self.session
        decision = session.decide(pod, detail=False)
        plain = session.fork()
        plain.engine.uses_cache = False
        check(decision, plain.decide(pod))
        if decision.outcome is Outcome.SCHEDULED:
            session.commit(decision)
            self.running.append(bound(pod, str(decision.node)))

    def decide_group(self, pods: list[Pod]) -> None:
        """The same for pods that are decided together. Nothing is counted in: what was held is released."""
        group, session = make_pod_group("g", gang=len(pods)), self.session
        plain = session.fork()
        plain.engine.uses_cache = False
        found: list[Any] = []
        for each, detail in ((session, False), (plain, True)):
            each.state.put(group)
            for pod in pods:
                each.state.note_member(pod)
            info = PodGroupInfo(group, [each.info(pod) for pod in pods])
            found.append(each.groups(each.profiles["default-scheduler"]).run(info, detail=detail))
        kept, uncached = found
        assert kept.status == uncached.status
        for decision, other in zip(kept.decisions, uncached.decisions, strict=True):
            check(decision, other)
        for pod in pods:
            session.state.forget_member(pod)


class KeptOrderMachine(RuleBasedStateMachine):
    """Random histories of one cluster and of forks of it."""

    def __init__(self) -> None:
        super().__init__()
        # Equal nodes in three zones, so that ties decide nearly everything, and a few others.
        nodes = [
            make_node(f"n{i:02}", zone=f"z{i % 3}", cpu="4", pods=4, labels={"disk": "ssd" if i % 5 else "hdd"})
            for i in range(NODES)
        ]
        first = World(open_session(config_from_dict(None, FEATURES), make_cluster(*nodes), features=FEATURES))
        self.worlds = [first]
        self.serial = 0

    def world(self, which: int) -> World:
        return self.worlds[which % len(self.worlds)]

    def pod(self, template: int, **more: Any) -> Pod:
        self.serial += 1
        return make_pod(f"p{self.serial}", **{**TEMPLATES[template], **more})

    which = st.integers(0, MAX_FORKS)
    templates = st.integers(0, len(TEMPLATES) - 1)
    node_numbers = st.integers(0, NODES - 1)

    @rule(which=which, template=templates, count=st.sampled_from([1, 2, 8, 12]))
    def pods_of_a_template_are_placed(self, which: int, template: int, count: int) -> None:
        for _ in range(count):
            self.world(which).decide(self.pod(template))

    @rule(which=which, template=templates, victims=st.lists(st.integers(0, 2**16), min_size=2, max_size=12))
    def pods_come_and_go(self, which: int, template: int, victims: list[int]) -> None:
        world = self.world(which)
        for victim in victims:
            world.decide(self.pod(template))
            if world.running:
                world.session.remove(world.running.pop(victim % len(world.running)))

    @rule(which=which, template=templates, number=node_numbers, count=st.sampled_from([1, 5, 20]))
    def pods_are_bound_by_others(self, which: int, template: int, number: int, count: int) -> None:
        world = self.world(which)
        for i in range(count):
            pod = bound(self.pod(template), f"n{(number + 7 * i) % NODES:02}")
            world.session.put(pod)
            world.running.append(pod)

    @rule(which=which, victim=st.integers(0, 2**16), count=st.sampled_from([1, 2, 30]))
    def pods_end(self, which: int, victim: int, count: int) -> None:
        world = self.world(which)
        for _ in range(min(count, len(world.running))):
            world.session.remove(world.running.pop(victim % len(world.running)))

    @rule(which=which, template=templates, number=node_numbers)
    def a_pod_is_nominated(self, which: int, template: int, number: int) -> None:
        world = self.world(which)
        pod = self.pod(template, priority=10)
        pod.status.nominated_node_name = f"n{number:02}"
        world.session.put(pod)
        world.nominated.append(pod)

    @rule(which=which)
    def nominations_end(self, which: int) -> None:
        world = self.world(which)
        while world.nominated:
            world.session.remove(world.nominated.pop())

    @rule(which=which, template=templates, size=st.integers(2, 5))
    def a_group_is_tried(self, which: int, template: int, size: int) -> None:
        self.world(which).decide_group([self.pod(template, group="g") for _ in range(size)])

    @rule(which=which, number=node_numbers, variant=st.integers(0, 7))
    def a_node_changes(self, which: int, number: int, variant: int) -> None:
        more: Mapping[str, Any] = {"taints": ["k=v:NoSchedule"]} if variant & 1 else {}
        zone = "" if variant == 7 else f"z{number % 3}"
        node = make_node(f"n{number:02}", zone=zone, cpu="4", pods=2 if variant & 2 else 4, **more)
        self.world(which).session.put(node)

    @rule(which=which, number=node_numbers)
    def a_node_leaves_and_comes_back(self, which: int, number: int) -> None:
        world, name = self.world(which), f"n{number:02}"
        world.session.state.remove_node(name)
        world.decide(self.pod(0))
        world.session.put(make_node(name, zone=f"z{number % 3}", cpu="4", pods=4))

    @precondition(lambda self: len(self.worlds) < MAX_FORKS)
    @rule(which=which)
    def a_fork_begins(self, which: int) -> None:
        self.worlds.append(self.world(which).fork())

    @precondition(lambda self: len(self.worlds) > 1)
    @rule(which=st.integers(1, MAX_FORKS))
    def a_fork_is_dropped(self, which: int) -> None:
        del self.worlds[1 + which % (len(self.worlds) - 1)]


@pytest.mark.parametrize("shift", [2, 10], ids=["small blocks", "one block"])
def test_the_node_is_that_of_a_plain_sort(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (order, kinds):
        monkeypatch.setattr(module, "_SHIFT", shift)
        monkeypatch.setattr(module, "_BLOCK", 1 << shift)
        monkeypatch.setattr(module, "_TINY", 0)
    monkeypatch.setattr(order, "_SMALL", 0)
    monkeypatch.setattr(search, "FEW_NODES", 0)
    run_state_machine_as_test(KeptOrderMachine, settings=settings(max_examples=10, stateful_step_count=30))
