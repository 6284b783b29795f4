"""Each decision of another scheduler gets a verdict: how the one made here agrees, and why not."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from mooring.api.storage import ObjectReference
from mooring.ask.shadow.judge import Agreement, DecidedAt
from mooring.ask.shadow.shadow import BROKEN, GROUP, HURRIED, LISTED, MAX_LOG, SETTLE_S, UNSEEN
from mooring.ask.shadow.summary import MAX_KEPT
from mooring.testing import bound, make_node, make_object, make_pod

from .conftest import Stage

NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)
PACK = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ]
        }
    ]
}


def empty_and_busy() -> list[Any]:
    """Two nodes; new pods go to ``empty``."""
    nodes = [make_node(name, cpu="4", labels={"name": name}) for name in ("empty", "busy")]
    return [*nodes, bound(make_pod("old", cpu="2"), "busy")]


def test_the_same_node() -> None:
    stage = Stage(*empty_and_busy())
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "empty")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.moment, verdict.cause) == (Agreement.SAME, DecidedAt.EXACT, "")
    assert verdict.totals[0] == verdict.totals[1] is not None


def test_an_equally_good_node() -> None:
    stage = Stage(make_node("a"), make_node("b"))
    pod = make_pod("p")
    stage.put(pod)
    first = "a" if stage.shadow._theirs.decide(pod).node == "b" else "b"
    stage.bind(pod, first)
    verdict = stage.verdict()
    assert verdict.agreement is Agreement.EQUALLY_GOOD
    assert verdict.node != verdict.happened.node and verdict.totals[0] == verdict.totals[1]


def test_another_node_with_both_totals_and_the_plugin_that_tipped_it() -> None:
    stage = Stage(*empty_and_busy())
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "busy")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.node, verdict.is_explained) == (Agreement.OTHER_NODE, "empty", False)
    there, here = verdict.totals
    assert there is not None and here is not None and there < here
    assert verdict.plugin == "NodeResourcesFit" and verdict.because.startswith("NodeResourcesFit gives empty ")
    assert stage.shadow.summary.differing == stage.shadow.summary.unexplained == 1


def test_a_pod_that_was_bound_where_no_node_takes_it_here() -> None:
    stage = Stage(make_node("a", cpu="1"))
    pod = make_pod("p", cpu="2")
    stage.put(pod)
    stage.bind(pod, "a")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.plugin) == (Agreement.REFUSED_HERE, "NodeResourcesFit")
    assert verdict.because == "NodeResourcesFit refuses a: Insufficient cpu"


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(NO_ROOM, Agreement.SAME_WORDS, id="the same words"),
        pytest.param("0/1 nodes are available: 1 node(s) are tired.", Agreement.OTHER_WORDS, id="other words"),
    ],
)
def test_refusals(message: str, want: Agreement) -> None:
    stage = Stage(make_node("a", cpu="1"), bound(make_pod("old", cpu="1"), "a"))
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.refuse(pod, message)
    stage.refuse(pod, message)  # the same word once more says nothing new
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.message) == (want, NO_ROOM)


def test_a_pod_that_was_refused_where_a_node_takes_it_here() -> None:
    stage = Stage(make_node("a", cpu="4"))
    pod = make_pod("p", cpu="2")
    stage.put(pod)
    stage.refuse(pod, NO_ROOM)
    assert (stage.verdict().agreement, stage.verdicts[0].node) == (Agreement.PLACED_HERE, "a")


def test_room_on_an_equally_good_node() -> None:
    nodes = [make_node(name, cpu="1") for name in "ab"]
    stage = Stage(*nodes, *(bound(make_pod(f"low-{name}", cpu="1"), name) for name in "ab"))
    pod = make_pod("high", cpu="1", priority=10)
    stage.put(pod)
    decision = stage.shadow._theirs.decide(pod)
    other = "a" if decision.nominated_node == "b" else "b"
    stage.refuse(pod, decision.message, nominated=other)
    assert (stage.verdict().agreement, stage.verdicts[0].cause) == (Agreement.EQUAL_ROOM, "")


@pytest.mark.parametrize(
    ("cpus_on_b", "want"),
    [
        pytest.param(("1", "1"), Agreement.EQUAL_ROOM, id="two victims on each node"),
        pytest.param(("500m",) * 4, Agreement.OTHER_WORDS, id="no order makes four victims as good as two"),
    ],
)
def test_room_where_equally_important_pods_came_in_another_order(cpus_on_b: tuple[str, ...], want: Agreement) -> None:
    """If the large pod on a came first, it is spared and the two small ones are the victims: as many as on b."""
    on_a = [bound(make_pod(f"a-{i}", cpu=cpu), "a") for i, cpu in enumerate(("1", "2", "1"))]
    on_b = [bound(make_pod(f"b-{i}", cpu=cpu), "b") for i, cpu in enumerate(cpus_on_b)]
    firm = bound(make_pod("firm", cpu="2", priority=20), "b")
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), *on_a, *on_b, firm)
    pod = make_pod("high", cpu="2", priority=10)
    stage.put(pod)
    decision = stage.shadow._theirs.decide(pod)
    assert decision.nominated_node == "a"
    stage.refuse(pod, decision.message, nominated="b")
    assert stage.verdict().agreement is want


# ---- the state as that scheduler saw it ------------------------------------------------------------------------------


def test_changes_unknown_to_the_scheduler_are_undone() -> None:
    """A node is freed right before the binding is seen: the scheduler decided while it was full."""
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), bound(make_pod("old", cpu="3"), "a"))
    pod = make_pod("p", cpu="1")
    stage.put(bound(make_pod("some", cpu="1"), "b"), pod)
    stage.delete(bound(make_pod("old", cpu="3"), "a"))
    stage.bind(pod, "b")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.moment, verdict.cause) == (Agreement.SAME, DecidedAt.EARLIER, "race")
    assert verdict.assumed == ("Pod default/old left a: not yet",)


def test_a_change_before_the_pod_came_is_not_undone() -> None:
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), bound(make_pod("old", cpu="3"), "a"))
    stage.put(bound(make_pod("some", cpu="1"), "b"))
    stage.delete(bound(make_pod("old", cpu="3"), "a"))
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "b")
    assert stage.verdict().agreement is Agreement.OTHER_NODE


def test_a_pod_that_left_a_node_after_the_outcome_was_there_before() -> None:
    """Bindings and deletions of pods come by one watch: what was seen after the outcome was not known before it."""
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), bound(make_pod("old", cpu="3"), "a"))
    pod = make_pod("p", cpu="1")
    stage.put(bound(make_pod("some", cpu="1"), "b"), pod)
    stage.bind(pod, "a")
    stage.delete(bound(make_pod("old", cpu="3"), "a"))
    assert stage.verdict().agreement is Agreement.OTHER_NODE


def test_a_node_that_was_cordoned_right_before_the_pod_came() -> None:
    """The scheduler's watch of nodes may be behind its watch of pods."""
    stage = Stage(*empty_and_busy())
    cordoned = make_node("empty", cpu="4", labels={"name": "empty"}, unschedulable=True)
    pod = make_pod("p", cpu="1")
    stage.put(cordoned, pod)
    stage.bind(pod, "empty")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.assumed) == (Agreement.SAME, ("Node empty changed: not yet",))


