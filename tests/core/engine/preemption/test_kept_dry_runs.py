"""What preemption keeps from one pod to the next changes no decision: random histories, with and without, agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.api.times import format_time
from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.dry_run import DryRun
from mooring.core.plugins.default_preemption import DefaultPreemption
from mooring.testing import NOON, Scheduler, bound, make_node, make_object, make_pod

NODES = 12
APPS = ("x", "y")

# Preemptors; the last two cannot be tried on many nodes together, or not be shared by a template.
WANTING: list[dict[str, Any]] = [
    {"cpu": "2", "priority": 10},
    {"cpu": "3500m", "priority": 10, "host_ports": [80]},
    {"cpu": "1", "priority": 30},
    {"cpu": "2", "priority": 30, "spec": {"nodeSelector": {"disk": "ssd"}}},
    {"cpu": "5", "priority": 30},
    {"cpu": "2", "priority": 30, "spec": {"nodeName": "n03"}},
    {
        "cpu": "2",
        "priority": 30,
        "labels": {"app": "x"},
        "spec": {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "x"}},
                        }
                    ]
                }
            }
        },
    },
]
CONFIG = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "DefaultPreemption",
                    "args": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 3},
                }
            ],
        }
    ]
}


def plugin(scheduler: Scheduler) -> DefaultPreemption:
    found: DefaultPreemption = scheduler.profiles["default-scheduler"].plugins["DefaultPreemption"].plugin
    return found


def started(pod: Pod, when: float | None) -> Pod:
    pod.status.start_time = None if when is None else format_time(NOON + when)
    return pod


class TwoSchedulers:
    """The same history told to one scheduler with caches and one without."""

    def __init__(self) -> None:
        self.both = [Scheduler(config=CONFIG), Scheduler(config=CONFIG, uses_cache=False)]
        self.running: dict[str, tuple[Pod, dict[str, Any]]] = {}
        self.kept: list[ScheduleResult] = []  # keeps templates alive, as pods that wait do
        self.serial = 0
        self.turn = 0
        for scheduler in self.both:
            plugin(scheduler)._handle.pick = lambda n: self.turn % n
        for number in range(NODES):
            self.node(number, 0)
            for i in range(3):
                self.run(number, i + number)

    def put(self, obj: Any) -> None:
        for scheduler in self.both:
            scheduler.put(obj)

    def node(self, number: int, variant: int) -> None:
        self.put(
            make_node(
                f"n{number:02}",
                cpu="3" if variant & 1 else "4",
                labels={"disk": "ssd" if variant & 2 else "hdd"},
                unschedulable=bool(variant & 4),
            )
        )

    def run(self, where: int, look: int) -> None:
        self.serial += 1
        fields: dict[str, Any] = {
            "cpu": ("1", "500m", "2")[look % 3],
            "priority": (0, 1, 20)[look // 3 % 3],
            "labels": {"app": APPS[look // 9 % 2]},
            "host_ports": [80] if look % 5 == 0 else [],
        }
        name = f"p{self.serial}"
        pod = started(bound(make_pod(name, **fields), f"n{where % NODES:02}"), (None, -50, -10, 5)[look % 4])
        self.running[name] = pod, fields
        self.put(pod)

    def step(self, action: str, a: int, b: int) -> None:
        match action:
            case "node":
                self.node(a % NODES, b % 8)
            case "no node":
                for scheduler in self.both:
                    scheduler.cluster.remove_node(f"n{a % NODES:02}")
            case "pod":
                self.run(a, b)
            case "no pod" if self.running:
                gone, _ = self.running.pop(sorted(self.running)[a % len(self.running)])
                for scheduler in self.both:
                    scheduler.cluster.remove_pod(gone.uid)
            case "start" if self.running:
                name = sorted(self.running)[a % len(self.running)]
                old, fields = self.running[name]
                pod = bound(make_pod(name, **fields), old.spec.node_name)
                pod = started(pod, (None, -100, -20, 0, 7)[b % 5])
                self.running[name] = pod, fields
                self.put(pod)
            case "budget":
                self.put(
                    make_object(
                        "PodDisruptionBudget",
                        f"pdb{a % 2}",
                        "default",
                        spec={"selector": {"matchLabels": {"app": APPS[a % 2]}}},
                        status={"disruptionsAllowed": b % 3},
                    )
                )
            case "promise":
                waiting = make_pod(f"promised{b % 4}", cpu="1", priority=(5, 10, 30)[b % 3])
                for scheduler in self.both:
                    scheduler.nominate(waiting, f"n{a % NODES:02}")
            case "no promise":
                for scheduler in self.both:
                    scheduler.nominations.withdraw(f"uid-default-promised{b % 4}")
            case "time":
                for scheduler in self.both:
                    scheduler.clock.advance(b % 5)
            case "want":
                self.serial += 1
                self.turn = a
                self.decide(make_pod(f"w{self.serial}", **WANTING[b % len(WANTING)]))
            case "want what was promised":  # its own promise does not count for it
                self.turn = a
                self.decide(make_pod(f"promised{b % 4}", cpu="1", priority=(5, 10, 30)[b % 3]))

    def decide(self, waiting: Pod) -> None:
        cached, plain = (scheduler.decide(waiting) for scheduler in self.both)
        assert summary(cached) == summary(plain)
        self.kept.append(cached)
        if cached.nominated_node:  # its victims go in later steps, or never
            for scheduler in self.both:
                scheduler.nominate(waiting, cached.nominated_node)


def summary(decision: ScheduleResult) -> dict[str, Any]:
    assert decision.statuses is not None
    return {
        "outcome": decision.outcome,
        "node": decision.node,
        "message": decision.message,
        "nominated": decision.nominated_node,
        "victims": [victim.uid for victim in decision.victims],
        "refusals": {status: sorted(rows.tolist()) for status, rows in decision.statuses.groups()},
        "plugins": decision.unschedulable_plugins,
    }


OTHERS = ["node", "pod", "no pod", "start", "budget", "promise", "no promise", "time", "no node"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["want"] * 9 + ["want what was promised"] + OTHERS),
        st.integers(0, 2**16),
        st.sampled_from([0, 0, 0, *range(40)]),
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=80)
@given(STEPS)
def test_preemption_is_the_same_with_and_without_caches(steps: list[tuple[str, int, int]]) -> None:
    both = TwoSchedulers()
    for action, a, b in steps:
        both.step(action, a, b)


def crowded() -> Scheduler:
    nodes = [make_node(f"n{i}", cpu="4") for i in range(20)]
    return Scheduler(*nodes, *(make_pod(f"p{i}-{k}", node=f"n{i}", cpu="1") for i in range(20) for k in range(4)))


def tried(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    rows: list[int] = []
    original = DryRun._try

    def note(self: DryRun, some: Any) -> None:
        rows.extend(np.sort(some).tolist())
        original(self, some)

    monkeypatch.setattr(DryRun, "_try", note)
    return rows


class TestWhatIsTriedAgain:
    """Otherwise the comparison above would compare nothing."""

    def test_the_third_pod_of_a_template_tries_only_nodes_that_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduler = crowded()
        kept = [scheduler.decide(make_pod(f"w{i}", cpu="3", priority=10)) for i in range(2)]
        rows = tried(scheduler, monkeypatch)
        kept.append(scheduler.decide(make_pod("w2", cpu="3", priority=10)))
        assert rows == [] and len(kept[-1].victims) == 3
        scheduler.nominate(make_pod("w2", cpu="3", priority=10), "n3")
        scheduler.cluster.remove_pod("uid-default-p7-0")
        kept.append(scheduler.decide(make_pod("w3", cpu="3", priority=10)))
        assert rows == [3, 7]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"priority": 11}, id="another priority"),
            pytest.param({"cpu": "2"}, id="another template"),
        ],
    )
    def test_a_different_pod_tries_all(self, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        scheduler = crowded()
        kept = [scheduler.decide(make_pod(f"w{i}", cpu="3", priority=10)) for i in range(2)]
        rows = tried(scheduler, monkeypatch)
        kept.append(scheduler.decide(make_pod("w2", **{"cpu": "3", "priority": 10, **change})))
        assert rows == list(range(20))

    def test_a_budget_makes_all_be_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduler = crowded()
        kept = [scheduler.decide(make_pod(f"w{i}", cpu="3", priority=10)) for i in range(2)]
        scheduler.put(make_object("PodDisruptionBudget", "pdb", "default", spec={"selector": {}}))
        rows = tried(scheduler, monkeypatch)
        kept.append(scheduler.decide(make_pod("w2", cpu="3", priority=10)))
        assert rows == list(range(20))

    def test_a_start_that_becomes_known_makes_its_node_be_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scheduler = crowded()
        kept = [scheduler.decide(make_pod(f"w{i}", cpu="3", priority=10)) for i in range(2)]
        rows = tried(scheduler, monkeypatch)
        scheduler.put(started(make_pod("p5-1", node="n5", cpu="1"), -9))
        kept.append(scheduler.decide(make_pod("w2", cpu="3", priority=10)))
        assert rows == [5]

    def test_a_start_that_is_still_to_come_is_looked_at_again(self) -> None:
        soon = started(make_pod("soon", node="n0", cpu="2"), 5)
        scheduler = Scheduler(make_node("n0", cpu="4"), soon, make_pod("fresh", node="n0", cpu="2"))
        kept = [scheduler.decide(make_pod(f"w{i}", cpu="2", priority=10)) for i in range(3)]
        assert [victim.pod.name for victim in kept[-1].victims] == ["soon"], (
            "it has not started, in a way, and is later"
        )
        scheduler.clock.advance(10)
        kept.append(scheduler.decide(make_pod("w3", cpu="2", priority=10)))
        assert [victim.pod.name for victim in kept[-1].victims] == ["fresh"]


class TestSearchesInVain:
    """On each node a pod of high priority takes 3 of 4 CPUs, and one of low priority the last."""

    def scheduler(self) -> Scheduler:
        nodes = [make_node(f"n{i}", cpu="4") for i in range(3)]
        high = [make_pod(f"high{i}", node=f"n{i}", cpu="3", priority=100) for i in range(3)]
        return Scheduler(*nodes, *high, *(make_pod(f"low{i}", node=f"n{i}", cpu="1") for i in range(3)))

    def wanting(self, scheduler: Scheduler, name: str) -> ScheduleResult:
        return scheduler.decide(make_pod(name, cpu="2", priority=10))

    @pytest.mark.parametrize(
        ("change", "is_searched"),
        [
            pytest.param(lambda scheduler: None, False, id="nothing changes"),
            pytest.param(lambda scheduler: scheduler.cluster.remove_pod("uid-default-low1"), True, id="a pod goes"),
            pytest.param(lambda scheduler: scheduler.put(make_node("n9", cpu="0")), True, id="a node comes"),
        ],
    )
    def test_a_search_is_made_again_once_something_has_changed(
        self, change: Callable[[Scheduler], None], is_searched: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scheduler = self.scheduler()
        kept = [self.wanting(scheduler, f"w{i}") for i in range(3)]
        searches: list[DryRun] = []
        original = DryRun.run

        def run(self: DryRun, *args: Any) -> Any:
            searches.append(self)
            return original(self, *args)

        monkeypatch.setattr(DryRun, "run", run)
        change(scheduler)
        kept.append(self.wanting(scheduler, "w3"))
        assert [decision.post_filter_message for decision in kept[:3]] == [kept[0].post_filter_message] * 3
        assert bool(searches) == is_searched

    def test_where_it_would_have_begun_is_drawn_all_the_same(self) -> None:
        scheduler = self.scheduler()
        drawn: list[int] = []

        def pick(n: int) -> int:
            drawn.append(n)
            return 0

        plugin(scheduler)._handle.pick = pick
        kept = [self.wanting(scheduler, f"w{i}") for i in range(4)]
        assert drawn == [3, 3, 3, 3] and len(kept) == 4


def test_a_victim_that_has_not_started_counts_as_starting_now_beside_one_that_starts_later() -> None:
    scheduler = Scheduler(
        make_node("a", cpu="4"),
        make_node("b", cpu="4"),
        started(make_pod("a1", node="a", cpu="2"), 5),
        make_pod("a2", node="a", cpu="2"),
        started(make_pod("b1", node="b", cpu="2"), 2),
        started(make_pod("b2", node="b", cpu="2"), 3),
    )
    kept = [scheduler.decide(make_pod(f"w{i}", cpu="4", priority=10)) for i in range(3)]
    assert [decision.nominated_node for decision in kept] == ["b", "b", "b"]


class TestEquallyFullNodes:
    """What one node was answered is taken for another only if it is promised the same."""

    def two(self, cpu: str, priority: int) -> Scheduler:
        nodes = [make_node(name, cpu="4") for name in ("a", "b")]
        return Scheduler(*nodes, *(make_pod(f"on-{n.name}", node=n.name, cpu=cpu, priority=priority) for n in nodes))

    def promise(self, scheduler: Scheduler, node: str, cpu: str) -> None:
        scheduler.nominate(make_pod(f"waits-for-{node}", cpu=cpu, priority=10), node)

    def decide(self, scheduler: Scheduler, times: int = 3) -> ScheduleResult:
        self.kept = [scheduler.decide(make_pod(f"w{i}", cpu="2", priority=10)) for i in range(times)]
        return self.kept[-1]

    def test_in_the_search(self) -> None:
        scheduler = self.two("1", priority=100)
        self.promise(scheduler, "a", "3")
        self.promise(scheduler, "b", "3")
        refused = self.decide(scheduler)
        assert refused.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        self.promise(scheduler, "b", "1")
        assert self.decide(scheduler, 1).node == "b"
        self.promise(scheduler, "b", "3")
        assert self.decide(scheduler, 1).message == refused.message, "as before, and with the same words"

    def test_in_a_dry_run(self) -> None:
        scheduler = self.two("4", priority=0)
        self.promise(scheduler, "a", "3")
        self.promise(scheduler, "b", "3")
        assert self.decide(scheduler).nominated_node == ""
        self.promise(scheduler, "b", "1")
        assert self.decide(scheduler, 1).nominated_node == "b"

    def test_others_on_the_node_may_go(self) -> None:
        scheduler = self.two("4", priority=0)
        scheduler.put(make_pod("on-a", node="a", cpu="4", priority=20))
        self.promise(scheduler, "a", "3")
        self.promise(scheduler, "b", "1")
        assert self.decide(scheduler).nominated_node == "b"
