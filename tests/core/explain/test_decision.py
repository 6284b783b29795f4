"""A decision as a value: what it says, how it looks, and its JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.core import Pod
from mooring.core.explain.decision import Decision
from mooring.core.explain.why import explain_pod
from mooring.testing import Scheduler, make_node, make_pod


def decided(pod: Pod, *objects: Any) -> Decision:
    session = Scheduler(*objects).session
    return Decision(session.decide(pod), "default-scheduler", session.handle.cluster)


NODES = [make_node("a"), make_node("b"), make_node("c", cpu=1)]


def test_a_placement() -> None:
    found = decided(make_pod("web", cpu="2"), *NODES, make_pod("x", node="a", cpu="1"))
    assert (found.is_scheduled, found.node, found.reason, found.message) == (True, "b", "", "")
    assert (found.num_nodes, found.evaluated_nodes, found.feasible_nodes, found.ties) == (3, 3, 2, 1)
    assert [share.node for share in found.scores] == ["b", "a"]
    assert all(sum(share.shares.values()) == share.total for share in found.scores)
    assert [(each.plugin, each.nodes) for each in found.refusals] == [("NodeResourcesFit", ("c",))]
    assert repr(found) == "<Decision: default/web goes to b: 2 of 3 nodes can take it>"


def test_a_refusal() -> None:
    found = decided(make_pod("web", cpu="9"), *NODES)
    assert (found.is_scheduled, found.node, found.reason) == (False, None, "Unschedulable")
    assert found.scores == [] and found.ties == 0
    assert [each.nodes for each in found.refusals] == [("a", "b", "c")]
    assert repr(found).startswith("<Decision: default/web unschedulable: 0/3 nodes are available: 3 Insufficient cpu.")


def test_room_that_can_be_made() -> None:
    found = decided(make_pod("web", cpu="4", priority=5), make_node("a"), make_pod("x", node="a", cpu="1"))
    assert (found.nominated_node, [victim.pod for victim in found.victims]) == ("a", ["default/x"])
    assert repr(found).endswith("; room can be made on a>")


def test_plugins_that_leave_no_node_together_are_named_together() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = decided(make_pod("web", spec={"affinity": affinity}), *NODES)
    assert [each.plugin for each in found.refusals] == ["NodeAffinity"]


@pytest.mark.parametrize("cpu", ["2", "9"], ids=["placed", "refused"])
def test_everything_is_plain(cpu: str) -> None:
    found = decided(make_pod("web", cpu=cpu), *NODES)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert {"pod", "schedulerName", "outcome", "node", "message", "scores", "statuses", "groups", "victims"} <= set(
        plain
    )
    assert plain["node"] == found.node
    assert set(plain["statuses"]) == {node for each in found.refusals for node in each.nodes}


def test_a_notebook_shows_tables() -> None:
    assert "<th>NodeResourcesFit</th>" in decided(make_pod("web", cpu="2"), *NODES)._repr_html_()
    assert "<td>Insufficient cpu</td>" in decided(make_pod("web", cpu="9"), *NODES)._repr_html_()


def test_an_explanation_reads_as_the_command_prints_it() -> None:
    found = explain_pod(Scheduler(*NODES).session, make_pod("web", cpu="5"))
    lines = repr(found).splitlines()
    assert lines[0] == "default/web fits nowhere"
    assert "  1 less CPU (4 instead of 5) on any of 2 nodes (a, b)" in lines
    html = found._repr_html_()
    assert "<li>1 less CPU (4 instead of 5) on any of 2 nodes</li>" in html
    assert "<li>cpu: 5 asked for, at most 4 free (on b)</li>" in html
    assert found.to_dict()["suggestions"][0]["text"] == found.suggestions[0].text
