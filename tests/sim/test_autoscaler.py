"""Node groups grow for pending pods, as far as they may, and shrink when their nodes stay empty."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.record.meter import measure_record
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.sim.player import run_in_virtual_time
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.simulate import run_scenario


def story(*steps: str) -> Scenario:
    text = "steps:\n" + "".join(f"- {step}\n" for step in steps)
    return parse_scenario(text, source="story.yaml", folder=Path(), name="story")


def simulated(*steps: str, until_s: float | None = None) -> Simulation:
    result = run_scenario(story(*steps), keeps_placements=True, until_s=until_s)
    assert not result.failure, result.failure
    return result


def test_a_group_grows_for_pending_pods_after_its_delay() -> None:
    group = "nodeGroup: {name: pool, min: 1, max: 5, delay: 1m, cpu: '2'}"
    result = simulated(group, "workload: {count: 4, cpu: '1'}")
    assert (result.nodes, result.placed, len(result.pending)) == (2, 4, 0)
    assert result.placements is not None
    late = [each.at_s for each in result.placements.values() if each.node == "pool-2"]
    assert len(late) == 2 and all(70 <= at_s <= 71 for at_s in late)  # seen after 10 s, there a minute later


def test_a_group_grows_no_further_than_it_may() -> None:
    result = simulated("nodeGroup: {name: pool, max: 2, cpu: '1'}", "workload: {count: 5, cpu: '1'}")
    assert (result.nodes, result.placed, len(result.pending)) == (2, 2, 3)


@pytest.mark.parametrize("least", [0, 1])
def test_a_node_whose_name_is_taken_ends_the_story(least: int) -> None:
    """It never came, and the simulation waited for it for ever."""
    taken = "apply: {apiVersion: v1, kind: Node, metadata: {name: pool-1}, status: {capacity: {cpu: '1', pods: '9'}}}"
    group = f"nodeGroup: {{name: pool, min: {least}, max: 2, cpu: '1'}}"
    found = run_scenario(story(taken, "workload: {count: 3, cpu: '1'}", group))
    assert 'node group pool: node pool-1: nodes "pool-1" already exists' in found.failure
    assert found.is_mistake and found.ended_at_s < 600


def test_pods_that_would_not_fit_add_no_node() -> None:
    result = simulated("nodeGroup: {name: pool, max: 2, cpu: '1'}", "workload: {count: 1, cpu: '3'}")
    assert (result.nodes, len(result.pending)) == (0, 1)


def test_many_pods_that_no_node_helps_do_not_keep_it_from_those_that_one_does() -> None:
    result = simulated(
        "nodes: {count: 1, cpu: 100m}",
        "nodeGroup: {name: pool, max: 2, delay: 1m, cpu: '1'}",
        "workload: {count: 201, every: 0s, name: 'huge-{i}', cpu: '9', priority: 1}",
        "workload: {count: 1, cpu: '1', name: 'small-{i}'}",
    )
    assert (result.nodes, result.placed, len(result.pending)) == (2, 1, 201)


@pytest.mark.parametrize(
    ("tolerations", "node"),
    [
        pytest.param("['team=blue:NoSchedule']", "small-1", id="the cheaper one"),
        pytest.param("[]", "large-1", id="the one that the pod may use"),
    ],
)
def test_the_cheapest_group_that_helps_grows(tolerations: str, node: str) -> None:
    result = simulated(
        "nodeGroup: {name: large, max: 5, price: 4, cpu: '8'}",
        "nodeGroup: {name: small, max: 5, price: 1, cpu: '2', taints: ['team=blue:NoSchedule']}",
        f"workload: {{count: 1, cpu: '1', tolerations: {tolerations}}}",
    )
    assert result.placements is not None and result.nodes == 1
    assert [each.node for each in result.placements.values()] == [node]


def test_nodes_that_stay_empty_go_and_what_they_cost_is_known() -> None:
    group = "nodeGroup: {name: pool, min: 1, max: 5, delay: 0s, idle: 5m, price: 6, cpu: '1'}"
    result = simulated(group, "workload: {count: 3, cpu: '1', run: 10m}", until_s=7200)
    assert (result.nodes, result.ended) == (1, 3)
    assert result.measures is not None
    assert result.measures.row["cost"] == pytest.approx(6 * 2 + 6 * 2 * 0.25, rel=0.02)  # 2 h, and twice 15 minutes


@pytest.mark.parametrize(
    ("group", "says"),
    [
        pytest.param("{name: pool}", "max is missing", id="no limit"),
        pytest.param("{name: pool, min: 3, max: 2}", "max: expected at least min, which is 3", id="too few"),
        pytest.param("{name: pool, max: 2, price: low}", "price: expected what a node costs", id="a price in words"),
        pytest.param("{name: pool, max: 2, taints: [x]}", "taint 'x'", id="no taint"),
        pytest.param("{name: pool, max: 2, size: 3}", "unknown field 'size'", id="a field that is not there"),
    ],
)
def test_mistakes(group: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        story(f"nodeGroup: {group}")


def test_a_scenario_run_scales_no_group() -> None:
    assert (
        "only mooring simulate autoscales nodes"
        in run_in_virtual_time(story("nodeGroup: {name: pool, max: 1}")).failure
    )


def test_the_record_of_a_run_knows_what_nodes_cost() -> None:
    sink = io.BytesIO()
    recorder = Recorder(Immediately(sink), source="simulation")
    group = "nodeGroup: {name: pool, min: 2, max: 2, price: 0.35, cpu: '1'}"
    result = run_scenario(story(group, "workload: {count: 1, run: 2h}"), observers=(recorder,))
    recorder.close()
    assert result.measures is not None and result.measures.row["cost"] == pytest.approx(2 * 2 * 0.35, rel=0.01)
    told = measure_record(Record(io.BytesIO(sink.getvalue()), "run"))
    assert told.row["cost"] == pytest.approx(result.measures.row["cost"], rel=0.01)


def daemon(**spec: object) -> str:
    """A step with a DaemonSet whose pods take a CPU each."""
    pod = {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}], **spec}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod}
    content = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    kind = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": content}
    return f"apply: {json.dumps(kind)}"


TAINTED = (
    "nodeGroup: {name: pool, max: 10, delay: 1m, idle: 1h, cpu: '4', labels: {disk: ssd}, taints: ['a=b:NoSchedule']}"
)
TOLERATED = "workload: {count: 12, every: 0s, cpu: '1', tolerations: ['a=b:NoSchedule']}"


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        pytest.param({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "ssd"}}, 4, id="it takes room"),
        pytest.param({}, 3, id="it does not tolerate the nodes"),
        pytest.param({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "hdd"}}, 3, id="other nodes"),
    ],
)
def test_new_nodes_are_planned_with_the_pods_of_daemon_sets(spec: dict[str, object], nodes: int) -> None:
    result = simulated(daemon(**spec), TAINTED, TOLERATED, "advance: 2m")
    assert (result.nodes, len(result.pending)) == (nodes, 0)
    assert result.placements is not None
    assert len([each for each in result.placements if "agent" in each]) == (nodes if nodes == 4 else 0)
    late = [each.at_s for name, each in result.placements.items() if "agent" not in name]
    assert max(late) < 80  # seen at the first look: none waits for a second one


def test_no_node_comes_for_pods_that_daemons_leave_no_room_for() -> None:
    group, pods = "nodeGroup: {name: pool, max: 5, delay: 1m, cpu: '2'}", "workload: {count: 3, cpu: '2'}"
    result = simulated(daemon(), group, pods, until_s=600)
    assert (result.nodes, len(result.pending)) == (0, 3)
