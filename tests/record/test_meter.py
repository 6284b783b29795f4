"""A meter's figures are those that one can count by hand, and those of a slow count of everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.record.measures import SAMPLES
from mooring.record.meter import GATED, NOMINATED, QUEUED, Meter
from mooring.record.node_measures import PRICE
from mooring.testing import bound, make_node, make_object, make_pod

FIT = frozenset(("NodeResourcesFit",))


def gone(meter: Meter, at: float, pod: Pod) -> None:
    meter.deleted(at, "Pod", pod.key, pod.uid)


def run(meter: Meter, at: float, pod: Pod, node: str = "a") -> None:
    meter.put(at, pod)
    meter.put(at, bound(pod, node))


# ---- how full ------------------------------------------------------------------------------------------------------


def test_allocation_is_the_mean_over_time_and_what_it_is_at_the_end() -> None:
    meter = Meter()
    meter.put(100, make_node("a", cpu="4", memory="8Gi"))
    pod = make_pod("web", cpu="2", memory="2Gi")
    run(meter, 110, pod)
    gone(meter, 130, pod)
    row = meter.finish(140).row
    assert row["seconds"] == 40
    assert row["allocated.cpu"] == pytest.approx(0.5 * 20 / 40)
    assert row["allocated.memory"] == pytest.approx(0.25 * 20 / 40)
    assert row["allocatedAtEnd.cpu"] == 0
    assert (row["pods"], row["placed"], row["ended"], row["pending"]) == (1, 1, 1, 0)


def test_allocation_is_reported_by_zone_if_there_are_several() -> None:
    meter = Meter()
    for name, zone in (("a", "east"), ("b", "west")):
        meter.put(0, make_node(name, cpu="4", zone=zone))
    run(meter, 0, make_pod("web", cpu="1"), "b")
    found = meter.finish(10)
    assert found.zones == ["east", "west"]
    assert (found.row["allocated.cpu.east"], found.row["allocated.cpu.west"]) == (0, 0.25)
    assert found.row["allocated.cpu"] == 0.125
    assert set(found.columns["allocated.cpu.west"]) == {0.25}


def test_a_zone_without_a_resource_has_no_share_of_it() -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="4", zone="east", allocatable={"nvidia.com/gpu": "2"}))
    meter.put(0, make_node("b", cpu="4", zone="west"))
    run(meter, 0, make_pod("web", cpu="1", requests={"nvidia.com/gpu": "1"}))
    found = meter.finish(10)
    assert found.row["allocated.nvidia.com/gpu.east"] == 0.5
    for names in (found.row, found.columns):
        assert "allocated.nvidia.com/gpu.west" not in names and "allocated.cpu.west" in names


def test_a_pod_that_is_resized_on_its_node_asks_for_what_it_asks_now() -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="4"))
    pod = make_pod("web", cpu="1")
    run(meter, 0, pod)
    resized = bound(make_pod("web", cpu="3", uid=pod.uid), "a")
    meter.put(10, resized)
    assert meter.finish(20).row["allocated.cpu"] == pytest.approx((1 * 10 + 3 * 10) / (4 * 20))
    gone(meter, 20, pod)
    found = meter.finish(40)
    assert found.row["allocatedAtEnd.cpu"] == 0
    assert found.row["allocated.cpu"] == pytest.approx(40 / (4 * 40))


def test_a_node_that_goes_takes_its_capacity_and_a_pod_may_come_before_its_node() -> None:
    meter = Meter()
    pod = make_pod("web", cpu="1")
    meter.put(0, bound(pod, "late"))
    meter.put(10, make_node("late", cpu="2", zone="east"))
    meter.deleted(20, "Node", "late")
    gone(meter, 20, pod)
    row = meter.finish(30).row
    assert row["allocated.cpu"] == pytest.approx(20 / 20)  # one core for 20 s of two cores for 10 s
    assert row["nodes"] == 0


def test_a_changed_or_returning_node_is_recounted() -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="4"))
    meter.put(0, make_node("a", cpu="4"))  # a heartbeat
    run(meter, 0, make_pod("web", cpu="2"))
    meter.put(10, make_node("a", cpu="8"))
    meter.deleted(20, "Node", "a")
    meter.put(30, make_node("a", cpu="8"))
    found = meter.finish(40)
    assert found.row["allocated.cpu"] == pytest.approx(2 * 40 / (4 * 10 + 8 * 10 + 8 * 10))
    assert found.row["nodes"] == 1


def test_an_extended_resource_has_columns_of_its_own() -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="4", allocatable={"example.com/gpu": "8"}))
    run(meter, 0, make_pod("train", requests={"example.com/gpu": "2"}))
    assert meter.finish(5).row["allocated.example.com/gpu"] == 0.25


def test_a_resource_that_no_pod_asks_for_is_left_out() -> None:
    meter = Meter()
    meter.put(0, make_node("a", allocatable={"ephemeral-storage": "1Ti", "hugepages-2Mi": "4Mi"}))
    run(meter, 0, make_pod("web", cpu="1"))
    assert meter.finish(5).resources == ["cpu", "memory", "pods"]


def test_cost_is_price_times_time() -> None:
    meter = Meter()
    meter.put(0, make_node("a", metadata={"annotations": {PRICE: "3.6"}}))
    meter.put(0, make_node("free", metadata={"annotations": {PRICE: "a lot"}}))
    meter.put(1800, make_node("b", labels={PRICE: "7.2"}))
    meter.deleted(3600, "Node", "b")
    found = meter.finish(7200)
    assert found.row["cost"] == pytest.approx(7.2 + 3.6)
    assert found.columns["cost"][-1] == pytest.approx(10.8)


def test_without_prices_there_is_no_cost() -> None:
    meter = Meter()
    meter.put(0, make_node("a"))
    assert "cost" not in meter.finish(10).row


# ---- who waits -----------------------------------------------------------------------------------------------------


def test_waiting_times_are_reported_by_priority() -> None:
    meter = Meter()
    meter.put(0, make_node("a"))
    low = [make_pod(f"low-{i}", cpu="1m") for i in range(100)]
    for pod in low:
        meter.put(0, pod)
    for i, pod in enumerate(low, start=1):
        meter.put(i, bound(pod, "a"))
    high = make_pod("high", cpu="1m", priority=1000)
    meter.put(100, high)
    meter.put(107, bound(high, "a"))
    every, first, second = meter.finish().waiting
    assert (first.priority, first.pods, first.p50, first.p99) == (1000, 1, 7, 7)
    assert (second.priority, second.p50, second.p90, second.p99, second.longest) == (0, 50, 90, 99, 100)
    assert (every.priority, every.pods) == (None, 101)


def test_pending_pods_are_reported_by_cause() -> None:
    meter = Meter()
    meter.put(0, make_node("a"))
    big, gated = make_pod("big"), make_pod("gated", spec={"schedulingGates": [{"name": "quota"}]})
    meter.put(0, big)
    meter.put(0, gated)
    meter.refused(10, big.uid, FIT)
    meter.explained(big.uid, "0/1 nodes are available: 1 Insufficient cpu.")
    found = meter.finish(40)
    assert found.row["pendingMean"] == 2 and found.row["pendingMost"] == 2
    assert found.row[f"pendingMean.{QUEUED}"] == pytest.approx(10 / 40)
    assert found.row["pendingMean.NodeResourcesFit"] == pytest.approx(30 / 40)
    assert found.row[f"pendingMean.{GATED}"] == 1
    assert found.causes[0] == GATED
    assert {(each.cause, each.pods, each.example) for each in found.pending} == {
        (GATED, 1, "default/gated"),
        ("NodeResourcesFit", 1, "default/big"),
    }
    assert next(each.message for each in found.pending if each.cause != GATED).endswith("Insufficient cpu.")


def test_a_pod_whose_gates_are_removed_is_in_the_queue() -> None:
    meter = Meter()
    meter.put(0, make_pod("gated", spec={"schedulingGates": [{"name": "quota"}]}))
    meter.put(5, make_pod("gated"))
    assert [each.cause for each in meter.finish(9).pending] == [QUEUED]


def test_without_attempts_a_pod_s_condition_says_why_it_waits() -> None:
    meter = Meter()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes …"}
    meter.put(0, make_pod("big"))
    meter.put(5, make_pod("big", status={"conditions": [condition]}))
    (found,) = meter.finish(9).pending
    assert (found.cause, found.message) == ("Unschedulable", "0/3 nodes …")


def test_too_many_causes_are_combined() -> None:
    meter = Meter()
    pod = make_pod("fickle")
    meter.put(0, pod)
    for i in range(100):
        meter.refused(i, pod.uid, frozenset((f"Plugin{i}",)))
    assert len(meter.causes) == 32
    assert meter.finish().pending[0].cause == "other causes"


def test_a_pod_of_an_old_name_replaces_the_one_whose_deletion_was_not_seen() -> None:
    meter = Meter()
    meter.put(0, make_pod("web-0", uid="one"))
    meter.put(5, make_pod("web-0", uid="two"))
    assert meter.finish(9).row["pending"] == 1


def test_pods_that_have_ended_do_not_count_as_allocated() -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="2"))
    pod = make_pod("job", cpu="1")
    run(meter, 0, pod)
    meter.put(10, make_pod("job", uid=pod.uid, node="a", cpu="1", status={"phase": "Succeeded"}))
    gone(meter, 15, pod)
    row = meter.finish(20).row
    assert row["allocated.cpu"] == pytest.approx(0.25) and row["ended"] == 1


# ---- attempts and preemptions --------------------------------------------------------------------------------------


def test_attempts_are_counted_by_their_outcome() -> None:
    meter = Meter()
    pod = make_pod("web")
    meter.put(0, pod)
    meter.refused(1, pod.uid, FIT)
    meter.refused(2, pod.uid, (), is_error=True)
    meter.scheduled()
    meter.binding_failed(3)
    row = meter.finish().row
    assert [row[name] for name in ("attempts", "attemptsUnschedulable", "attemptsFailed", "bindingFailures")] == [
        3, 1, 1, 1,
    ]  # fmt: skip
    assert row["mostFailuresOfAPod"] == 2


def owned(name: str, owner: str, priority: int) -> Pod:
    return make_pod(
        name,
        priority=priority,
        metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": owner, "controller": True}]},
    )


def test_a_recreated_victim_that_evicts_others_makes_a_cascade() -> None:
    meter = Meter()
    high, middle, low = owned("high-1", "high", 100), owned("middle-1", "middle", 10), owned("low-1", "low", 1)
    run(meter, 0, middle)
    run(meter, 0, low)
    meter.put(1, high)
    meter.refused(1, high.uid, FIT, makes_room=True)
    meter.evicted(1, middle.uid, high.key)
    again = owned("middle-2", "middle", 10)
    meter.put(2, again)
    meter.refused(2, again.uid, FIT, makes_room=True)
    meter.evicted(2, low.uid, again.key)
    found = meter.finish(3)
    assert found.row["preemptions"] == found.row["victims"] == 2
    assert (found.row["cascades"], found.row["longestCascade"]) == (1, 2)
    assert NOMINATED in [each.cause for each in found.pending]


def budget(allowed: int) -> Any:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    return make_object("PodDisruptionBudget", "web", "default", spec=spec, status={"disruptionsAllowed": allowed})


@pytest.mark.parametrize(
    ("allowed", "victims", "want"),
    [
        pytest.param(1, 1, 0, id="a budget that allows it is kept"),
        pytest.param(1, 2, 1, id="one more than it allows breaks it"),
        pytest.param(0, 2, 2, id="one that allows nothing is broken every time"),
    ],
)
def test_a_budget_is_broken_by_more_evictions_than_it_allows(allowed: int, victims: int, want: int) -> None:
    meter = Meter()
    meter.put(0, budget(allowed))
    for i in range(victims):
        pod = make_pod(f"web-{i}", node="a", labels={"app": "web"})
        meter.put(0, pod)
        meter.evicted(1, pod.uid, "default/unknown")
    assert meter.finish().row["budgetBreaches"] == want


def test_a_budget_that_is_gone_or_of_others_is_not_broken() -> None:
    meter = Meter()
    meter.put(0, budget(0))
    other, mine = make_pod("db", node="a", labels={"app": "db"}), make_pod("web", node="a", labels={"app": "web"})
    meter.put(0, other)
    meter.evicted(1, other.uid, "")
    meter.deleted(2, "PodDisruptionBudget", "default/web")
    meter.put(2, mine)
    meter.evicted(3, mine.uid, "")
    assert meter.finish().row["budgetBreaches"] == 0


# ---- fragmentation -------------------------------------------------------------------------------------------------


def test_fragmentation_is_what_is_free_and_typical_pods_cannot_use() -> None:
    meter = Meter()
    for name in ("a", "b"):
        meter.put(0, make_node(name, cpu="4", memory="8Gi"))
    # Three of four pods ask for 3 cores, one for 1. Node a is left with 1 core, node b with 3.
    run(meter, 0, make_pod("big", cpu="3", memory="1Gi"), "a")
    run(meter, 0, make_pod("small", cpu="1", memory="1Gi"), "b")
    for i in range(2):
        meter.put(0, make_pod(f"waits-{i}", cpu="3", memory="1Gi"))
    row = meter.finish(1).row
    assert row["fragmentationAtEnd.cpu"] == pytest.approx(0.75 * 1 / 8)
    assert row["fragmentationAtEnd.memory"] == pytest.approx(0.75 * 7 / 16)


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param({"cpu": "5"}, 1.0, id="nothing fits anywhere"),
        pytest.param({"cpu": "4"}, 0.0, id="everything fits"),
        pytest.param({"cpu": "1", "example.com/gpu": "1"}, 1.0, id="another resource is what is missing"),
    ],
)
def test_free_nodes_are_of_use_only_to_pods_that_fit(requests: dict[str, str], want: float) -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="4"))
    meter.put(0, make_pod("typical", requests=requests))
    assert meter.finish(1).row["fragmentationAtEnd.cpu"] == want


# ---- over time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.01, 3.0, 1000.0, 1e6, 1e9])
def test_the_number_of_samples_is_bounded_however_long_a_run_is(seconds: float) -> None:
    meter = Meter()
    meter.put(0, make_node("a", cpu="1"))
    for i in range(50):
        pod = make_pod(f"pod-{i}", cpu="1")
        run(meter, seconds * i / 50, pod)
        gone(meter, seconds * (i + 0.5) / 50, pod)
    found = meter.finish(seconds)
    assert {len(column) for column in found.columns.values()} == {len(found.columns["seconds"])}
    assert len(found.columns["seconds"]) <= 2 * SAMPLES + 1
    assert found.columns["seconds"] == sorted(set(found.columns["seconds"]))
    assert found.columns["seconds"][-1] == seconds
    assert found.row["allocated.cpu"] == pytest.approx(0.5)


def test_everything_in_one_instant_has_one_sample() -> None:
    meter = Meter()
    meter.put(5, make_node("a", cpu="2"))
    run(meter, 5, make_pod("web", cpu="1"))
    found = meter.finish(5)
    assert found.columns["seconds"] == [0]
    assert found.row["allocated.cpu"] == 0.5 and found.columns["allocated.cpu"] == [0.5]


def test_a_run_may_continue_after_it_was_measured() -> None:
    once, twice = Meter(), Meter()
    for meter in (once, twice):
        meter.put(0, make_node("a", cpu="4"))
        for i in range(20):
            meter.put(2 * i, make_pod(f"waits-{i}", cpu="8"))
            run(meter, 2 * i, make_pod(f"runs-{i}", cpu="100m"))
            if meter is twice:
                meter.finish(2 * i + 1)
    assert twice.finish(50) == once.finish(50)


def test_nothing_at_all_is_measured_too() -> None:
    found = Meter().finish()
    assert found.row["pods"] == 0 and found.columns["seconds"] == [0]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("come", "place", "go", "refuse", "node", "node goes")),
        st.integers(0, 4),
        st.integers(0, 2),
        st.floats(0, 30),
    ),
    max_size=40,
)


@settings(max_examples=120, deadline=None)
@given(events=EVENTS)
def test_the_figures_are_those_of_a_slow_count(events: Sequence[tuple[str, int, int, float]]) -> None:
    meter, slow = Meter(), _Slow()
    at = 0.0
    pods: dict[int, str] = {}  # number to node, "" while it waits
    nodes: set[int] = set()
    meter.put(0, make_object("Namespace", "default"))
    for verb, number, node, after in events:
        at += after
        slow.pass_to(at, pods, nodes)
        pod = make_pod(f"pod-{number}", cpu=str(number + 1))
        if verb == "come" and number not in pods:
            meter.put(at, pod)
            pods[number] = ""
        elif verb == "place" and pods.get(number) == "" and node in nodes:
            meter.put(at, bound(pod, f"node-{node}"))
            pods[number] = f"node-{node}"
        elif verb == "go" and number in pods:
            gone(meter, at, pod)
            del pods[number]
        elif verb == "refuse":
            meter.refused(at, pod.uid, FIT)
        elif verb == "node":
            meter.put(at, make_node(f"node-{node}", cpu="8", zone="ab"[node % 2]))
            nodes.add(node)
        elif verb == "node goes" and f"node-{node}" not in pods.values():
            meter.deleted(at, "Node", f"node-{node}")
            nodes.discard(node)
    slow.pass_to(at + 1, pods, nodes)
    found = meter.finish(at + 1)
    assert found.row["pendingMean"] == pytest.approx(slow.pending_s / (at + 1))
    assert found.row["pending"] == sum(not node for node in pods.values())
    if slow.has_s:
        assert found.row["allocated.cpu"] == pytest.approx(slow.used_s / slow.has_s)
    by_cause = sum(value for name, value in found.row.items() if name.startswith("pendingMean."))
    assert by_cause == pytest.approx(found.row["pendingMean"])


class _Slow:
    """Adds up the spans of existing objects."""

    def __init__(self) -> None:
        self.now = self.pending_s = self.used_s = self.has_s = 0.0

    def pass_to(self, at: float, pods: dict[int, str], nodes: set[int]) -> None:
        span, self.now = at - self.now, at
        self.pending_s += span * sum(not node for node in pods.values())
        self.used_s += span * sum(number + 1 for number, node in pods.items() if node)
        self.has_s += span * 8 * len(nodes)