def test_bindings_that_overtake_each_other() -> None:
    """Three pods are decided about in turn; the first binding is seen last, after that of the third."""
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), bound(make_pod("old", cpu="500m"), "b"))
    pods = [make_pod(name, cpu="1") for name in ("first", "second", "third")]
    stage.put(*pods)
    stage.bind(pods[1], "b")  # as the first one holds room on a
    stage.bind(pods[2], "a")
    stage.bind(pods[0], "a")
    stage.clock.advance(10)
    stage.shadow.settle()
    by_name = {verdict.happened.pod.name: verdict for verdict in stage.verdicts}
    assert {verdict.agreement for verdict in stage.verdicts} == {Agreement.SAME}
    assert by_name["second"].moment is DecidedAt.REORDERED
    assert by_name["second"].assumed == ("Pod default/third came to a: already",)  # as good as the first would be


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param(1, Agreement.SAME, id="before the outcome, delivered late"),
        pytest.param(10_000, Agreement.REFUSED_HERE, id="it came after the outcome"),
    ],
)
def test_a_node_that_was_seen_only_later(version: int, want: Agreement) -> None:
    """Nodes and pods come by different watches: versions say what came first."""
    stage = Stage(make_node("a", cpu="4"), bound(make_pod("old", cpu="3500m"), "a"))
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "b")
    stage.put(make_node("b", cpu="4"), version=version)
    verdict = stage.verdict()
    assert verdict.agreement is want
    assert verdict.assumed == (("Node b came: already",) if want is Agreement.SAME else ())


