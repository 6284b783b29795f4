"""The scheduling cycle: outcomes, texts, nominations and what pre-filters narrow down."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from mooring.core.engine.decision import Outcome
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.framework.status import SKIP, SUCCESS, Status
from mooring.testing import Scheduler, decide, make_node, make_pod

HOST = "kubernetes.io/hostname"
NO_LUCK = (
    "no new claims to deallocate, preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
)


class TestOutcomes:
    def test_no_nodes_at_all(self) -> None:
        decision = decide(make_pod())
        assert (decision.outcome, decision.reason) == (Outcome.UNSCHEDULABLE, "Unschedulable")
        assert decision.message == "no nodes available to schedule pods"
        assert decision.nominated_node == "", "cleared"
        assert decision.unschedulable_plugins == frozenset(), "trap 33: so that the queue retries it like an error"

    def test_one_feasible_node_is_taken_without_scores(self) -> None:
        decision = decide(make_pod(), make_node("a", unschedulable=True), make_node("b"))
        assert (decision.node, decision.scores, decision.feasible_nodes, decision.evaluated_nodes) == ("b", None, 1, 2)

    def test_several_feasible_nodes_are_scored(self) -> None:
        decision = decide(make_pod(cpu="1"), make_node("a", cpu="2"), make_node("b", cpu="8"))
        assert decision.node == "b" and decision.scores is not None
        assert decision.scores.names == ["a", "b"] and decision.message == "" and decision.reason == ""

    def test_trap_7_taint_toleration_gives_every_node_300_and_skipped_plugins_nothing(self) -> None:
        decision = decide(make_pod(), make_node("a"), make_node("b"))
        assert decision.scores is not None
        for scores in decision.scores.to_dict().values():
            assert scores["TaintToleration"] == 300
            assert "NodeAffinity" not in scores and "PodTopologySpread" not in scores
            assert "NodeResourcesBalancedAllocation" not in scores, "best effort: skipped"

    def test_traps_17_and_18_the_refusal_is_a_histogram_sorted_as_text(self) -> None:
        nodes = [make_node(f"big{i}", taints=["a:NoSchedule"]) for i in range(10)]
        nodes += [make_node(f"small{i}", cpu="1") for i in range(2)]
        message = decide(make_pod(cpu="2"), *nodes).message
        assert message == (
            "0/12 nodes are available: 10 node(s) had untolerated taint(s), 2 Insufficient cpu. " + NO_LUCK.format(n=12)
        )

    def test_a_node_carries_the_reasons_of_the_first_plugin_that_refuses(self) -> None:
        decision = decide(make_pod(cpu="9"), make_node("a", unschedulable=True, taints=["a:NoSchedule"]))
        assert decision.message.startswith("0/1 nodes are available: 1 node(s) were unschedulable.")
        assert decision.unschedulable_plugins == {"NodeUnschedulable"}

    def test_all_reasons_of_that_plugin_count(self) -> None:
        decision = decide(make_pod(cpu="9", memory="1Ti"), make_node("a", pods=0))
        assert decision.message.startswith(
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods."
        )

    def test_deciding_changes_nothing(self) -> None:
        scheduler = Scheduler(make_node("a"), make_node("b"))
        first = scheduler.decide(make_pod(cpu="1"))
        second = scheduler.decide(make_pod(cpu="1"))
        assert first.node == second.node and not scheduler.cluster.pods()

    def test_a_decision_is_a_value_that_later_changes_do_not_touch(self) -> None:
        scheduler = Scheduler(*(make_node(f"n{i}", cpu="2") for i in range(6)))
        pods = [make_pod(f"p{i}", cpu="1500m") for i in range(3)]
        decisions = [scheduler.place(pod) for pod in pods]
        refused = scheduler.decide(make_pod("big", cpu="3"))
        before = [(d.scores.to_dict(), d.scores.totals_dict()) for d in decisions if d.scores is not None]
        scheduler.put(make_node("new", zone="z"), make_node("n0", cpu="64"))
        scheduler.cluster.remove_node("n3")
        for i in range(20):
            scheduler.place(make_pod(f"late{i}", cpu="100m"))
        assert [(d.scores.to_dict(), d.scores.totals_dict()) for d in decisions if d.scores is not None] == before
        assert refused.message.startswith("0/6 nodes are available: 6 Insufficient cpu.")

    def test_two_runs_of_one_history_are_alike(self) -> None:
        def run() -> list[Any]:
            scheduler = Scheduler(*(make_node(f"n{i}", zone=f"z{i % 3}") for i in range(7)))
            made = [scheduler.place(make_pod(f"p{i}", cpu="300m", labels={"app": "x"})) for i in range(30)]
            return [(d.node, d.message, d.scores and d.scores.totals_dict()) for d in made]

        assert run() == run()


class TestPreFilter:
    """Spec 1.3: skips, refusals, and sets of node names."""

    @staticmethod
    def plugin(name: str, answer: Any) -> type:
        body = {
            "name": name,
            "calls": [],
            "__init__": lambda self, args, handle: None,
            "pre_filter": lambda self, state, pod, nodes: self.calls.append(name) or answer,
        }
        return type(name, (), body)

    def ask(self, *plugins: type, pod: Any = None) -> Any:
        config = {
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {
                        "preFilter": {"enabled": [{"name": plugin.__name__} for plugin in plugins]},
                        "filter": {"disabled": [{"name": "*"}]},
                    },
                }
            ]
        }
        nodes = [make_node(name) for name in "abc"]
        return Scheduler(*nodes, config=config, plugins=plugins).decide(pod or make_pod())

    def only(self, *names: str) -> PreFilterResult:
        return PreFilterResult(frozenset(names))

    def test_one_plugin_narrows(self) -> None:
        decision = self.ask(self.plugin("X", self.only("b", "gone")))
        assert (decision.node, decision.evaluated_nodes) == ("b", 1)

    def test_sets_are_intersected(self) -> None:
        decision = self.ask(self.plugin("X", self.only("a", "b")), self.plugin("Y", self.only("b", "c")))
        assert decision.node == "b"

    def test_nothing_in_common(self) -> None:
        decision = self.ask(self.plugin("Y", self.only("a")), self.plugin("X", self.only("b")))
        assert decision.pre_filter_message == "node(s) didn't satisfy plugin(s) [X Y] simultaneously"
        assert decision.message == f"0/3 nodes are available: {decision.pre_filter_message}. " + NO_LUCK.format(n=3)
        assert decision.unschedulable_plugins == {"X", "Y"}

    def test_an_empty_set_of_one_plugin(self) -> None:
        decision = self.ask(self.plugin("X", self.only()))
        assert decision.pre_filter_message == "node(s) didn't satisfy plugin X"
        assert decision.unschedulable_plugins == {"X"}

    def test_the_other_nodes_get_a_reason_of_their_own(self) -> None:
        nodes = [make_node("a", cpu="1"), make_node("b"), make_node("c")]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        decision = decide(make_pod(cpu="2", spec={"affinity": {"nodeAffinity": required}}), *nodes)
        assert decision.message == (
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            + NO_LUCK.format(n=3)
        )
        assert decision.evaluated_nodes == 1

    def test_names_that_are_no_nodes(self) -> None:
        decision = self.ask(self.plugin("X", self.only("gone")))
        assert decision.message.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [X].")

    def test_trap_21_unschedulable_lets_the_others_speak_and_unresolvable_does_not(self) -> None:
        no, never = Status.unschedulable("no"), Status.unresolvable("never")
        last = self.plugin("Z", SUCCESS)
        assert self.ask(self.plugin("X", no), last).pre_filter_message == "no"
        assert last.calls == ["Z"]  # type: ignore[attr-defined]
        silent = self.plugin("Z", SUCCESS)
        decision = self.ask(self.plugin("X", never), silent)
        assert decision.pre_filter_message == "never" and silent.calls == []  # type: ignore[attr-defined]
        assert decision.unschedulable_plugins == {"X"}
        assert decision.message == "0/3 nodes are available: never. " + NO_LUCK.format(n=3)

    def test_the_last_of_several_refusals_counts(self) -> None:
        decision = self.ask(self.plugin("X", Status.unschedulable("x")), self.plugin("Y", Status.unschedulable("y")))
        assert decision.pre_filter_message == "y" and decision.unschedulable_plugins == {"Y"}

    def test_skip_is_no_refusal(self) -> None:
        assert self.ask(self.plugin("X", SKIP)).outcome is Outcome.SCHEDULED


class TestNominated:
    """Spec 1.4 and 1.6."""

    def promised(self, pod: Any, node: str) -> Any:
        pod.status.nominated_node_name = node
        return pod

    def test_a_promised_node_is_taken_without_a_search(self) -> None:
        decision = decide(self.promised(make_pod(), "b"), make_node("a", cpu="64"), make_node("b"))
        assert (decision.node, decision.evaluated_nodes, decision.scores) == ("b", 1, None)

    @pytest.mark.parametrize("node", ["gone", "full"])
    def test_a_promise_that_cannot_be_kept_is_forgotten(self, node: str) -> None:
        nodes = [make_node("a"), make_node("full", cpu="1")]
        decision = decide(self.promised(make_pod(cpu="2"), node), *nodes)
        assert decision.node == "a" and decision.evaluated_nodes == 2

    def test_a_promised_node_that_the_search_leaves_out_keeps_its_own_reason(self) -> None:
        field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
        nodes = [make_node("a"), make_node("b", unschedulable=True), make_node("c")]
        decision = decide(self.promised(make_pod(spec=spec), "b"), *nodes)
        assert decision.message.startswith(
            "0/3 nodes are available: 1 node(s) were unschedulable, "
            "2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]."
        ), "and the plugin that rejected it is listed with those that narrowed the search down"

    @pytest.mark.parametrize(
        ("priority", "fits"),
        [
            pytest.param(10, False, id="a more important pod's promise counts"),
            pytest.param(5, False, id="trap 29: an equally important one's, too"),
            pytest.param(4, True, id="a less important one's does not"),
        ],
    )
    def test_promises_to_others(self, priority: int, fits: bool) -> None:
        scheduler = Scheduler(make_node("a", cpu="2"))
        scheduler.nominate(make_pod("other", cpu="1500m", priority=priority), "a")
        decision = scheduler.decide(make_pod(cpu="1", priority=5))
        assert (decision.outcome is Outcome.SCHEDULED) is fits
        if not fits:
            assert "1 Insufficient cpu" in decision.message
            assert decision.unschedulable_plugins == {"NodeResourcesFit"}

    def test_a_pods_own_promise_does_not_block_it(self) -> None:
        scheduler = Scheduler(make_node("a", cpu="2"))
        pod = make_pod(cpu="2")
        scheduler.nominate(pod, "a")
        assert scheduler.decide(pod).node == "a"

    def test_it_must_fit_with_and_without_them(self) -> None:
        """A friend that is only promised does not make a node good: both passes must succeed."""
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "friend"}}}
        pod = make_pod(
            spec={"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}, priority=0
        )
        scheduler = Scheduler(make_node("a"))
        scheduler.nominate(make_pod("friend", labels={"app": "friend"}, priority=5), "a")
        assert "1 node(s) didn't match pod affinity rules" in scheduler.decide(pod).message
        scheduler.put(make_pod("real", labels={"app": "friend"}, node="a"))
        assert scheduler.decide(pod).node == "a"

    def test_promised_ports_are_taken(self) -> None:
        scheduler = Scheduler(make_node("a"))
        scheduler.nominate(make_pod("other", host_ports=[80], priority=5), "a")
        message = scheduler.decide(make_pod(host_ports=[80])).message
        assert "1 node(s) didn't have free ports for the requested pod ports" in message

    def test_promises_spread_domains(self) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        pod = make_pod(labels={"app": "x"}, spec={"topologySpreadConstraints": [constraint]})
        scheduler = Scheduler(make_node("a"), make_node("b"))
        scheduler.nominate(make_pod("other", labels={"app": "x"}, priority=5), "a")
        assert scheduler.decide(pod).node == "b"


class TestProfiles:
    def test_several_profiles_side_by_side(self) -> None:
        config = {
            "profiles": [
                {"schedulerName": "default-scheduler"},
                {"schedulerName": "blind", "plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}},
            ]
        }
        scheduler = Scheduler(make_node("a", taints=["x:NoSchedule"]), config=config)
        assert scheduler.decide(make_pod()).outcome is Outcome.UNSCHEDULABLE
        assert scheduler.decide(make_pod(spec={"schedulerName": "blind"})).node == "a"

    def test_trap_51_weight_0_is_1_and_a_disabled_score_keeps_the_filter(self) -> None:
        config = {
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {
                        "score": {
                            "disabled": [{"name": "*"}],
                            "enabled": [
                                {"name": "ImageLocality", "weight": 0},
                                {"name": "NodeResourcesFit", "weight": 3},
                            ],
                        }
                    },
                }
            ]
        }
        scheduler = Scheduler(make_node("a"), make_node("b"), make_node("c", taints=["x:NoSchedule"]), config=config)
        decision = scheduler.decide(make_pod(cpu="1"))
        assert decision.scores is not None and set(decision.scores.names) == {"a", "b"}
        assert {name for s in decision.scores.to_dict().values() for name in s} == {"ImageLocality", "NodeResourcesFit"}
        assert decision.scores.to_dict()["a"]["NodeResourcesFit"] % 3 == 0

    def test_without_score_plugins_the_first_node_that_fits_is_taken(self) -> None:
        config = {
            "profiles": [
                {"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
            ]
        }
        scheduler = Scheduler(*(make_node(name) for name in "abc"), config=config)
        assert [scheduler.decide(make_pod(f"p{i}")).node for i in range(4)] == ["a", "b", "c", "a"]


class Recorder:
    """Notes what it is shown, and lets everything pass."""

    name: ClassVar[str] = "Recorder"
    seen: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def post_filter(self, state: Any, pod: Any, nodes: Any, statuses: Any) -> Any:
        raise AssertionError("not called in this test")


def test_post_filter_is_not_asked_when_there_are_no_nodes() -> None:
    config = {
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": {"postFilter": {"enabled": [{"name": "Recorder"}]}}}
        ]
    }
    scheduler = Scheduler(config=config, plugins=[Recorder])
    assert scheduler.decide(make_pod()).message == "no nodes available to schedule pods"
