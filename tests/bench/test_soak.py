"""A short soak of the real thing, and whether its checks would notice."""

from __future__ import annotations

import logging
import random

import pytest

from mooring.bench.soak import Least, Report, Sample, judge_memory, note_holdings, soak
from mooring.bench.soak_audit import Audit
from mooring.bench.soak_churn import Churn
from mooring.bench.soak_holdings import TASKS, count_holdings, left_behind
from mooring.bench.soak_memory import slope_per_minute
from mooring.bench.soak_replicas import Leaders
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import Faults
from mooring.core.config.load import default_config
from mooring.live.events import InvolvedObject
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.testing import make_node, make_pod

FAULTS = {"cordon", "lose_node", "drop_watch", "expire_watch", "fail_binding", "fail_requests"}


@pytest.mark.e2e
@pytest.mark.timeout(1800)
async def test_four_hundred_changes_with_faults_lose_nothing(caplog):
    """It ends when enough has happened, not when a time is over: a slow machine takes longer and shows as much."""
    caplog.set_level(logging.CRITICAL, logger="mooring")
    enough = Least(changes=430, leader_changes=2, pods_bound=50)
    report = await soak(5.0, nodes=8, rate=30.0, seed=3, leader_every_s=3.0, least=enough)
    assert report.problems == []
    assert report.tasks_left == 0
    assert report.pods_bound >= 50
    assert report.leaders >= 2
    assert report.done.keys() >= {"create", "delete", "evict"} | FAULTS
    assert report.held_most["API server: watch history"] > 0


@pytest.mark.parametrize(
    ("reached", "missing"),
    [
        pytest.param((430, 2, 50), [], id="exactly enough"),
        pytest.param((429, 2, 50), ["429 of 430 changes"], id="a change short"),
        pytest.param((500, 0, 49), ["0 of 2 leader changes", "49 of 50 pods bound"], id="two things short"),
    ],
)
def test_a_soak_goes_on_until_enough_has_happened(reached, missing):
    assert Least(changes=430, leader_changes=2, pods_bound=50).missing(*reached) == missing


def test_every_kind_of_fault_comes_however_the_dice_fall():
    for seed in range(5):
        churn = Churn(ControlPlane(garbage_collection=False), Faults(), random.Random(seed), 4, "lease")
        churn.set_up()
        for _ in range(churn.steps_for_all_faults):
            churn.step()
        assert churn.done.keys() >= FAULTS


def test_faults_leave_most_of_the_cluster_working():
    """Or little would be bound, and a soak would show little."""
    plane = ControlPlane(garbage_collection=False)
    churn = Churn(plane, Faults(), random.Random(1), 20, "lease")
    churn.set_up()
    for _ in range(5 * churn.steps_for_all_faults):
        churn.step()
        present = list(plane.store.iterate(NODES))
        assert len(present) >= 16
        assert sum(bool(entry.object()["spec"].get("unschedulable")) for entry in present) <= 5


class _Replica:
    def __init__(self, leads=False):
        self.leads, self.terms, self.deposed = leads, 0, 0

    def depose(self, *, by_theft=None):
        self.deposed += 1
        return True


def test_a_leader_is_changed_only_when_there_is_one():
    churn = Churn(ControlPlane(garbage_collection=False), Faults(), random.Random(1), 1, "lease")
    one, two = _Replica(), _Replica()
    leaders = Leaders([one, two], churn, random.Random(1))
    assert not leaders.change()
    two.leads = True
    assert leaders.change()
    assert (leaders.changes, one.deposed, two.deposed) == (1, 0, 1)


@pytest.fixture
def at_rest(world):
    """A scheduler that knows the cluster and has nothing to do; it hears only what a test tells it."""
    plane, _ = world
    live = LiveScheduler(RestClient(ClientConfig("http://127.0.0.1:1")), default_config())
    for name in ("a", "b"):
        live.scheduler.put(make_node(name))
    return plane, live


def test_a_scheduler_at_rest_holds_what_the_api_server_has(at_rest):
    plane, live = at_rest
    _pod(plane, "x", "a")
    live.scheduler.put(make_pod("x", node="a"))
    assert left_behind(plane, live) == []


@pytest.mark.parametrize(
    ("happens", "what"),
    [
        pytest.param(
            lambda live: live.scheduler.delete(make_node("b")), ["nodes: 1 instead of 2"], id="a node it forgot"
        ),
        pytest.param(
            lambda live: live.scheduler.put(make_pod("x", node="a")),
            ["pods: 1 instead of 0", "pods on nodes: 1 instead of 0"],
            id="a pod that is gone",
        ),
        pytest.param(
            lambda live: live.scheduler.put(make_pod("x")),
            ["pods: 1 instead of 0", "pods in the queue: 1 instead of 0"],
            id="a pod that waits",
        ),
        pytest.param(
            lambda live: live.scheduler.cluster.assume(live.scheduler.cluster.info(make_pod("x")), "a"),
            ["pods on nodes: 1 instead of 0", "pods assumed: 1 instead of 0"],
            id="a pod assumed and never confirmed",
        ),
        pytest.param(
            lambda live: (
                live.scheduler.put(make_pod("x")),
                live.scheduler.queue.pop(),
                live.scheduler.put(make_node("c")),
            ),
            [
                "nodes: 3 instead of 2",
                "pods: 1 instead of 0",
                "pods in flight: 1 instead of 0",
                "events kept for pods in flight: 1 instead of 0",
            ],
            id="a pod in flight, and what it may want to know",
        ),
        pytest.param(
            lambda live: live.recorder.record(
                InvolvedObject(name="x"), type="Normal", reason="Scheduled", action="Binding", note=""
            ),
            ["events to be written: 1 instead of 0"],
            id="an event that nobody writes",
        ),
    ],
)
def test_what_a_scheduler_at_rest_should_not_hold_is_noticed(at_rest, happens, what):
    plane, live = at_rest
    happens(live)
    assert left_behind(plane, live) == what