def test_a_pod_that_was_never_bound_may_have_held_room() -> None:
    stage = Stage(make_node("a", cpu="1"))
    pod, unseen = make_pod("p", cpu="1"), make_pod("unseen", cpu="1")
    stage.put(unseen, pod)
    stage.refuse(pod, NO_ROOM)
    stage.delete(unseen)
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.moment) == (Agreement.SAME_WORDS, DecidedAt.REORDERED)
    assert verdict.assumed == ("Pod default/unseen, which was never bound, held room on a",)


def test_a_pod_that_came_after_the_outcome_has_held_nothing() -> None:
    stage = Stage(make_node("a", cpu="1"))
    pod, late = make_pod("p", cpu="1"), make_pod("late", cpu="1")
    stage.put(pod)
    stage.refuse(pod, NO_ROOM)
    stage.put(late)
    stage.delete(late)
    assert (stage.verdict().agreement, stage.verdicts[0].cause) == (Agreement.PLACED_HERE, "")


def test_the_node_that_a_scheduler_expects_is_its_own_answer() -> None:
    """kube-scheduler nominates the node that it is about to bind a pod to: that is no reason to take that node."""
    stage = Stage(*empty_and_busy())
    pod = make_pod("p", cpu="1")
    expected = deepcopy(pod)
    expected.status.nominated_node_name = "busy"
    stage.put(pod, expected)
    stage.bind(pod, "busy")
    assert (stage.verdict().agreement, stage.verdicts[0].node) == (Agreement.OTHER_NODE, "empty")


def test_a_pod_that_is_about_to_be_bound_counts_on_its_node() -> None:
    """Its volumes may take long. For another pod of higher priority it is not only nominated, but there."""
    stage = Stage(*empty_and_busy())
    slow, pod = make_pod("slow", cpu="3"), make_pod("p", cpu="1", priority=10)
    expected = deepcopy(slow)
    expected.status.nominated_node_name = "empty"
    stage.put(slow, expected, pod)
    stage.bind(pod, "busy")
    stage.bind(slow, "empty")
    stage.shadow.settle(is_over=True)
    assert [(verdict.agreement, verdict.moment) for verdict in stage.verdicts] == [
        (Agreement.SAME, DecidedAt.EXACT)
    ] * 2


def test_a_pod_that_could_not_be_bound_has_left_its_node() -> None:
    stage = Stage(*empty_and_busy())
    slow, pod = make_pod("slow", cpu="3"), make_pod("p", cpu="1")
    expected = deepcopy(slow)
    expected.status.nominated_node_name = "empty"
    stage.put(slow, expected)
    stage.refuse(slow, "no volume", reason="SchedulerError")
    stage.put(pod)
    stage.bind(pod, "empty")
    assert (stage.verdict().agreement, stage.verdicts[0].moment) == (Agreement.SAME, DecidedAt.EXACT)


def on_node(name: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "name", "operator": "In", "values": [name]}]}


