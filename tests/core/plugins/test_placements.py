"""Placements of pod groups: which parts of the cluster are tried, and which is the best."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.config.types import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.pod_groups import PlacedGroup, Placement, PodGroupInfo, Tried
from mooring.core.plugins.node_resources_fit import NodeResourcesFit
from mooring.core.plugins.topology_placement_generator import PodGroupPodsCount, TopologyPlacementGenerator
from mooring.testing import bound, make_cluster, make_handle, make_node, make_pod, make_pod_group

NODES = (
    make_node("a", labels={"rack": "1"}),
    make_node("b", labels={"rack": "2"}),
    make_node("c", labels={"rack": "1"}),
    make_node("bare"),
)


def generate(topology: str, *running: tuple[str, str]):
    pods = [bound(make_pod(name, group="g"), node) for name, node in running]
    cluster = make_cluster(*NODES, *pods)
    info = PodGroupInfo(make_pod_group("g", topology=topology), ())
    found = TopologyPlacementGenerator(None, make_handle(cluster)).generate_placements(info, cluster.nodes())
    return {each.name: sorted(info.name for info in each.nodes.infos) for each in found}


@pytest.mark.parametrize(
    ("topology", "running", "want"),
    [
        pytest.param("", [], {"": ["a", "b", "bare", "c"]}, id="without a constraint everything is one placement"),
        pytest.param("rack", [], {"1": ["a", "c"], "2": ["b"]}, id="one per rack, and nodes without one in none"),
        pytest.param("rack", [("old", "c")], {"1": ["a", "c"]}, id="where pods run already"),
        pytest.param("row", [], {}, id="no node has the label"),
    ],
)
def test_which_placements_there_are(topology, running, want):
    assert generate(topology, *running) == want


@pytest.mark.parametrize(
    ("running", "want"),
    [
        pytest.param([("old", "bare")], "no topology domain found for pod default/old", id="on a bare node"),
        pytest.param([("x", "a"), ("y", "b")], "more than 1 domain found for pod group: 1, 2", id="in two racks"),
        pytest.param(
            [("lost", "gone")],
            'getting node for pod default/lost: nodeinfo not found for node name "gone"',
            id="on a node that is gone",
        ),
    ],
)
def test_a_group_that_is_where_it_should_not_be(running, want):
    with pytest.raises(CycleError) as problem:
        generate("rack", *running)
    assert problem.value.status.message == f"cannot determine domain for already scheduled pods: {want}"


def placed(cluster, names, count, **fields):
    nodes = cluster.nodes()
    rows = [cluster.table.nodes[name].row for name in names]
    pods = [cluster.info(make_pod(f"p{i}", group="g", **fields)) for i in range(count)]
    placement = Placement("", nodes.subset(np.array(rows)))
    return PlacedGroup(placement, [Tried(pod, names[0], CycleState()) for pod in pods])


def test_more_pods_are_better_and_those_that_run_count():
    cluster = make_cluster(*NODES, bound(make_pod("old", group="g"), "a"))
    plugin = PodGroupPodsCount(None, make_handle(cluster))
    info = PodGroupInfo(make_pod_group("g"), ())
    scores = [plugin.score_placement(info, placed(cluster, ["a"], count)) for count in (1, 3)]
    assert scores == [2, 4]
    assert plugin.normalize_placements(info, scores) == [50, 100]


def test_placements_without_a_pod_cannot_be_compared():
    plugin = PodGroupPodsCount(None, make_handle(make_cluster(*NODES)))
    with pytest.raises(CycleError, match="no pods from pod group are assigned to any of the candidate placements"):
        plugin.normalize_placements(PodGroupInfo(make_pod_group("g"), ()), [0, 0])


@pytest.mark.parametrize(
    ("names", "count", "want"),
    [
        pytest.param(["a", "c"], 2, 25, id="two of eight cpus"),
        pytest.param(["a"], 2, 50, id="a smaller place is fuller"),
        pytest.param(["b"], 2, 75, id="what runs there counts"),
    ],
)
def test_the_fuller_place_is_better(names, count, want):
    cluster = make_cluster(*NODES, bound(make_pod("old", cpu="1", memory="1Gi"), "b"))
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("LeastAllocated", [ResourceSpec("cpu", 1)]))
    plugin = NodeResourcesFit(args, make_handle(cluster))
    info = PodGroupInfo(make_pod_group("g"), ())
    assert plugin.score_placement(info, placed(cluster, names, count, cpu="1", memory="1Gi")) == want
