"""Which nodes Karpenter disrupts, and when: emptiness, consolidation, budgets, what pods forbid, and age."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.sim.autoscaler.disruption import eviction_cost, is_protected
from mooring.sim.objects import pod as manifest
from tests.sim.autoscaler.stories import SIZES, played, pods, pool, row, scaled, types

SOON = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
SHORT = {"run": "5m"}


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    return {"apply": {**kind, "spec": {"selector": selector, **spec}}}


ONCE = {**SOON, "consolidationPolicy": "WhenEmpty"}
ONE, BIG = pods(1, "2", name="a-{i}"), pods(1, "6", name="b-{i}", **SHORT)
SAFE = pods(1, "2", name="a-{i}", annotations={"karpenter.sh/do-not-disrupt": "true"})
WEB = pods(1, "2", name="a-{i}", labels={"app": "web"})
GONE = pods(2, "2", **SHORT)


@pytest.mark.parametrize(
    ("disruption", "steps", "removed", "evicted"),
    [
        pytest.param(SOON, [GONE], {"Empty": 1}, 0, id="an empty node"),
        pytest.param(ONCE, [GONE], {"Empty": 1}, 0, id="when empty"),
        pytest.param({"consolidateAfter": "Never"}, [GONE], {}, 0, id="never"),
        pytest.param({**SOON, "consolidateAfter": "3h"}, [GONE], {}, 0, id="not long enough"),
        pytest.param({**SOON, "budgets": [{"nodes": "0"}]}, [GONE], {}, 0, id="no budget"),
        pytest.param(
            {**SOON, "budgets": [{"nodes": "0", "reasons": ["Underutilized"]}]}, [GONE], {"Empty": 1},
            0, id="a budget for another reason",
        ),
        pytest.param(
            SOON, [ONE, BIG], {"Underutilized": 1}, 1,
            id="a cheaper node for what is left",
        ),
        pytest.param(
            ONCE, [ONE, BIG],
            {}, 0, id="what is left stays when only empty nodes go",
        ),
        pytest.param(
            SOON,
            [SAFE, BIG],
            {}, 0, id="a pod that must not be disrupted",
        ),
        pytest.param(
            SOON, [budget(minAvailable=1), WEB, BIG],
            {}, 0, id="a budget that allows nothing",
        ),
    ],
)  # fmt: skip
def test_what_goes(disruption: dict[str, Any], steps: list[Any], removed: dict[str, int], evicted: int) -> None:
    result = played(pool(disruption=disruption), *steps, until_s=3600)
    assert scaled(result).removed == removed
    assert sum(scaled(result).evicted.values()) == evicted
    assert result.running == sum(
        step["workload"]["count"] for step in steps if "workload" in step and "run" not in step["workload"]
    )


def test_two_nodes_become_one_that_is_cheaper() -> None:
    catalogue = [row("small", 2, price=1), row("medium", 4, price=1.5)]
    steps = [pods(1, "2", name="a-{i}"), {"advance": "3m"}, pods(1, "2", name="b-{i}")]
    result = played(pool(disruption={**SOON, "consolidateAfter": "30s"}), *steps, catalogue=catalogue, until_s=3600)
    assert types(result) == ["small", "small", "medium"]
    assert scaled(result).removed == {"Underutilized": 2} and result.running == 2


def test_spot_nodes_are_not_replaced_by_spot_nodes() -> None:
    """The gate SpotToSpotConsolidation is off."""
    catalogue = [row("small", 2, price=1, spotPrice=0.3), row("large", 8, price=3.4, spotPrice=1)]
    spot = ("karpenter.sh/capacity-type", "In", ["spot"])
    steps = [ONE, BIG]
    result = played(pool("p", spot, disruption=SOON), *steps, catalogue=catalogue, until_s=3600)
    assert types(result) == ["large/spot"] and not scaled(result).removed


def test_a_node_stays_until_its_replacement_is_there() -> None:
    steps = [ONE, BIG]
    result = played(pool(disruption=SOON), *steps, cloud={"delay": "60s"}, until_s=3600)
    old, new = scaled(result).nodes
    assert old.removed_s is not None and new.joined_s < old.removed_s


def test_without_a_replacement_a_node_stays_and_takes_pods_again() -> None:
    steps = [
        pods(1, "2", name="a-{i}"),
        pods(1, "6", name="b-{i}", **SHORT),
        {"advance": "20m"},
        pods(1, "6", name="c-{i}"),
    ]
    result = played(pool(disruption=SOON), *steps, cloud={"quota": {"nodes": 1}}, until_s=3600)
    assert types(result) == ["large"] and result.running == 2


@pytest.mark.parametrize("nodes", ["1", "20%"])
def test_no_more_nodes_go_together_than_the_budget_allows(nodes: str) -> None:
    """Ten nodes are empty, and go one or two at a time: the next ones after fifteen seconds of validation."""
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]}
    result = played(pool(disruption=disruption), pods(10, "2", run="5m"), catalogue=SIZES[:1], until_s=3600)
    gone = sorted(life.removed_s or 0.0 for life in scaled(result).nodes)
    most = 1 if nodes == "1" else 2
    assert len(gone) == 10
    assert max(sum(1 for other in gone if at <= other < at + 10) for at in gone) <= most


def test_a_node_expires_whatever_budgets_say() -> None:
    policy = pool(disruption={"budgets": [{"nodes": "0"}]}, template={"expireAfter": "30m"})
    result = played(policy, pods(1, "2"), until_s=5400)
    assert scaled(result).removed["Expired"] >= 2
    assert result.running == 1 or result.pending


def test_after_the_grace_period_a_node_goes_with_what_is_on_it() -> None:
    policy = pool(template={"expireAfter": "10m", "terminationGracePeriod": "5m"})
    result = played(policy, budget(minAvailable=1), pods(1, "2", labels={"app": "web"}), until_s=3600)
    first = scaled(result).nodes[0]
    assert first.removed_s is not None and 15 * 60 <= first.removed_s < 16 * 60  # counted from its order


@pytest.mark.parametrize(
    ("annotations", "priority", "cost"),
    [
        pytest.param({}, 0, 1.0, id="plain"),
        pytest.param({}, 2**25, 2.0, id="a priority"),
        pytest.param({"controller.kubernetes.io/pod-deletion-cost": str(-(2**27))}, 0, 0.0, id="cheap to delete"),
        pytest.param({"controller.kubernetes.io/pod-deletion-cost": "x"}, 0, 1.0, id="no number"),
        pytest.param({}, 10**9, 10.0, id="at most"),
    ],
)
def test_what_an_eviction_costs(annotations: dict[str, str], priority: int, cost: float) -> None:
    assert eviction_cost(from_plain(Pod, manifest("a", annotations=annotations, priority=priority))) == cost


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("true", True, id="always"),
        pytest.param("10m", True, id="for a while yet"),
        pytest.param("2m", False, id="for a while that is over"),
        pytest.param("soon", False, id="not a duration"),
    ],
)
def test_what_a_pod_forbids(text: str, expected: bool) -> None:
    made = from_plain(Pod, manifest("a", annotations={"karpenter.sh/do-not-disrupt": text}))
    made.status.start_time = "1970-01-01T00:00:00Z"
    assert is_protected(made, 300) is expected