def bound_claim() -> tuple[Stage, Any, list[Any]]:
    """A pod whose claim can be bound on both nodes, and what the scheduler writes to bind it on ``busy``."""
    storage = make_object("StorageClass", "local", volumeBindingMode="WaitForFirstConsumer")
    volumes = [
        make_object(
            "PersistentVolume",
            f"on-{node}",
            spec={
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [on_node(node)]}},
            },
            status={"phase": "Available"},
        )
        for node in ("empty", "busy")
    ]
    claim = make_object(
        "PersistentVolumeClaim",
        "data",
        "default",
        spec={
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )
    stage = Stage(*empty_and_busy(), storage, *volumes, claim)
    pod = make_pod("p", cpu="1", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    volume, taken = deepcopy(volumes[1]), deepcopy(claim)
    volume.spec.claim_ref = ObjectReference(
        kind="PersistentVolumeClaim", namespace="default", name="data", uid=claim.uid
    )
    taken.spec.volume_name = volume.name
    taken.metadata.annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    return stage, pod, [volume, taken]


def test_a_claim_that_was_bound_for_the_pod_is_its_own_answer() -> None:
    stage, pod, written = bound_claim()
    stage.put(pod, *written)
    assert stage.shadow._theirs.decide(pod).node == "busy"  # a scheduler that sees the claim bound has no choice
    stage.bind(pod, "busy")
    assert (stage.verdict().agreement, stage.verdicts[0].node) == (Agreement.OTHER_NODE, "empty")


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_claim_that_was_bound_by_an_attempt_that_failed_is_seen_by_the_next_one(is_bound: bool) -> None:
    stage, pod, written = bound_claim()
    stage.put(pod, *written)
    stage.refuse(pod, "preempted", reason="SchedulerError")
    if is_bound:
        stage.bind(pod, "busy")
        assert stage.verdict().agreement is Agreement.SAME
        return
    stage.put(bound(make_pod("large", cpu="2"), "busy"))
    message = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming "
        "pod, 1 Preemption is not helpful for scheduling."
    )
    stage.refuse(pod, message)
    assert (stage.verdict().agreement, stage.verdicts[0].moment) == (Agreement.SAME_WORDS, DecidedAt.EXACT)


@pytest.mark.parametrize(
    ("managed", "cause"),
    [
        pytest.param([], "extender", id="an extender is asked about every pod"),
        pytest.param([{"name": "example.com/gpu"}], "", id="an extender is asked about pods that want its resource"),
    ],
)
def test_an_extender_explains_a_difference(managed: list[Any], cause: str) -> None:
    extender = {"urlPrefix": "http://extender.invalid", "filterVerb": "filter", "managedResources": managed}
    stage = Stage(*empty_and_busy(), config={"extenders": [extender]})
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "busy")
    assert (stage.verdict().agreement, stage.verdicts[0].cause) == (Agreement.OTHER_NODE, cause)
    assert stage.shadow.summary.differing == 1


# ---- samples ---------------------------------------------------------------------------------------------------------


def many_nodes() -> list[Any]:
    """250 nodes; the second half is fuller than the first."""
    nodes: list[Any] = []
    for i in range(250):
        nodes.append(make_node(f"n{i:03}", cpu="8"))
        if i >= 125:
            nodes.append(bound(make_pod(f"old-{i}", cpu="2"), f"n{i:03}"))
    return nodes


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        pytest.param({}, "sampling", id="kube-scheduler looks at 48 % of 250 nodes"),
        pytest.param({"percentageOfNodesToScore": 100}, "", id="it looks at all of them"),
    ],
)
def test_a_better_node_that_kube_scheduler_never_looked_at(config: dict[str, Any], cause: str) -> None:
    stage = Stage(*many_nodes(), config=config)
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "n130")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.cause) == (Agreement.OTHER_NODE, cause)
    assert verdict.node < "n125" and verdict.totals[0] < verdict.totals[1]  # type: ignore[operator]


def test_no_sample_gives_the_worst_node() -> None:
    nodes = many_nodes()
    stage = Stage(*nodes, bound(make_pod("huge", cpu="5"), "n130"))
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "n130")
    assert stage.verdict().cause == ""


# ---- another configuration -------------------------------------------------------------------------------------------


def test_another_configuration_is_compared_in_the_state_that_explains_what_happened() -> None:
    stage = Stage(*empty_and_busy(), compared=PACK)
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "empty")
    verdict = stage.verdict()
    assert (verdict.agreement, verdict.node, verdict.plugin) == (Agreement.OTHER_NODE, "busy", "NodeResourcesFit")
    assert (verdict.cause, stage.shadow.summary.differing) == ("configuration", 1)


def test_a_configuration_does_not_explain_what_the_cluster_s_own_does_not() -> None:
    stage = Stage(*empty_and_busy(), make_node("full", cpu="1"), compared=PACK)
    pod = make_pod("p", cpu="1500m")
    stage.put(pod)
    stage.bind(pod, "full")
    assert stage.verdict().cause == ""


# ---- what is not compared --------------------------------------------------------------------------------------------


