"""Preemption: DefaultPreemption and the engine's evaluator (spec 2.16)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.times import format_time
from mooring.core.config.types import DefaultPreemptionArgs
from mooring.core.engine import dry_run
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.victims import Candidate, pick_one_node
from mooring.core.framework.status import Code
from mooring.core.plugins.default_preemption import DefaultPreemption
from mooring.testing import NOON, Scheduler, make_cluster, make_handle, make_node, make_object, make_pod

PREFIX = "no new claims to deallocate, preemption: "


def low(name: str, node: str = "a", priority: int = 0, cpu: str = "1", start: float = 0, **more: Any) -> Any:
    status = {"startTime": format_time(NOON - 1000 + start), **more.pop("status", {})}
    return make_pod(name, node=node, priority=priority, cpu=cpu, status=status, **more)


def high(cpu: str = "1", priority: int = 100, **more: Any) -> Any:
    return make_pod("high", cpu=cpu, priority=priority, **more)


def budget(allowed: int, selector: Any = None, **status: Any) -> Any:
    chosen = {"matchLabels": {"app": "x"}} if selector is None else selector
    return make_object(
        "PodDisruptionBudget",
        "pdb",
        "default",
        spec={"selector": chosen},
        status={"disruptionsAllowed": allowed, **status},
    )


def victims(decision: ScheduleResult) -> list[str]:
    return [victim.pod.name for victim in decision.victims]


def node(name: str = "a", cpu: int = 4) -> Any:
    return make_node(name, cpu=cpu)


class TestVictims:
    @pytest.mark.parametrize(
        ("running", "cpu", "wanted"),
        [
            pytest.param([low("p", cpu="4")], "1", ["p"], id="the only one"),
            pytest.param(
                [low("p", cpu="2"), low("q", cpu="2")], "1", ["q"], id="as few as possible: reprieve in order"
            ),
            pytest.param(
                [low("p", priority=1, cpu="2"), low("q", priority=5, cpu="2")],
                "1",
                ["p"],
                id="the more important is reprieved first",
            ),
            pytest.param(
                [low("p", cpu="2", start=9), low("q", cpu="2", start=1)],
                "1",
                ["p"],
                id="of equals the one that started earlier is reprieved first",
            ),
            pytest.param([low("p", cpu="2"), low("q", cpu="2")], "3", ["p", "q"], id="both are needed"),
            pytest.param([low("p", cpu="3"), low("q", cpu="1")], "3", ["p"], id="a small one can stay"),
            pytest.param(
                [low("p", priority=100, cpu="4"), low("q", priority=99, cpu=0)], "1", [], id="equals cannot be evicted"
            ),
        ],
    )
    def test_on_one_node(self, running: list[Any], cpu: str, wanted: list[str]) -> None:
        decision = Scheduler(node(), *running).decide(high(cpu))
        assert sorted(victims(decision)) == wanted
        assert decision.nominated_node == ("a" if wanted else "")

    @pytest.mark.parametrize(
        ("running", "wanted"),
        [
            pytest.param([("p", None), ("q", None)], ["p"], id="the first of two that have not started"),
            pytest.param([("p", None), ("q", 0), ("r", None)], ["p"], id="one that has started is reprieved first"),
            pytest.param([("p", 5), ("q", 5)], ["q"], id="the last of two that started together"),
        ],
    )
    def test_pods_that_have_not_started(self, running: list[tuple[str, float | None]], wanted: list[str]) -> None:
        """Asked for the time again and again, upstream finds each of them older than the next."""
        size = f"{4000 // len(running)}m"
        pods = [
            make_pod(name, node="a", priority=0, cpu=size) if start is None else low(name, cpu=size, start=start)
            for name, start in running
        ]
        assert victims(Scheduler(node(), *pods).decide(high("1"))) == wanted

    def test_trap_45_the_pod_is_still_refused_and_the_tail_is_empty(self) -> None:
        decision = Scheduler(node(), low("p", cpu="4")).decide(high())
        assert decision.outcome is Outcome.UNSCHEDULABLE and decision.node is None
        assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."
        assert decision.nominated_node == "a"

    def test_ports_and_affinity_can_be_what_is_in_the_way(self) -> None:
        scheduler = Scheduler(node(), make_pod("p", node="a", host_ports=[80]), make_pod("q", node="a"))
        assert victims(scheduler.decide(make_pod("new", priority=5, host_ports=[80]))) == ["p"]
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
        anti = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        scheduler.put(make_pod("x", node="a", labels={"app": "x"}))
        assert victims(scheduler.decide(make_pod("new", priority=5, spec=anti))) == ["x"]

    def test_spread_that_is_relieved_by_eviction(self) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        scheduler = Scheduler(
            node("a"),
            make_node("b", unschedulable=True),
            *(make_pod(f"x{i}", node="a", labels={"app": "x"}) for i in "12"),
        )
        pod = make_pod("new", priority=5, labels={"app": "x"}, spec={"topologySpreadConstraints": [constraint]})
        assert len(victims(scheduler.decide(pod))) == 2, "skew 1 on top of an empty cordoned node: both must go"


class TestTexts:
    def message(self, *objects: Any, pod: Any = None) -> str:
        return Scheduler(*objects).decide(pod or high("3")).post_filter_message

    def test_no_pod_of_lower_priority(self) -> None:
        text = self.message(node(), low("p", priority=100, cpu="4"))
        assert text == PREFIX + "0/1 nodes are available: 1 No preemption victims found for incoming pod."

    def test_evicting_would_not_help(self) -> None:
        text = self.message(node(), node("b", cpu=2), low("p", priority=100, cpu="4"))
        assert text == PREFIX + (
            "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling."
        )

    def test_evicting_everybody_is_not_enough(self) -> None:
        text = self.message(node(), low("p", priority=100, cpu="2"), low("q", cpu="2"))
        assert text == PREFIX + "0/1 nodes are available: 1 Insufficient cpu."

    def test_never(self) -> None:
        decision = Scheduler(node(), low("p", cpu="4")).decide(high(spec={"preemptionPolicy": "Never"}))
        assert decision.post_filter_message == PREFIX + "not eligible due to preemptionPolicy=Never."
        assert decision.nominated_node is None, "the nomination stays as it is"

    def test_waiting_for_victims_that_are_on_their_way(self) -> None:
        conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
        going = low(
            "p", cpu="4", status={"conditions": conditions}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}
        )
        decision = Scheduler(node(), going).decide(high(status={"nominatedNodeName": "a"}))
        assert decision.post_filter_message == PREFIX + "not eligible due to a terminating pod on the nominated node."
        assert decision.nominated_node is None

    def test_a_pod_that_goes_for_another_reason_is_no_obstacle(self) -> None:
        going = low("p", cpu="4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        decision = Scheduler(node(), going).decide(high(status={"nominatedNodeName": "a"}))
        assert victims(decision) == ["p"]

    def test_a_nominated_node_that_became_impossible_is_given_up(self) -> None:
        conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
        going = low(
            "p", cpu="4", status={"conditions": conditions}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}
        )
        scheduler = Scheduler(make_node("a", unschedulable=True), going, node("b"), low("q", node="b", cpu="4"))
        decision = scheduler.decide(high(status={"nominatedNodeName": "a"}))
        assert decision.nominated_node == "b"


class TestBudgets:
    def two(self, *budgets: Any, **labels: Any) -> list[str]:
        pods = [low(n, cpu="2", labels={"app": "x"}, start=i) for i, n in enumerate("pq")]
        return sorted(victims(Scheduler(node(), *pods, *budgets).decide(high())))

    def test_without_budgets_the_later_one_goes(self) -> None:
        assert self.two() == ["q"]

    def test_trap_43_running_budgets_and_reprieve_of_violating_pods_first(self) -> None:
        """One disruption is allowed: p uses it up, so that evicting q would break the budget; q is reprieved first."""
        assert self.two(budget(1)) == ["p"]

    def test_a_broken_budget_is_better_than_nothing(self) -> None:
        assert self.two(budget(0)) == ["q"]

    @pytest.mark.parametrize(
        "protecting",
        [
            pytest.param(budget(1, selector={}), id="an empty selector protects no pod"),
            pytest.param(budget(1, selector={"matchLabels": {"app": "y"}}), id="one that means others"),
            pytest.param(
                budget(1, selector={"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}), id="nonsense"
            ),
            pytest.param(
                budget(1, disruptedPods={"p": "2026-01-01T00:00:00Z", "q": "2026-01-01T00:00:00Z"}),
                id="pods that are already disrupted",
            ),
        ],
    )
    def test_budgets_that_do_not_protect(self, protecting: Any) -> None:
        assert self.two(protecting) == ["q"]

    def test_a_node_without_violations_is_preferred(self) -> None:
        scheduler = Scheduler(
            node("a"),
            node("b"),
            low("p", "a", cpu="4", labels={"app": "x"}),
            low("q", "b", priority=50, cpu="4"),
            budget(0),
        )
        assert scheduler.decide(high()).nominated_node == "b"


class TestChoice:
    """The ranked tie-breaks, one at a time."""

    @pytest.mark.parametrize(
        ("running", "chosen"),
        [
            pytest.param([low("p", "a", 5, "4"), low("q", "b", 3, "4")], "b", id="the less important first victim"),
            pytest.param(
                [low("p", "a", 5, "2"), low("p2", "a", 4, "2"), low("q", "b", 5, "2"), low("q2", "b", 1, "2")],
                "b",
                id="the smaller sum of priorities",
            ),
            pytest.param(
                [low("p", "a", 5, "2"), low("p2", "a", -(2**31), "2"), low("q", "b", 5, "4")], "b", id="fewer victims"
            ),
            pytest.param(
                [low("p", "a", 5, "4", start=1), low("q", "b", 5, "4", start=2)],
                "b",
                id="trap 44: the latest earliest start",
            ),
            pytest.param([low("p", "a", 5, "4"), low("q", "b", 5, "4")], "a", id="all equal: the first"),
        ],
    )
    def test_least_harm(self, running: list[Any], chosen: str) -> None:
        assert Scheduler(node("a"), node("b"), *running).decide(high("4")).nominated_node == chosen

    def test_pods_without_a_start_count_as_started_now(self) -> None:
        cluster = make_cluster(node())
        started, fresh = (cluster.info(pod) for pod in (low("p", start=999), make_pod("q", priority=0)))
        best = pick_one_node([Candidate("a", [started], 0), Candidate("b", [fresh], 0)], NOON)
        assert best.node == "b"


def test_trap_42_the_search_stops_when_there_are_enough_candidates() -> None:
    config = {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {
                        "name": "DefaultPreemption",
                        "args": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1},
                    }
                ],
            }
        ]
    }
    objects = [node("a"), node("b"), low("p", "a", 5, "4"), low("q", "b", 3, "4")]
    assert Scheduler(*objects).decide(high()).nominated_node == "b"
    assert Scheduler(*objects, config=config).decide(high()).nominated_node == "a", "the first will do"


def test_the_gate_is_closed_while_victims_go() -> None:
    class Running:
        def is_running(self, uid: str) -> bool:
            return uid == "uid-default-high"

    plugin = DefaultPreemption(DefaultPreemptionArgs(), make_handle(make_cluster(), preemptions=Running()))
    held = plugin.pre_enqueue(high())
    assert held.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert held.message == "waiting for the preemption for this pod to be finished"
    assert plugin.pre_enqueue(make_pod("other")).is_success


# ---- many nodes at once --------------------------------------------------------------------------------------------

PODS = st.lists(
    st.tuples(
        st.integers(0, 7),  # node
        st.sampled_from([0, 1, 2, 50]),  # priority
        st.sampled_from(["500m", "1", "2"]),
        st.sampled_from([[], [80]]),
        st.sampled_from(["x", "y"]),
        st.integers(0, 3),  # start
    ),
    max_size=24,
)
PREEMPTORS: list[dict[str, Any]] = [
    {"cpu": "2"},
    {"cpu": "3500m", "host_ports": [80]},
    {"host_ports": [80]},
    {"cpu": "1", "memory": "7Gi"},
]


def crowded(pods: list[Any], allowed: int | None, promised: int) -> Scheduler:
    scheduler = Scheduler(*(node(f"n{i}") for i in range(8)), *([] if allowed is None else [budget(allowed)]))
    for i, (where, priority, cpu, ports, app, start) in enumerate(pods):
        scheduler.put(low(f"p{i}", f"n{where}", priority, cpu, start, host_ports=ports, labels={"app": app}))
    for i in range(promised):
        scheduler.nominate(make_pod(f"promised{i}", cpu="1", priority=20), f"n{i}")
    return scheduler


@settings(max_examples=60)
@given(PODS, st.sampled_from([None, 0, 1, 3]), st.integers(0, 3), st.sampled_from(PREEMPTORS), st.sampled_from([1, 10]))
def test_trying_many_nodes_together_equals_one_at_a_time(
    pods: list[Any], allowed: int | None, promised: int, pod: dict[str, Any], priority: int
) -> None:
    found = []
    for chunk in (512, 3, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dry_run, "CHUNK", chunk)
            decision = crowded(pods, allowed, promised).decide(make_pod("new", priority=priority, **pod))
        found.append((decision.node, decision.message, decision.nominated_node, victims(decision)))
    assert found[0] == found[1] == found[2]


@settings(max_examples=40)
@given(PODS, st.sampled_from(PREEMPTORS))
def test_once_its_victims_are_gone_the_pod_fits_and_no_victim_could_have_stayed(
    pods: list[Any], pod: dict[str, Any]
) -> None:
    scheduler = crowded(pods, None, 0)
    new = make_pod("new", priority=10, **pod)
    decision = scheduler.decide(new)
    if not decision.victims:
        return
    for victim in decision.victims:
        scheduler.cluster.remove_pod(victim.uid)
    again = make_pod("new", priority=10, status={"nominatedNodeName": decision.nominated_node}, **pod)
    assert scheduler.decide(again).node == decision.nominated_node
    for victim in decision.victims:
        scheduler.put(victim.pod)
        assert scheduler.decide(again).node != decision.nominated_node, f"{victim.pod.name} could have stayed"
        scheduler.cluster.remove_pod(victim.uid)