async def test_what_is_held_is_counted_for_all_schedulers_together(at_rest):
    plane, live = at_rest
    held = count_holdings(plane, [live, live])
    assert held["API server: other objects"] >= 2
    assert held["API server: watch history"] >= 2
    assert held["schedulers: nodes"] == 4


@pytest.fixture
def world():
    plane = ControlPlane(garbage_collection=False)
    audit = Audit(plane.store)
    audit.start()
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "2"}
    for name in ("a", "b"):
        status = {"allocatable": amounts, "capacity": amounts}
        plane.api.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    return plane, audit


def _pod(plane, name, node="", cpu="500m"):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    plane.api.create(PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_two_halves_fill_a_node(world):
    plane, audit = world
    _pod(plane, "x", "a")
    _pod(plane, "y", "a")
    assert (audit.problems, audit.bound, audit.placed) == ([], 2, 2)


def test_one_too_many_is_noticed(world):
    plane, audit = world
    for name in ("x", "y", "z"):
        _pod(plane, name, "a", cpu="100m")
    assert audit.problems == ["node a holds [300, 0, 3], has room for [1000, 1073741824, 2] (with default/z)"]


def test_a_deleted_pod_makes_room(world):
    plane, audit = world
    _pod(plane, "x", "a", cpu="1")
    plane.api.delete(PODS, "default", "x", {"gracePeriodSeconds": 0})
    _pod(plane, "y", "a", cpu="1")
    assert (audit.problems, audit.placed) == ([], 1)


def test_a_pod_that_changes_its_node_is_noticed(world):
    """The API server refuses this; the audit does not rely on it."""
    plane, audit = world
    _pod(plane, "x", "a")
    entry = plane.store.get(PODS, "default", "x")
    moved = entry.object()
    moved["spec"]["nodeName"] = "b"
    plane.store.update(PODS, entry, moved)
    assert audit.problems == [
        "pod default/x was moved from a to b",
        "pod default/x was bound twice, now to b",
    ]


@pytest.mark.parametrize(
    ("samples", "slope"),
    [
        pytest.param([], 0.0, id="nothing measured"),
        pytest.param([(0, 5.0), (60, 5.0), (120, 5.0)], 0.0, id="flat"),
        pytest.param([(0, 5.0), (60, 6.0), (120, 7.0)], 1.0, id="a MiB per minute"),
        pytest.param([(0, 5.0), (30, 9.0), (60, 5.0)], 0.0, id="a bump is no slope"),
    ],
)
def test_the_slope_of_memory(samples, slope):
    assert slope_per_minute(samples)[0] == pytest.approx(slope)


@pytest.mark.parametrize(
    ("grows", "connections"),
    [
        pytest.param(0.0, (10, 20, 5, 5, 30, 40), id="connections that come look like growth, and are none"),
        pytest.param(1.5, (40, 30, 20, 10, 10, 5), id="growth that connections hide by going"),
        pytest.param(1.5, (7, 7, 7, 7, 7, 7), id="as many connections all the time"),
    ],
)
def test_the_slope_of_memory_at_an_equal_number_of_connections(grows, connections):
    samples = [(60.0 * i, 100 + grows * i + 0.25 * n) for i, n in enumerate(connections)]
    slope, each = slope_per_minute(samples, connections)
    assert slope == pytest.approx(grows)
    assert len(set(connections)) == 1 or each == pytest.approx(0.25)


def _samples(*memory, blocks=1000):
    return [Sample(60.0 * i, mib, 7, blocks + i) for i, mib in enumerate(memory)]


@pytest.mark.parametrize(
    ("minutes", "memory", "problems"),
    [
        pytest.param(60, (100, 140, 150, 150, 150, 150), [], id="flat after a warm-up"),
        pytest.param(60, (100, 101, 102, 103, 104, 105), ["memory grows by 1.00 MiB per minute"], id="it never ends"),
        pytest.param(3, (100, 101, 102, 103, 104, 105), [], id="too short to say"),
        pytest.param(60, (105, 104, 103, 102, 101, 100), [], id="it shrinks"),
    ],
)
def test_memory_that_grows_in_the_second_half_of_a_long_run_is_a_problem(minutes, memory, problems):
    report = Report(seconds=minutes * 60.0, seed=1)
    judge_memory(_samples(*memory), report)
    assert report.problems == problems
    assert (report.memory_first_mib, report.memory_last_mib) == (memory[0], memory[-1])


def test_what_was_held_after_the_warm_up_and_at_the_end_stands_beside_the_slope():
    report = Report(seconds=180.0, seed=1)
    for minute, tasks in enumerate((5, 9, 7, 6)):
        note_holdings({TASKS: tasks}, report, is_warm=minute >= 2)
    assert (report.held_middle[TASKS], report.held_last[TASKS], report.held_most[TASKS]) == (7, 6, 9)
    judge_memory(_samples(100, 100, 100, 100), report)
    assert report.blocks_slope_per_min == pytest.approx(1.0)
