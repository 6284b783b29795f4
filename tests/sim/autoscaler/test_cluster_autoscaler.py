"""What cluster-autoscaler adds and removes: cases after its source, and its flags."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.core.state.cluster import ClusterState
from mooring.sim.autoscaler.cloud import Offering
from mooring.sim.autoscaler.expanders import Option, choose
from mooring.sim.autoscaler.node_groups import NodeGroup
from mooring.sim.objects import pod as manifest
from tests.sim.autoscaler.stories import SIZES, groups, played, pods, row, scaled, types

GIB = 2**30


def group(name: str, kind: str = "small", most: int = 10, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "max": most, **more}


def option(name: str, cpu: int, memory: int, price: float, count: int, *asks: tuple[str, str], gpus: int = 0) -> Option:
    """A group that could grow by nodes for pods with these requests."""
    amounts = {
        "cpu": str(cpu),
        "memory": f"{memory}Gi",
        "pods": "110",
        **({"nvidia.com/gpu": str(gpus)} if gpus else {}),
    }
    state = ClusterState()
    made = [from_plain(Pod, manifest(f"p{i}", cpu=c, memory=m)) for i, (c, m) in enumerate(asks)]
    kind = Offering(name, "", "on-demand", price, amounts, {})
    return Option(NodeGroup(name, 0, 10, (kind,)), count, [state.info(each) for each in made])


ONE = [("1", "1Gi")]
SMALL, BALANCED = option("small", 2, 4, 1, 1, *ONE), option("balanced", 1, 1, 1, 1, *ONE)
MANY, FEW = option("many", 8, 32, 5, 1, *ONE * 3), option("few", 2, 8, 1, 1, *ONE)
GPU = option("gpu", 2, 4, 1, 1, *ONE, gpus=1)
PRIORITIES = {10: (re.compile("spot"),), 50: (re.compile("^first$"), re.compile("also"))}


@pytest.mark.parametrize(
    ("expander", "options", "expected"),
    [
        pytest.param("least-waste", [SMALL, BALANCED], {"balanced"}, id="the least of CPU and memory is left"),
        pytest.param("least-waste", [SMALL, SMALL], {"small"}, id="the same waste"),
        pytest.param("most-pods", [FEW, MANY], {"many"}, id="most pods"),
        pytest.param("least-nodes", [option("two", 1, 1, 1, 2), option("one", 2, 2, 9, 1)], {"one"}, id="fewest nodes"),
        pytest.param("random", [SMALL, MANY], {"small", "many"}, id="any of them"),
        pytest.param("priority", [option("spot-a", 1, 1, 1, 1), option("first", 1, 1, 9, 1)], {"first"}, id="highest"),
        pytest.param("priority", [option("spot-a", 1, 1, 1, 1), option("x", 1, 1, 9, 1)], {"spot-a"}, id="one"),
        pytest.param("priority", [option("x", 1, 1, 1, 1), option("y", 1, 1, 9, 1)], {"x", "y"}, id="none is named"),
        pytest.param(
            "priority,least-waste", [option("first", 2, 4, 1, 1, *ONE), option("also", 1, 1, 1, 1, *ONE)], {"also"},
            id="one after another",
        ),
        pytest.param("price", [option("dear", 1, 4, 3, 1, *ONE), option("cheap", 1, 4, 1, 1, *ONE)], {"cheap"}, id="1"),
        pytest.param("price", [GPU, option("plain", 2, 4, 3, 1, *ONE)], {"plain"}, id="GPUs are the last choice"),
        pytest.param(
            "price", [option("huge", 64, 240, 1, 1, *ONE), option("fit", 1, 4, 1, 1, *ONE)], {"fit"},
            id="a node that suits a small cluster",
        ),
    ],
)  # fmt: skip
def test_which_group_an_expander_chooses(expander: str, options: list[Option], expected: set[str]) -> None:
    names = expander.split(",")
    chosen = {
        choose(options, names, random.Random(i), num_nodes=1, priorities=PRIORITIES).group.name for i in range(20)
    }
    assert chosen == expected


@pytest.mark.parametrize("packing", ["exact", "upstream"])
@pytest.mark.parametrize(
    ("policy", "steps", "expected"),
    [
        pytest.param(groups(group("g")), [pods(4, "1")], ["small"] * 2, id="as many nodes as pods need"),
        pytest.param(groups(group("g")), [pods(1, "3")], [], id="no node for a pod that does not fit"),
        pytest.param(groups(group("g", most=2)), [pods(9, "2")], ["small"] * 2, id="no more than the group may have"),
        pytest.param(groups(group("g", min=2)), [pods(2, "2")], ["small"] * 2, id="the smallest number is there"),
        pytest.param(
            groups(group("g"), flags={"max-nodes-total": 3}), [pods(9, "2")], ["small"] * 3, id="a limit for all groups"
        ),
        pytest.param(
            groups(group("g"), flags={"expendable-pods-priority-cutoff": 1}), [pods(2, "2")], [], id="expendable pods"
        ),
        pytest.param(
            groups(group("a"), group("b", "large")), [pods(1, "7")], ["large"], id="large enough"
        ),
        pytest.param(
            groups(group("a", labels={"team": "a"}), group("b", labels={"team": "b"})),
            [pods(1, "1", nodeSelector={"team": "b"})], ["small"], id="a label of a group",
        ),
        pytest.param(
            groups(group("a", taints=["x:NoSchedule"]), group("b", "medium")), [pods(1, "1")], ["medium"], id="a taint"
        ),
    ],
)  # fmt: skip
def test_what_is_added(policy: Any, steps: list[Any], expected: list[str], packing: str) -> None:
    assert types(played(policy, *steps, packing=packing, until_s=300)) == expected


def test_one_group_grows_at_each_scan_unless_it_is_a_salvo() -> None:
    rows = group("a", labels={"team": "a"}), group("b", labels={"team": "b"})
    both = [pods(1, "1", name=f"{team}-{{i}}", nodeSelector={"team": team}) for team in "ab"]
    for salvo, between in ((False, 10), (True, 0)):
        result = played(groups(*rows, flags={"salvo-scale-up": salvo}), *both, until_s=300)
        first, second = (life.joined_s for life in scaled(result).nodes)
        assert second - first == pytest.approx(between, abs=0.5)


def test_a_group_without_capacity_is_left_out_for_five_minutes() -> None:
    result = played(groups(group("g")), pods(1, "2"), cloud={"quota": {"nodes": 0}}, until_s=1000)
    assert scaled(result).failed == {"quota": 3}  # at 10 s, five minutes later, and after twice as long


DOWN = {"scale-down-delay-after-add": "1m", "scale-down-unneeded-time": "5m"}


def left(*more: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """A node on which a small pod stays when a large one ends, and then another node for a pod of 1 CPU."""
    big, small = pods(1, "1500m", name="big-{i}", run="10m"), pods(1, "500m", name="left-{i}", **fields)
    return [big, {"advance": "2m"}, small, {"advance": "1m"}, *(more or (pods(1, "1", name="more-{i}"),))]


KEPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@pytest.mark.parametrize(
    ("flags", "steps", "removed"),
    [
        pytest.param(DOWN, [pods(2, "2", run="10m")], 2, id="empty nodes"),
        pytest.param({**DOWN, "scale-down-enabled": False}, [pods(2, "2", run="10m")], 0, id="not at all"),
        pytest.param({**DOWN, "scale-down-unneeded-time": "2h"}, [pods(2, "2", run="10m")], 0, id="not yet"),
        pytest.param({**DOWN, "scale-down-delay-after-add": "2h"}, [pods(2, "2", run="10m")], 0, id="too soon after"),
        pytest.param(DOWN, left(), 1, id="a node whose pod fits elsewhere"),
        pytest.param({**DOWN, "scale-down-utilization-threshold": 0.1}, left(), 0, id="nodes that are used enough"),
        pytest.param(
            DOWN, left(pods(1, "1", name="more-{i}", annotations=KEPT), recreate=False), 0, id="pods keep their nodes"
        ),
        pytest.param(DOWN, left(pods(1, "1", name="more-{i}", annotations=KEPT)), 1, id="one of them does"),
    ],
)  # fmt: skip
def test_what_is_removed(flags: dict[str, Any], steps: list[Any], removed: int) -> None:
    result = played(groups(group("g"), flags=flags), *steps, until_s=5400)
    assert sum(scaled(result).removed.values()) == removed
    assert not result.pending


def test_a_node_is_unneeded_for_the_whole_time_before_it_goes() -> None:
    result = played(groups(group("g"), flags=DOWN), pods(1, "2", run="10m"), until_s=5400)
    (life,) = scaled(result).nodes
    ended = life.joined_s + 600
    assert life.removed_s is not None and ended + 300 <= life.removed_s <= ended + 300 + 25


def test_nodes_are_drained_one_at_a_time() -> None:
    """Four nodes are half empty; their pods fit on two. Empty nodes may go ten at a time."""
    steps = [pods(4, "1500m", name="big-{i}", run="10m"), pods(4, "500m", name="left-{i}")]
    result = played(groups(group("g"), flags=DOWN), *steps, until_s=7200)
    gone = sorted(life.removed_s for life in scaled(result).nodes if life.removed_s is not None)
    assert len(gone) == 3 and min(b - a for a, b in pairwise(gone)) >= 10
    assert result.running == 4


@pytest.mark.parametrize("expander", ["least-waste", "most-pods", "price", "random"])
def test_every_expander_places_all_pods(expander: str) -> None:
    policy = groups(group("a"), group("b", "medium"), group("c", "large"), flags={"expander": expander})
    result = played(policy, pods(12, "1500m"), catalogue=[*SIZES, row("x", 1)])
    assert result.placed == 12 and not result.pending
