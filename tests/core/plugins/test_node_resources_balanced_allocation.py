"""NodeResourcesBalancedAllocation (spec 2.9, appendix A.3)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.config.features import Features
from mooring.core.config.types import NodeResourcesBalancedAllocationArgs, ResourceSpec
from mooring.core.config.versions import V1_35
from mooring.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_cluster, make_handle, make_node, make_pod, scores

GPU = "example.com/gpu"


def plugin(cluster: ClusterState, *resources: str) -> NodeResourcesBalancedAllocation:
    args = NodeResourcesBalancedAllocationArgs([ResourceSpec(name) for name in resources or ("cpu", "memory")])
    return NodeResourcesBalancedAllocation(args, make_handle(cluster))


def scored(used: tuple[str, Any], pod: tuple[str, Any], *resources: str, **node: Any) -> int | None:
    cluster = make_cluster(
        make_node("a", **{"cpu": "100", "memory": 1000, **node}), make_pod("x", node="a", cpu=used[0], memory=used[1])
    )
    found = scores(plugin(cluster, *resources), cluster, make_pod(cpu=pod[0], memory=pod[1]))
    return None if found is None else found["a"]


@pytest.mark.parametrize(
    ("used", "pod", "wanted"),
    [
        pytest.param(("0", 0), ("26", 0), 68, id="100 to 87"),
        pytest.param(("10", 100), ("5", 50), 75, id="100 to 100: neutral"),
        pytest.param(("30", 0), ("6", 0), 73, id="85 to 82"),
        pytest.param(("6", 0), ("4", 0), 74, id="97 to 95"),
        pytest.param(("20", 0), ("20", 0), 70, id="90 to 80"),
        pytest.param(("100", 0), ("0", 1000), 100, id="50 to 100"),
        pytest.param(("0", 0), ("100", 0), 50, id="100 to 50"),
        pytest.param(("50", 0), ("50", 0), 62, id="75 to 50"),
    ],
)
def test_appendix_a3_and_trap_9(used: tuple[str, int], pod: tuple[str, int], wanted: int) -> None:
    assert scored(used, pod) == wanted


def test_until_1_35_the_balance_with_the_pod_counts() -> None:
    cluster = make_cluster(make_node("a", cpu="100", memory=1000), make_pod("x", node="a", cpu="30", memory=0))
    handle = replace(make_handle(cluster), features=Features(V1_35))
    args = NodeResourcesBalancedAllocationArgs([ResourceSpec(name) for name in ("cpu", "memory")])
    asked = make_pod(cpu="6", memory=0)
    assert scores(NodeResourcesBalancedAllocation(args, handle), cluster, asked) == {"a": 82}


def test_best_effort_pods_are_skipped() -> None:
    cluster = make_cluster(make_node("a"))
    assert scores(plugin(cluster), cluster, make_pod()) is None
    assert scores(plugin(cluster), cluster, make_pod(requests={GPU: 1})) is None, "nothing of what is balanced"
    assert scores(plugin(cluster), cluster, make_pod(spec={"resources": {"requests": {"cpu": "1"}}})) is not None


def test_trap_11_defaults_do_not_count_here() -> None:
    cluster = make_cluster(make_node("a"), *(make_pod(f"x{i}", node="a") for i in range(20)))
    assert scores(plugin(cluster), cluster, make_pod(cpu="2", memory="4Gi")) == {"a": 75}


def balance(fractions: list[float]) -> int:
    """The formula of the spec in plain Python."""
    if len(fractions) == 2:
        std = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        std = math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
    else:
        std = 0.0
    return int((1 - std) * 100)


AMOUNTS = st.integers(0, 120)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, st.sampled_from([0, 1, 50, 100])), min_size=1, max_size=4))
def test_against_the_formula(amounts: list[tuple[int, int, int]]) -> None:
    """(used, asked, allocatable) for as many resources as there are; those a node lacks do not count."""
    names = [f"example.com/r{i}" for i in range(len(amounts))]
    cluster = make_cluster(
        make_node("a", allocatable={name: amount[2] for name, amount in zip(names, amounts, strict=True)}),
        make_pod("x", node="a", requests={name: amount[0] for name, amount in zip(names, amounts, strict=True)}),
    )
    pod = make_pod(requests={name: amount[1] for name, amount in zip(names, amounts, strict=True)})
    found = scores(plugin(cluster, *names), cluster, pod)
    counted = [a for a in amounts if a[1] and a[2]]  # a scalar counts where the pod asks and the node has it
    if not any(asked for _, asked, _ in amounts):
        assert found is None
        return
    after = balance([min((used + asked) / there, 1.0) for used, asked, there in counted])
    before = balance([min(used / there, 1.0) for used, asked, there in counted])
    assert found == {"a": 50 + (50 + after - before) // 2}