def test_decisions_that_cannot_be_compared_are_counted_by_reason() -> None:
    stage = Stage(make_node("a"))
    stage.put(bound(make_pod("unseen"), "a"))
    broken, other, gang = make_pod("broken"), make_pod("other"), make_pod("gang")
    other.spec.scheduler_name = "somebody"
    gang = make_pod("gang", spec={"schedulingGroup": {"podGroupName": "g"}})
    stage.put(broken, other, gang)
    stage.refuse(broken, "plugin broke", reason="SchedulerError")
    stage.bind(other, "a")
    stage.bind(gang, "a")
    stage.shadow.is_listing = lambda: True
    listed = make_pod("listed")
    stage.put(listed)
    stage.bind(listed, "a")
    static = bound(make_pod("static"), "a")
    static.metadata.annotations = {"kubernetes.io/config.mirror": "x"}
    stage.put(static)
    summary = stage.shadow.summary
    assert summary.left_out == {UNSEEN: 1, BROKEN: 1, GROUP: 1, LISTED: 1}
    assert summary.passed_over == {"somebody": 1} and not summary.decisions


def test_a_scheduler_of_another_name_is_answered_for_by_the_first_profile() -> None:
    stage = Stage(*empty_and_busy(), names=("somebody",))
    pod = make_pod("p", cpu="1", spec={"schedulerName": "somebody"})
    stage.put(pod)
    stage.bind(pod, "empty")
    assert stage.verdict().agreement is Agreement.SAME


@pytest.mark.parametrize("lists_first", [True, False])
def test_a_race_whose_moment_was_not_seen_is_not_a_difference(lists_first: bool) -> None:
    """The scheduler decided when another pod was still there, and the watch broke: what it saw is unknown."""
    old, pod = make_pod("old", cpu="3"), make_pod("p", cpu="1")
    other = make_pod("other", cpu="1")
    stage = Stage(make_node("a", cpu="4"), make_node("b", cpu="4"), bound(old, "a"), bound(other, "b"))
    stage.put(pod)
    if lists_first:
        stage.shadow.is_listing = lambda: True
        stage.delete(old)
        stage.shadow.is_listing = lambda: False
    else:
        stage.delete(old)
    stage.bind(pod, "b")
    stage.clock.advance(SETTLE_S)
    stage.shadow.settle()
    summary = stage.shadow.summary.to_dict()
    assert summary["notCompared"] == ({LISTED: 1} if lists_first else {})
    assert summary["decisions"] == summary["explained"] == (0 if lists_first else 1)


def test_a_search_continues_where_it_stopped() -> None:
    stage = Stage(*empty_and_busy())
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "busy")
    stage.clock.advance(SETTLE_S)
    stops = 0
    while stage.shadow.settle(for_s=0.0):
        stops += 1
    assert stops and stage.verdict().agreement is Agreement.OTHER_NODE


def test_what_is_not_looked_for_in_time_is_no_difference() -> None:
    stage = Stage(*empty_and_busy())
    for i in range(2):
        pod = make_pod(f"p{i}", cpu="500m")
        stage.put(pod)
        stage.bind(pod, "busy")
    assert not stage.shadow.settle(is_over=True, for_s=0.0)
    assert stage.shadow.summary.left_out == {HURRIED: 2} and not stage.verdicts


def test_a_decision_that_is_no_longer_in_the_log_is_no_difference() -> None:
    stage = Stage(*empty_and_busy())
    pod = make_pod("p", cpu="1")
    stage.put(pod)
    stage.bind(pod, "busy")
    for _ in range(MAX_LOG):
        stage.put(make_node("far", cpu="0"))
    stage.shadow.settle()
    assert stage.shadow.summary.left_out == {HURRIED: 1} and not stage.verdicts


def test_what_is_kept_does_not_grow() -> None:
    stage = Stage(make_node("a", cpu="1"))
    pod = make_pod("p", cpu="2")
    stage.put(pod)
    stage.bind(pod, "a")
    verdict, summary = stage.verdict(), stage.shadow.summary
    for _ in range(MAX_KEPT + 19):
        summary.count(verdict)
    found = summary.to_dict()
    assert found["bindings"]["refusedHere"] == MAX_KEPT + 20
    assert (len(found["differences"]), found["differencesNotShown"]) == (MAX_KEPT, 20)


def test_what_is_gone_is_forgotten() -> None:
    stage = Stage(make_node("a"))
    for i in range(5):
        pod = make_pod(f"p{i}")
        stage.put(pod)
        if i % 2:
            stage.bind(pod, "a")
        stage.delete(pod)
    assert not stage.shadow._waiting and not stage.shadow._open
