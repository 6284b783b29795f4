"""NodeResourcesFit (spec 2.8, appendices A.1 and A.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.core.config.types import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.core.framework.status import Code, Status
from mooring.core.plugins.node_resources_fit import NodeResourcesFit
from mooring.core.plugins.resource_usage import piecewise_linear
from mooring.core.state.cluster import ClusterState
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod, scores

GPU = "example.com/gpu"


def plugin(cluster: ClusterState, **args: Any) -> NodeResourcesFit:
    return NodeResourcesFit(NodeResourcesFitArgs(**args), make_handle(cluster))


def judged(cluster: ClusterState, pod: Any, **args: Any) -> Status:
    return filter_statuses(plugin(cluster, **args), cluster, pod)["a"]


def world(*pods: Any, **node: Any) -> ClusterState:
    return make_cluster(make_node("a", **node), *pods)


U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@pytest.mark.parametrize(
    ("cluster", "pod", "code", "reasons"),
    [
        pytest.param(world(), make_pod(cpu="4", memory="8Gi"), Code.SUCCESS, (), id="exactly what is there"),
        pytest.param(world(), make_pod(cpu="4001m"), UU, ("Insufficient cpu",), id="trap 19: more than the node has"),
        pytest.param(
            world(make_pod("x", node="a", cpu="1m")),
            make_pod(cpu="4"),
            U,
            ("Insufficient cpu",),
            id="more than is left",
        ),
        pytest.param(
            world(make_pod("x", node="a", memory="8Gi")), make_pod(memory=1), U, ("Insufficient memory",), id="memory"
        ),
        pytest.param(
            world(),
            make_pod(cpu="5", memory="9Gi"),
            UU,
            ("Insufficient cpu", "Insufficient memory"),
            id="everything that lacks is named",
        ),
        pytest.param(
            world(make_pod("x", node="a", cpu="4")),
            make_pod(cpu="1", memory="9Gi"),
            UU,
            ("Insufficient cpu", "Insufficient memory"),
            id="one unresolvable makes the node unresolvable",
        ),
        pytest.param(
            world(pods=0), make_pod(), U, ("Too many pods",), id="trap 19: too many pods is never unresolvable"
        ),
        pytest.param(world(pods=None), make_pod(), U, ("Too many pods",), id="trap 30: no allocatable pods means none"),
        pytest.param(
            world(make_pod("x", node="a"), pods=1),
            make_pod(cpu="9"),
            UU,
            ("Too many pods", "Insufficient cpu"),
            id="both",
        ),
        pytest.param(
            world(make_pod("x", node="a", cpu="4")), make_pod(), Code.SUCCESS, (), id="a pod that asks nothing"
        ),
        pytest.param(
            world(make_pod("x", node="a", cpu="4")),
            make_pod(cpu=0, memory="1"),
            Code.SUCCESS,
            (),
            id="an explicit 0 is nothing",
        ),
        pytest.param(
            world(),
            make_pod(requests={"ephemeral-storage": "1Gi"}),
            UU,
            ("Insufficient ephemeral-storage",),
            id="ephemeral storage",
        ),
        pytest.param(
            world(), make_pod(requests={GPU: 1}), UU, (f"Insufficient {GPU}",), id="an unknown extended resource"
        ),
        pytest.param(
            world(make_pod("x", node="a", requests={GPU: 1}), allocatable={GPU: 1}),
            make_pod(requests={GPU: 1}),
            U,
            (f"Insufficient {GPU}",),
            id="one that is taken",
        ),
        pytest.param(
            world(allocatable={"hugepages-2Mi": "2Mi"}),
            make_pod(requests={"hugepages-2Mi": "2Mi"}),
            Code.SUCCESS,
            (),
            id="huge pages",
        ),
        pytest.param(
            world(), make_pod(requests={"storage": "1Gi"}), Code.SUCCESS, (), id="untracked names are ignored"
        ),
    ],
)
def test_filter(cluster: ClusterState, pod: Any, code: Code, reasons: tuple[str, ...]) -> None:
    status = judged(cluster, pod)
    assert (status.code, set(status.reasons)) == (code, set(reasons))


@pytest.mark.parametrize(
    ("args", "resource", "passes"),
    [
        ({"ignored_resources": [GPU]}, GPU, True),
        ({"ignored_resources": ["example.com/other"]}, GPU, False),
        ({"ignored_resource_groups": ["example.com"]}, GPU, True),
        ({"ignored_resource_groups": ["example"]}, GPU, False),
        ({"ignored_resources": ["hugepages-2Mi"]}, "hugepages-2Mi", False),
    ],
    ids=["by name", "another name", "by group", "another group", "only extended resources can be ignored"],
)
def test_ignored_resources(args: dict[str, Any], resource: str, passes: bool) -> None:
    assert judged(world(), make_pod(requests={resource: "2Mi"}), **args).is_success is passes


def test_terminating_pods_hold_what_they_have() -> None:
    going = make_pod("x", node="a", cpu="4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert judged(world(going), make_pod(cpu="1")).code is U


def test_all_of_many_missing_resources_are_named() -> None:
    wanted = {f"example.com/r{i}": 1 for i in range(40)}
    status = judged(world(), make_pod(requests=wanted))
    assert set(status.reasons) == {f"Insufficient {name}" for name in wanted} and status.code is UU


def strategy(kind: str, *resources: tuple[str, int], shape: Any = None) -> ScoringStrategy:
    ratio = None
    if shape is not None:
        ratio = RequestedToCapacityRatioParam([UtilizationShapePoint(u, s) for u, s in shape])
    chosen = [ResourceSpec(name, weight) for name, weight in resources or (("cpu", 1), ("memory", 1))]
    return ScoringStrategy(kind, chosen, ratio)


def scored(cluster: ClusterState, pod: Any, how: ScoringStrategy) -> int:
    found = scores(plugin(cluster, scoring_strategy=how), cluster, pod)
    assert found is not None
    return found["a"]


MIB = 2**20


@pytest.mark.parametrize(
    ("used", "pod", "least", "most"),
    [
        pytest.param({"cpu": "1", "memory": "2Gi"}, {"cpu": "500m", "memory": "1Gi"}, 62, 37, id="row 1"),
        pytest.param({"cpu": "1", "memory": "2Gi"}, {}, 72, 27, id="row 2: defaults of 100m and 200Mi"),
        pytest.param(None, {}, 97, 2, id="row 3: an empty node"),
        pytest.param({"cpu": "3900m", "memory": "1Gi"}, {"cpu": "200m", "memory": "1Gi"}, 37, 62, id="row 4: overfull"),
    ],
)
def test_appendix_a1(used: Any, pod: dict[str, str], least: int, most: int) -> None:
    cluster = world(*([] if used is None else [make_pod("x", node="a", **used)]))
    assert scored(cluster, make_pod(**pod), strategy("LeastAllocated")) == least
    assert scored(cluster, make_pod(**pod), strategy("MostAllocated")) == most


RISING, FALLING = [(0, 0), (100, 10)], [(0, 10), (70, 3), (100, 0)]


@pytest.mark.parametrize(
    ("shape", "utilization", "wanted"),
    [(RISING, u, s) for u, s in ((0, 0), (37, 37), (50, 50), (100, 100))]
    + [(FALLING, u, s) for u, s in ((0, 100), (33, 67), (70, 30), (85, 15), (99, 1))],
)
def test_appendix_a2_and_trap_14_slopes_truncate_toward_zero(shape: Any, utilization: int, wanted: int) -> None:
    points = [(u, s * 10) for u, s in shape]
    assert piecewise_linear(np.array([utilization]), points).tolist() == [wanted]


def test_trap_8_averages_are_cut_off_and_the_ratio_strategy_rounds() -> None:
    """A third of the cpu (33.3) and half of the memory (50): 41.5 becomes 41 or 42."""
    cluster = world(make_pod("x", node="a", cpu=0, memory=1), cpu="3", memory=2)
    pod = make_pod(cpu="1", memory=0)
    assert scored(cluster, pod, strategy("MostAllocated")) == 41
    assert scored(cluster, pod, strategy("LeastAllocated")) == (66 + 50) // 2
    assert scored(cluster, pod, strategy("RequestedToCapacityRatio", shape=RISING)) == 42


def test_trap_8_resources_that_score_0_lose_their_weight_in_the_ratio_strategy() -> None:
    cluster = world(allocatable={GPU: 4})
    how = strategy("RequestedToCapacityRatio", ("cpu", 1), (GPU, 3), shape=RISING)
    assert scored(cluster, make_pod(cpu=0, requests={GPU: 2}), how) == 50, "cpu scores 0 and does not count"
    most = strategy("MostAllocated", ("cpu", 1), (GPU, 3))
    assert scored(cluster, make_pod(cpu=0, requests={GPU: 2}), most) == 150 // 4, "elsewhere it does"


def test_weights_and_missing_resources() -> None:
    cluster = world(cpu="4", allocatable={GPU: 2})
    how = strategy("LeastAllocated", ("cpu", 3), (GPU, 1))
    assert scored(cluster, make_pod(cpu="1", requests={GPU: 1}), how) == (75 * 3 + 50) // 4
    assert scored(cluster, make_pod(cpu="1"), how) == 75, "a scalar that the pod does not ask for does not count"
    other = strategy("LeastAllocated", ("cpu", 3), ("example.com/none", 1))
    assert scored(cluster, make_pod(cpu="1", requests={"example.com/none": 1}), other) == 75, "nor one the node lacks"
    assert scored(cluster, make_pod(), strategy("LeastAllocated", ("example.com/none", 1))) == 0, "nothing counts: 0"


def test_trap_12_pod_level_requests_count_on_the_node_but_not_for_the_pod_itself() -> None:
    resources = {"resources": {"requests": {"cpu": "2"}}}
    how = strategy("LeastAllocated", ("cpu", 1))
    assert scored(world(), make_pod(cpu="1", spec=resources), how) == 75
    there = make_pod("x", node="a", cpu="1", spec=resources)
    assert scored(world(there), make_pod(cpu=0), how) == 50


def test_more_resources_than_a_number_has_bits():
    wanted = {f"example.com/r{i:02d}": "1" for i in range(70)}
    cluster = make_cluster(make_node("poor"), make_node("half", allocatable=dict.fromkeys(list(wanted)[:35], "1")))
    statuses = filter_statuses(
        NodeResourcesFit(NodeResourcesFitArgs(), make_handle(cluster)), cluster, make_pod(requests=wanted)
    )
    assert statuses["poor"].reasons == tuple(f"Insufficient {name}" for name in wanted)
    assert statuses["half"].reasons == tuple(f"Insufficient {name}" for name in list(wanted)[35:])
    assert {status.code for status in statuses.values()} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
