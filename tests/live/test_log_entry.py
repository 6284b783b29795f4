"""Lines of the decision log: bounded, whatever the size of the cluster."""

from __future__ import annotations

import json
from types import SimpleNamespace

import msgspec

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.core.config.load import default_config
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.live.context import SchedulerOptions
from mooring.live.observer import MAX_NODES, LoggedDecisions, log_entry
from mooring.live.scheduler import Scheduler
from mooring.testing import make_node, make_pod


def decide(cpu, nodes=30):
    cluster = ClusterState()
    for i in range(nodes):
        amounts = {"cpu": str(2 + i % 7), "memory": "8Gi", "pods": "110"}
        cluster.put(from_plain(Node, {"metadata": {"name": f"n{i}"}, "status": {"allocatable": amounts}}))
    session = open_session(default_config(), cluster)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": "p", "namespace": "d", "uid": "u"}
    pod = from_plain(Pod, {"metadata": meta, "spec": {"schedulerName": "default-scheduler", "containers": [container]}})
    profile = session.profiles["default-scheduler"]
    decision = session.engine.decide(cluster.info(pod), profile)
    return json.loads(msgspec.json.encode(log_entry(decision, profile, 2, 1_794_774_338.0, 0.000123)))


def test_a_placed_pod_has_the_best_nodes_with_their_scores():
    entry = decide("1")
    assert (entry["pod"], entry["outcome"], entry["attempt"], entry["microseconds"]) == ("d/p", "scheduled", 2, 123)
    assert (entry["nodes"], entry["feasibleNodes"], entry["time"]) == (30, 30, "2026-11-15T20:25:38.000000Z")
    totals = [score["total"] for score in entry["scores"]]
    assert len(totals) == MAX_NODES and totals == sorted(totals, reverse=True)
    assert entry["node"] in {score["node"] for score in entry["scores"] if score["total"] == totals[0]}
    assert all(sum(score["plugins"].values()) == score["total"] for score in entry["scores"])


def test_a_refused_pod_has_the_reason_and_the_plugins():
    entry = decide("99")
    assert (entry["outcome"], entry["reason"], entry["plugins"]) == (
        "unschedulable",
        "Unschedulable",
        ["NodeResourcesFit"],
    )
    assert entry["message"].startswith("0/30 nodes are available: 30 Insufficient cpu.")
    assert "scores" not in entry and "victims" not in entry


async def test_only_sampled_decisions_are_logged_and_only_those_ask_for_detail(make_stage):
    entries, samples = [], iter((True, False))
    log = SimpleNamespace(is_sampled=lambda: next(samples), record=entries.append)
    stage = make_stage()
    observer = LoggedDecisions(log, stage.clock)
    stage.scheduler = Scheduler(
        stage.scheduler.config,
        lambda pods: stage.writer,
        stage.recorder,
        SchedulerOptions(clock=stage.clock, observers=(observer,)),
    )
    stage.put(make_node("a"), make_node("b"), make_pod("logged"), make_pod("unlogged"))
    await stage.go()
    (entry,) = entries
    assert (entry["pod"], entry["attempt"], entry["outcome"]) == ("default/logged", 1, "scheduled")
    assert all(score["plugins"] for score in entry["scores"]), "kept in detail"
