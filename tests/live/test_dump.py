"""What a running scheduler shows of itself."""

from __future__ import annotations

import logging

import pytest

from mooring.core.framework.status import Code, Status
from mooring.live.control import dump, queue_content
from mooring.testing import bound, make_node, make_pod


class Waits:
    name = "Waits"

    def __init__(self, args, handle):
        pass

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT), 60.0) if "waits" in pod.pod.metadata.labels else (Status(Code.SUCCESS), 0.0)


async def test_the_dump_lists_queued_pods_with_reasons(make_stage):
    stage = make_stage(plugins=[Waits])
    stage.put(make_node("a", cpu="2"), make_pod("held", cpu="1", labels={"waits": "yes"}), make_pod("big", cpu="9"))
    stage.put(make_pod("gated", spec={"schedulingGates": [{"name": "x"}]}))
    await stage.go()
    stage.put(make_pod("new", priority=7))
    found = queue_content(stage.scheduler)
    assert found["counts"] == {"active": 1, "backoff": 0, "unschedulable": 1, "gated": 1}
    assert found["waitingOnPermit"] == [{"pod": "default/held", "node": "a", "plugins": ["Waits"]}]
    pods = {pod["name"]: pod for pod in found["pods"]}
    assert {name: pod["queue"] for name, pod in pods.items()} == {
        "held": "in-flight",
        "big": "unschedulable",
        "gated": "gated",
        "new": "active",
    }
    assert (pods["new"]["priority"], pods["new"]["attempts"], pods["new"]["message"]) == (7, 0, "")
    assert pods["big"]["plugins"] == ["NodeResourcesFit"] and pods["big"]["attempts"] == 1
    assert pods["big"]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert any("Node" in event for event in pods["big"]["wakes"])
    await stage.scheduler.abort()


@pytest.mark.parametrize(
    ("watched", "says"),
    [
        pytest.param(
            {"nodes": [make_node("a")], "pods": [bound(make_pod("theirs"), "a")]},
            [("Cache of nodes agrees with the watches", {"count": 1}), ("Cache of pods agrees with the watches", None)],
            id="both agree",
        ),
        pytest.param(
            {"nodes": [make_node("b")], "pods": [make_pod("pending")]},
            [
                ("Cache mismatch of nodes", {"missing": ["b"], "redundant": ["a"]}),
                ("Cache mismatch of pods", {"missing": [], "redundant": ["default/theirs"]}),
            ],
            id="the cache knows what is gone and misses what is there",
        ),
    ],
)
async def test_the_cache_is_compared_with_the_watches(make_stage, caplog, watched, says):
    caplog.set_level(logging.INFO)
    stage = make_stage()
    stage.put(make_node("a"), bound(make_pod("theirs"), "a"), make_pod("ours"))
    await stage.go()
    caplog.clear()
    dump(stage.scheduler, watched)
    told = [(record.getMessage(), record.values) for record in caplog.records]
    for message, values in says:
        assert any(message == text and values in (None, found) for text, found in told), told
    assert (
        "Dump of cached NodeInfo",
        {"node": "a", "count": 2, "pods": "default/theirs default/ours (assumed)"},
    ) in told
