"""The narration: one line for each thing that happens, quiet or loud, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mooring import sdk
from mooring.api.clock import VirtualClock
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.status import Status
from mooring.core.queue.events import SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.pod_info import PodInterner
from mooring.live.writer import reference_to
from mooring.sim.narration import NORMAL, QUIET, VERBOSE, Narrator, detail, many, name_of, plural
from mooring.testing import Scheduler, bound, decide, make_node, make_object, make_pod

Tell = Callable[[Narrator], None]


def told(*tell: Tell, level: int = NORMAL, as_json: bool = False, colored: bool = False) -> list[str]:
    """What a narrator prints at 1.5 seconds after its beginning."""
    lines: list[str] = []
    clock = VirtualClock(100)
    narrator = Narrator(clock, lines.append, level=level, as_json=as_json, colored=colored)
    clock.advance(1.5)
    for each in tell:
        each(narrator)
    narrator.finish()
    return lines


def text(*tell: Tell, level: int = NORMAL) -> list[str]:
    """The same without the time."""
    lines = told(*tell, level=level)
    assert all(line.startswith(("   1.50s  ", " " * 18)) for line in lines)
    return [line[10:] for line in lines]


# ---- objects that come, change and go ----------------------------------------------------------------------------


def came(*objects: Object) -> Tell:
    return lambda narrator: [narrator.came(obj) for obj in objects]  # type: ignore[func-returns-value, return-value]


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        pytest.param([make_pod("a")], "+       pod a", id="a pod"),
        pytest.param([make_pod("a", namespace="x")], "+       pod x/a", id="a pod of another namespace"),
        pytest.param([make_pod("a"), make_pod("b")], "+       2 pods: a, b", id="two together"),
        pytest.param([make_node(f"n{i}") for i in range(7)], "+       7 nodes: n0, n1 … n6", id="many are shortened"),
        pytest.param([make_node("n", unschedulable=True)], "+       node n (unschedulable)", id="a cordoned node"),
        pytest.param(
            [make_node("n", taints=["a=b:NoSchedule"])], "+       node n (taint a:NoSchedule)", id="a tainted node"
        ),
        pytest.param(
            [make_node("n", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])],
            "+       node n (unschedulable)",
            id="the taint that only repeats the cordon is left out",
        ),
        pytest.param(
            [make_pod("a", spec={"priorityClassName": "high"})], "+       pod a (priority high)", id="a priority"
        ),
        pytest.param(
            [make_object("StorageClass", "a"), make_object("StorageClass", "b")],
            "+       2 storageclasses: a, b",
            id="a kind that ends in s",
        ),
    ],
)
def test_what_comes(objects: list[Object], line: str) -> None:
    assert text(came(*objects)) == [line]


def test_a_pod_that_was_placed_before_is_no_news() -> None:
    assert text(came(bound(make_pod("a"), "n"))) == []


def test_kinds_and_details_are_distinguished() -> None:
    lines = text(came(make_node("a"), make_node("b", unschedulable=True), make_pod("p")))
    assert lines == ["+       node a", "+       node b (unschedulable)", "+       pod p"]


def test_what_comes_later_is_another_line() -> None:
    lines: list[str] = []
    clock = VirtualClock(0)
    narrator = Narrator(clock, lines.append)
    for name in "ab":
        narrator.came(make_pod(name))
        clock.advance(0.1)
    narrator.finish()
    assert lines == ["   0.00s  +       pod a", "   0.10s  +       pod b"]


ANNOTATED = {"name": "n", "labels": make_node("n").metadata.labels, "annotations": {"a": "b"}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
LOST = {"conditions": [{"type": "Ready", "status": "Unknown"}]}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param({}, {"labels": {"a": "b"}}, "label a=b", id="a label comes"),
        pytest.param({"labels": {"a": "b"}}, {}, "label a removed", id="a label goes"),
        pytest.param({}, {"taints": ["a:NoSchedule"]}, "taints a:NoSchedule", id="a taint comes"),
        pytest.param({"taints": ["a:NoSchedule"]}, {}, "taints none", id="a taint goes"),
        pytest.param({}, {"unschedulable": True}, "unschedulable", id="cordoned"),
        pytest.param({"unschedulable": True}, {}, "no longer unschedulable", id="uncordoned"),
        pytest.param({"cpu": "2"}, {"cpu": "4"}, "allocatable changed", id="more cpu"),
        pytest.param({"status": READY}, {"status": LOST}, "Ready is Unknown", id="the kubelet is silent"),
        pytest.param({}, {"metadata": ANNOTATED}, "annotations changed", id="an annotation"),
    ],
)
def test_how_a_node_changes(old: dict[str, Any], new: dict[str, Any], line: str) -> None:
    before, after = make_node("n", **old), make_node("n", **new)
    assert text(lambda narrator: narrator.changed(before, after)) == [f"~       node n: {line}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({}, {"status": READY}, id="a kubelet that has just come up"),
        pytest.param(
            {"unschedulable": True},
            {"unschedulable": True, "taints": ["node.kubernetes.io/unschedulable:NoSchedule"]},
            id="the taint that follows a cordon",
        ),
    ],
)
def test_node_changes_without_narration(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = make_node("n", **old), make_node("n", **new)
    assert text(lambda narrator: narrator.changed(before, after)) == []


ENDING = {"name": "p", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param(
            make_pod("p", node="n"),
            make_pod("p", node="n", status={"phase": "Running"}),
            ["pod     p is Running"],
            id="a phase",
        ),
        pytest.param(
            make_pod("p", node="n"),
            make_pod("p", node="n", metadata=ENDING),
            ["-       pod p is to end on n"],
            id="ends",
        ),
        pytest.param(make_pod("p"), make_pod("p", metadata=ENDING), ["-       pod p is to end"], id="ends unplaced"),
        pytest.param(
            make_pod("p"), make_pod("p", spec={"priority": 5}), ["~       pod p: its spec changed"], id="its spec"
        ),
        pytest.param(make_pod("p"), make_pod("p", node="n"), [], id="its binding"),
        pytest.param(make_pod("p"), make_pod("p", labels={"a": "b"}), [], id="a label"),
    ],
)
def test_how_a_pod_changes(old: Pod, new: Pod, lines: list[str]) -> None:
    assert text(lambda narrator: narrator.changed(old, new)) == lines


def test_a_bound_claim_is_narrated_and_a_volume_is_not() -> None:
    claim = make_object("PersistentVolumeClaim", "data", "default")
    done = make_object("PersistentVolumeClaim", "data", "default", spec={"volumeName": "pv-1"})
    volume = make_object("PersistentVolume", "pv-1")
    assert text(
        lambda narrator: narrator.changed(claim, done),
        lambda narrator: narrator.changed(done, done),
        lambda narrator: narrator.changed(volume, volume),
    ) == ["volume  data is bound to pv-1"]


def test_other_changes_are_narrated_only_on_request() -> None:
    service = make_object("Service", "web", "default")
    assert text(lambda narrator: narrator.changed(service, service)) == []
    assert text(lambda narrator: narrator.changed(service, service), level=VERBOSE) == ["~       service web"]


def test_what_goes() -> None:
    running = make_pod("a", node="n", status={"phase": "Running"})
    lines = text(lambda narrator: narrator.left(running), lambda narrator: narrator.left(make_node("n")))
    assert lines == ["-       pod a has ended", "-       node n"]


# ---- the queue ---------------------------------------------------------------------------------------------------


def queued(name: str = "p", **fields: Any) -> QueuedPodInfo:
    info = QueuedPodInfo(PodInterner().info(make_pod(name)), 0.0, 1)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


FAILED = SCHEDULE_ATTEMPT_FAILURE
FIT = frozenset(("NodeResourcesFit", "NodeAffinity"))


@pytest.mark.parametrize(
    ("info", "place", "label", "cause", "line"),
    [
        pytest.param(
            queued(unschedulable_plugins=FIT),
            "unschedulable",
            FAILED,
            None,
            "waits   p until something changes for NodeAffinity, NodeResourcesFit",
            id="refused",
        ),
        pytest.param(queued(), "backoff", FAILED, None, "waits   p for its backoff", id="an error"),
        pytest.param(
            queued(unschedulable_plugins=frozenset(("Fit",))),
            "backoff",
            FAILED,
            None,
            "waits   p for its backoff (Fit)",
            id="refused while something happened",
        ),
        pytest.param(queued(), "active", FAILED, None, "queue   p is retried immediately", id="tried again"),
        pytest.param(
            queued(gating_plugin="SchedulingGates"),
            "gated",
            "x",
            None,
            "waits   p is held back: SchedulingGates",
            id="gate",
        ),
        pytest.param(
            queued(message="waiting for gates: [a]"),
            "gated",
            "x",
            None,
            "waits   p is held back: waiting for gates: [a]",
            id="gates with names",
        ),
        pytest.param(
            queued(), "active", "NodeAdd", make_node("n"), "wakes   p → active: NodeAdd (node n)", id="woken by a node"
        ),
        pytest.param(
            queued(),
            "backoff",
            "AssignedPodDelete",
            make_pod("q", namespace="x"),
            "wakes   p → backoff: AssignedPodDelete (pod x/q)",
            id="woken by a pod",
        ),
        pytest.param(queued(), "active", "ForceActivate", None, "queue   p → active (ForceActivate)", id="activated"),
    ],
)
def test_moves_in_the_queue(info: QueuedPodInfo, place: str, label: str, cause: Object | None, line: str) -> None:
    assert text(lambda narrator: narrator.moved(info, place, label, cause)) == [line]


def test_ordinary_moves_are_narrated_only_on_request() -> None:
    def move(narrator: Narrator) -> None:
        narrator.moved(queued(), "active", UNSCHEDULED_POD_ADD.label, None)

    assert text(move) == []
    assert text(move, level=VERBOSE) == [f"queue   p → active ({UNSCHEDULED_POD_ADD.label})"]


# ---- decisions ---------------------------------------------------------------------------------------------------


def decided(decision: ScheduleResult, attempt: int = 1) -> Tell:
    return lambda narrator: narrator.decided(queued(attempts=attempt), None, decision, 0.0)  # type: ignore[arg-type]


def test_a_placement_on_the_only_node() -> None:
    assert text(decided(decide(make_pod("p"), make_node("n")))) == ["decide  p → n  (the only node fits)"]


def test_a_placement_with_scores_shows_what_tells_nodes_apart() -> None:
    decision = decide(make_pod("p", cpu="1"), make_node("a", cpu="2"), make_node("b", cpu="8"))
    first, header, best, other, same = text(decided(decision, 3))
    assert first == "decide  p → b  (2 of 2 nodes fit, attempt 3)"
    assert header.split() == ["node", "total", "NodeResourcesFit", "NodeResourcesBalancedAllocation"]
    assert best.split()[:2] == ["✓", "b"] and other.split()[0] == "a"
    assert same.strip() == "the same everywhere: TaintToleration 300"


def test_many_nodes_are_shortened_and_shown_on_request() -> None:
    decision = decide(make_pod("p", cpu="1"), *(make_node(f"n{i:02}", cpu=str(4 + i % 3)) for i in range(30)))
    assert text(decided(decision))[-2:] == [
        "          … and 25 more nodes",
        "          the same everywhere: TaintToleration 300",
    ]
    assert "          … and 10 more nodes" in text(decided(decision), level=VERBOSE)


def test_a_refusal_names_filters_and_counts() -> None:
    nodes = [make_node("a", unschedulable=True), *(make_node(name, cpu="1") for name in "bc")]
    lines = text(decided(decide(make_pod("p", cpu="2"), *nodes)))
    assert lines == [
        "decide  p does not fit on any of 3 nodes",
        "        ✗ 2 nodes   NodeResourcesFit     Insufficient cpu",
        "        ✗ 1 node    NodeUnschedulable    node(s) were unschedulable",
    ]


def test_a_refusal_without_nodes_says_its_message() -> None:
    assert text(decided(decide(make_pod("p")))) == [
        "decide  p does not fit on any of 0 nodes",
        "        no nodes available to schedule pods",
    ]


def test_victims_are_named() -> None:
    cluster = Scheduler(make_node("n", cpu="1"), bound(make_pod("cheap", cpu="1"), "n"))
    lines = text(decided(cluster.decide(make_pod("p", cpu="1", priority=10))))
    assert lines[0] == "decide  p does not fit on the only node"
    assert lines[-1] == "        but n has room without cheap"


def test_a_nominated_pod_goes_to_its_node() -> None:
    decision = decide(make_pod("p", status={"nominatedNodeName": "n"}), make_node("n"), make_node("m", cpu="1"))
    assert text(decided(decision, 2))[0] == "decide  p → n  (its nominated node, attempt 2)"


def test_a_batched_decision_is_marked() -> None:
    decision = ScheduleResult(PodInterner().info(make_pod("p")), Outcome.SCHEDULED, "n", num_nodes=9, from_hint=True)
    assert text(decided(decision)) == ["decide  p → n  (next best for pods like it)"]


def test_an_error_is_narrated_as_an_error() -> None:
    decision = ScheduleResult(PodInterner().info(make_pod("p")), Outcome.ERROR, status=Status.error("it broke"))
    assert text(decided(decision, 2)) == ["error   p: it broke, attempt 2"]


class EachItsOwn(sdk.NodeFilter):
    name = "EachItsOwn"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.unschedulable(f"not {node.name}")


def test_many_reasons_are_shortened() -> None:
    config = {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EachItsOwn"}]}}}]}
    cluster = Scheduler(*(make_node(f"n{i}") for i in range(8)), config=config, plugins=[EachItsOwn])
    lines = text(decided(cluster.decide(make_pod("p"))))
    assert len(lines) == 8
    assert lines[1] == "        ✗ 1 node    EachItsOwn           not n0"
    assert lines[-1] == "          … and 2 more reasons"


def test_the_first_placement_is_remembered_even_in_quiet_mode() -> None:
    clock = VirtualClock(0)
    narrator = Narrator(clock, lambda line: pytest.fail(line), level=QUIET)
    clock.advance(2)
    decided(decide(make_pod("p"), make_node("n")))(narrator)
    assert narrator.first_placement_s == 2 and not narrator.wants_detail()


# ---- events, expectations, ways to print -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "note", "lines"),
    [
        pytest.param("Scheduled", "Successfully assigned default/p to n", ["bound   p to n"], id="bound"),
        pytest.param("Preempted", "Preempted by pod x", ["victim  p: Preempted by pod x"], id="a victim"),
        pytest.param("FailedScheduling", "0/1 nodes", [], id="what the decision has said already"),
        pytest.param("Odd", "why", ["event   p: Odd: why"], id="another"),
    ],
)
def test_events(reason: str, note: str, lines: list[str]) -> None:
    assert text(lambda narrator: narrator.event(reference_to(make_pod("p")), reason, note)) == lines


def test_pods_of_other_namespaces_are_narrated_with_their_namespace() -> None:
    web = reference_to(make_pod("web", namespace="shop"))
    assert text(lambda narrator: narrator.event(web, "Scheduled", "to a")) == ["bound   shop/web to a"]


def test_permits_and_failures_after_a_decision() -> None:
    assert text(
        lambda narrator: narrator.waiting(queued(), "n", ["Gang", "Other"]),
        lambda narrator: narrator.binding_failed(queued(), "the node is gone"),
    ) == ["permit  p holds n and waits for Gang, Other", "error   p: the node is gone"]


def test_expectations_are_counted_and_shown_even_in_quiet_mode() -> None:
    narrators: list[Narrator] = []

    def tell(narrator: Narrator) -> None:
        narrators.append(narrator)
        narrator.said("hello")
        narrator.expected("this", True)
        narrator.expected("that: it is not so", False)
        narrator.note("queue", "not told")

    assert text(tell, level=QUIET) == ["say     hello", "expect  this", "FAILED  that: it is not so"]
    assert (narrators[0].held_expectations, narrators[0].failed_expectations) == (1, 1)


def test_arrivals_are_narrated_before_their_effects() -> None:
    assert text(came(make_pod("p")), lambda narrator: narrator.said("then")) == ["+       pod p", "say     then"]


def test_json_has_the_facts_as_fields() -> None:
    (line,) = told(decided(decide(make_pod("p"), make_node("a"), make_node("b"))), as_json=True)
    note = json.loads(line)
    assert (note["seconds"], note["type"], note["pod"], note["node"]) == (1.5, "decide", "default/p", "a")
    assert note["totals"] == {"a": note["totals"]["a"], "b": note["totals"]["b"]}
    (line,) = told(came(make_pod("p")), as_json=True)
    assert json.loads(line) == {"seconds": 1.5, "type": "+", "text": "pod p", "kind": "pod", "names": ["p"]}


def test_a_narrow_terminal_gets_whole_words_below_each_other() -> None:
    lines: list[str] = []
    narrator = Narrator(VirtualClock(0), lines.append, columns=40)
    narrator.said("a node falls silent; its pods are replaced elsewhere")
    narrator.said("")
    assert lines == [
        "   0.00s  say     a node falls silent;",
        "                  its pods are replaced",
        "                  elsewhere",
        "   0.00s  say",
    ]


def test_colours_are_around_the_word_only() -> None:
    (line,) = told(lambda narrator: narrator.said("hello"), colored=True)
    assert line == "   1.50s  \x1b[1msay    \x1b[0m hello"
    (line,) = told(came(make_pod("p")), colored=True)
    assert "\x1b" not in line


# ---- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noun", "want"),
    [
        ("pod", "pods"),
        ("priorityclass", "priorityclasses"),
        ("csistoragecapacity", "csistoragecapacities"),
        ("x", "xes"),
    ],
)
def test_plurals(noun: str, want: str) -> None:
    assert plural(noun) == want
    assert many(1, noun) == f"1 {noun}" and many(2, noun) == f"2 {want}"


def test_names_and_details() -> None:
    assert name_of(make_node("n")) == "n"
    assert detail(make_object("Service", "s", "default")) == ""
    plain = make_node("n")
    assert isinstance(plain, Node) and detail(replace(plain)) == ""
