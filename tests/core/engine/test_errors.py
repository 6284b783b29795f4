"""A plugin that breaks fails one pod's attempt, at every point; the engine continues."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pytest

from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SUCCESS, Code, PostFilterResult, Status, Verdict
from mooring.testing import Scheduler, make_node, make_pod


class Moody:
    """Succeeds at everything, except where ``fails_at`` says; then it raises, or answers with ``answer``."""

    name: ClassVar[str] = "Moody"
    fails_at: ClassVar[str] = ""
    answer: ClassVar[Status | None] = None

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def _at(self, point: str) -> Status:
        if point == self.fails_at:
            if self.answer is not None:
                return self.answer
            raise RuntimeError("no mood for this")
        return SUCCESS

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        return self._at("pre_filter")

    def add_pod(self, state: Any, pod: Any, added: Any, node: Any) -> Status:
        return self._at("add_pod")

    def remove_pod(self, state: Any, pod: Any, removed: Any, node: Any) -> Status:
        return self._at("remove_pod")

    def filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        status = self._at("filter")
        return None if status.is_success else Verdict.where(np.ones(len(nodes), np.bool_), status)

    def post_filter(self, state: Any, pod: Any, nodes: Any, statuses: Any) -> PostFilterResult:
        status = self._at("post_filter")
        return PostFilterResult(Status.unschedulable("moody") if status.is_success else status)

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status:
        return self._at("pre_score")

    def score(self, state: Any, pod: Any, nodes: Any) -> Any:
        self._at("score")
        return np.full(len(nodes), 7, np.int64)

    def normalize(self, state: Any, pod: Any, scores: Any, nodes: Any) -> Any:
        self._at("normalize")
        return scores


CONFIG = {
    "profiles": [
        {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Moody"}]}}},
        {"schedulerName": "plain"},
    ]
}


def scheduler(fails_at: str = "", answer: Status | None = None, reads: Reads = Reads.CLUSTER) -> Scheduler:
    fields = {"fails_at": fails_at, "answer": answer, "traits": Traits(filter_reads=reads, score_reads=reads)}
    moody = type("Moody", (Moody,), fields)
    found = Scheduler(make_node("a"), make_node("b"), config=CONFIG, plugins=[moody])
    found.put(make_pod("low", node="a", cpu="3", priority=-5))
    return found


def plain(name: str = "other", **more: Any) -> Any:
    return make_pod(name, spec={"schedulerName": "plain"}, **more)


READS = pytest.mark.parametrize("reads", list(Reads), ids=lambda reads: f"reads {reads.name}")


def told(decision: ScheduleResult) -> str:
    """The message without the place where a plugin raised something."""
    return re.sub(r" \(test_errors\.py:\d+\)$", "", decision.message)


@READS
@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("pre_filter", 'running PreFilter plugin "Moody": RuntimeError: no mood for this'),
        ("filter", 'running "Moody" filter plugin: RuntimeError: no mood for this'),
        ("pre_score", 'running PreScore plugin "Moody": RuntimeError: no mood for this'),
        ("score", 'running Score plugin "Moody": RuntimeError: no mood for this'),
        ("normalize", 'running NormalizeScore plugin "Moody": RuntimeError: no mood for this'),
    ],
)
def test_what_a_plugin_raises_is_this_pods_error(point: str, message: str, reads: Reads) -> None:
    on = scheduler(point, reads=reads)
    for attempt in range(3):  # the second and third time caches take part
        decision = on.decide(make_pod(f"p{attempt}", cpu="100m"))
        assert (decision.outcome, decision.reason, told(decision)) == (Outcome.ERROR, "SchedulerError", message)
        assert decision.node is None and decision.nominated_node == "", "an error clears the nomination"
        assert on.decide(plain()).outcome is Outcome.SCHEDULED, "the engine continues"


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("post_filter", 'running PostFilter plugin "Moody": RuntimeError: no mood for this'),
        ("remove_pod", 'running RemovePod on PreFilter plugin "Moody": RuntimeError: no mood for this'),
    ],
)
def test_what_is_raised_while_making_room(point: str, message: str) -> None:
    on = scheduler(point)
    decision = on.decide(make_pod("big", cpu="9"))
    if point == "remove_pod":  # preemption has to try: ask for what only eviction gives
        decision = on.decide(
            make_pod("big", cpu="2", priority=5, spec={"nodeSelector": {"kubernetes.io/hostname": "a"}})
        )
    assert decision.outcome is Outcome.ERROR and told(decision) == message
    assert on.decide(plain()).outcome is Outcome.SCHEDULED


def test_what_is_raised_about_a_nominated_pod() -> None:
    on = scheduler("add_pod")
    on.nominate(make_pod("promised", priority=10), "a")
    decision = on.decide(make_pod("p"))
    assert told(decision) == 'running AddPod on PreFilter plugin "Moody": RuntimeError: no mood for this'
    assert decision.outcome is Outcome.ERROR


@READS
@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("pre_filter", 'running PreFilter plugin "Moody": broken'),
        ("filter", 'running "Moody" filter plugin: broken'),
        ("pre_score", 'running PreScore plugin "Moody": broken'),
    ],
)
def test_an_error_status_fails_the_attempt_without_post_filter(point: str, message: str, reads: Reads) -> None:
    decision = scheduler(point, Status.error("broken"), reads).decide(make_pod("p"))
    assert (decision.reason, decision.message) == ("SchedulerError", message)
    assert not decision.post_filter_message and not decision.is_fit_error


def test_trap_2_with_one_feasible_node_score_plugins_cannot_fail() -> None:
    on = scheduler("score")
    decision = on.decide(make_pod("p", spec={"nodeSelector": {"kubernetes.io/hostname": "b"}}))
    assert (decision.outcome, decision.node, decision.scores) == (Outcome.SCHEDULED, "b", None)


def test_a_bad_quantity_makes_that_pod_an_error() -> None:
    on = scheduler()
    decision = on.decide(make_pod("p", cpu="lots"))
    assert decision.reason == "SchedulerError" and decision.message.startswith("spec.containers[0].resources")
    assert on.decide(make_pod("q")).outcome is Outcome.SCHEDULED


def broken_terms(name: str, **more: Any) -> Any:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return make_pod(name, spec={"affinity": {"podAntiAffinity": required}}, **more)


def friend(name: str, **more: Any) -> Any:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "none"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return make_pod(name, spec={"affinity": {"podAntiAffinity": required}}, **more)


def test_an_unreadable_selector_makes_the_pod_wait() -> None:
    decision = Scheduler(make_node("a")).decide(broken_terms("p"))
    assert decision.reason == "Unschedulable"
    assert decision.message.startswith('0/1 nodes are available: parsing pod: "Nonsense" is not a valid label selector')


def test_an_invalid_selector_of_another_pod_has_no_effect() -> None:
    on = Scheduler(make_node("a"), broken_terms("running", node="a", cpu="4", priority=-1))
    on.nominate(broken_terms("promised", priority=100), "a")
    assert on.decide(friend("p")).outcome is Outcome.SCHEDULED
    preempting = on.decide(friend("q", cpu="1", priority=5))
    assert preempting.nominated_node == "a" and [v.pod.name for v in preempting.victims] == ["running"]


class Loud(Moody):
    """A filter on columns that cannot be asked when no node is left."""

    def filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        raise RuntimeError("asked about nodes that are out of the running")


@pytest.mark.parametrize("uses_cache", [True, False], ids=["with caches", "without caches"])
def test_a_filter_is_not_asked_when_no_node_is_left(uses_cache: bool) -> None:
    on = Scheduler(make_node("a", unschedulable=True), config=CONFIG, plugins=[Loud], uses_cache=uses_cache)
    decisions = [on.decide(make_pod(f"p{i}")) for i in range(3)]
    assert all("1 node(s) were unschedulable" in decision.message for decision in decisions)


class OutOfRange(Moody):
    value: ClassVar[int] = 101

    def score(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.full(len(nodes), self.value, np.int64)


@READS
@pytest.mark.parametrize("value", [101, -1])
def test_scores_must_be_in_range(value: int, reads: Reads) -> None:
    plugin = type("OutOfRange", (OutOfRange,), {"value": value, "traits": Traits(score_reads=reads)})
    on = Scheduler(make_node("a"), make_node("b"), config=CONFIG, plugins=[plugin])
    for i in range(3):
        decision = on.decide(make_pod(f"p{i}"))
        assert decision.reason == "SchedulerError"
        assert decision.message == (
            f'applying score defaultWeights on Score plugins: plugin "Moody" returns an invalid score {value}, '
            "it should in the range of [0, 100] after normalizing"
        )


def refusing(*answers: tuple[str, PostFilterResult]) -> ScheduleResult:
    """Ask several PostFilter plugins about a pod that fits nowhere."""
    plugins = [
        type(name, (), {"name": name, "__init__": lambda self, args, handle: None,
                        "post_filter": lambda self, *_, result=result: result})
        for name, result in answers
    ]  # fmt: skip
    config = {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "postFilter": {
                        "disabled": [{"name": "*"}],
                        "enabled": [{"name": plugin.__name__} for plugin in plugins],
                    }
                },
            }
        ]
    }
    return Scheduler(make_node("a"), config=config, plugins=plugins).decide(make_pod(cpu="9"))


NO, NEVER, BROKEN = Status.unschedulable, Status.unresolvable, Status.error


@pytest.mark.parametrize(
    ("answers", "message", "nominated"),
    [
        pytest.param([("A", PostFilterResult(NO("x"))), ("B", PostFilterResult(NO("y")))], " x, y", None,
                     id="reasons are collected"),
        pytest.param([("A", PostFilterResult(SUCCESS, "a")), ("B", PostFilterResult(NO("y")))], "", "a",
                     id="success ends the round and says nothing"),
        pytest.param([("A", PostFilterResult(NO("x"))), ("B", PostFilterResult(SUCCESS, "a"))], "", "a",
                     id="a later success wins"),
        pytest.param([("A", PostFilterResult(NEVER("x"), "")), ("B", PostFilterResult(SUCCESS, "a"))], " x", "",
                     id="unresolvable ends the round"),
        pytest.param([("A", PostFilterResult(BROKEN("x"), "a")), ("B", PostFilterResult(SUCCESS, "a"))], " x", None,
                     id="an error ends the round and leaves the nomination"),
        pytest.param([("A", PostFilterResult(NO("x"), "")), ("B", PostFilterResult(NO("y")))], " x, y", "",
                     id="a result that clears the nomination is remembered"),
        pytest.param([], "", "", id="without PostFilter plugins the nomination is cleared"),
    ],
)  # fmt: skip
def test_post_filters_in_order(answers: Any, message: str, nominated: str | None) -> None:
    decision = refusing(*answers)
    assert decision.outcome is Outcome.UNSCHEDULABLE and decision.status.code is Code.UNSCHEDULABLE
    assert decision.message == f"0/1 nodes are available: 1 Insufficient cpu.{message}"
    assert decision.nominated_node == nominated


@pytest.mark.parametrize("uses_cache", [True, False])
@pytest.mark.parametrize(
    ("point", "plugin"),
    [
        pytest.param("preFilter", "NodePorts", id="host ports"),
        pytest.param("preFilter", "NodeResourcesFit", id="resources"),
        pytest.param("preFilter", "InterPodAffinity", id="pod affinity"),
        pytest.param("preFilter", "PodTopologySpread", id="spread"),
        pytest.param("preScore", "TaintToleration", id="taints in scoring"),
        pytest.param("preScore", "PodTopologySpread", id="spread in scoring"),
    ],
)
def test_a_plugin_that_misses_what_an_earlier_point_prepares_fails_the_attempt(
    point: str, plugin: str, uses_cache: bool
) -> None:
    config = {"profiles": [{"plugins": {point: {"disabled": [{"name": plugin}]}}}]}
    on = Scheduler(make_node("a"), make_node("b"), config=config, uses_cache=uses_cache)
    for name in ("first", "second"):
        assert on.decide(make_pod(name)).reason == "SchedulerError"
    on = Scheduler(make_node("a", unschedulable=True), config=config, uses_cache=uses_cache)
    assert on.decide(make_pod()).reason == "Unschedulable", "the plugin was not called"


def test_what_is_missed_shows_when_preemption_asks() -> None:
    config = {"profiles": [{"plugins": {"preFilter": {"disabled": [{"name": "PodTopologySpread"}]}}}]}
    on = Scheduler(make_node("a", cpu="1"), make_pod("low", node="a", cpu="1", priority=0), config=config)
    assert on.decide(make_pod("high", cpu="1", priority=5)).message == (
        '0/1 nodes are available: 1 Insufficient cpu. preemption: running "PodTopologySpread" filter plugin: '
        'reading "PreFilterPodTopologySpread" from cycleState: not found'
    )
