"""A short soak of the real thing, and whether its audit would notice."""

from __future__ import annotations

import logging

import pytest

from mooring.bench.soak import slope_per_minute, soak
from mooring.bench.soak_audit import Audit
from mooring.controlplane.kinds import NODES, PODS
from mooring.controlplane.server import ControlPlane


@pytest.mark.e2e
@pytest.mark.timeout(200)
async def test_twenty_seconds_of_trouble_lose_nothing(caplog):
    caplog.set_level(logging.CRITICAL, logger="mooring")
    report = await soak(20.0, nodes=8, rate=30.0, seed=3, leader_every_s=6.0)
    assert report.problems == []
    assert report.tasks_left == 0
    assert report.pods_bound > 50
    assert report.leaders >= 2
    assert report.done.keys() >= {"create", "delete", "evict", "cordon", "drop_watch", "fail_binding"}


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
    assert slope_per_minute(samples) == pytest.approx(slope)
