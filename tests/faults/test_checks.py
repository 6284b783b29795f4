"""The checks of a soak would notice: an audit of every write, and what a scheduler at rest holds."""

from __future__ import annotations

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import default_config
from mooring.live.events import InvolvedObject
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.testing import make_node, make_pod
from tests.faults.holdings import left_behind
from tests.faults.store_audit import Audit


@pytest.fixture
def at_rest(world):
    """A scheduler that knows the cluster and has nothing to do; it gets only the events of a test."""
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
            id="an event without a writer",
        ),
    ],
)
def test_what_a_scheduler_at_rest_should_not_hold_is_noticed(at_rest, happens, what):
    plane, live = at_rest
    happens(live)
    assert left_behind(plane, live) == what


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
