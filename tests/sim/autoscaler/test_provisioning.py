"""Which nodes Karpenter launches: cases after its source, and what exact packing adds to them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.autoscaler.stories import SIZES, played, pods, pool, row, scaled, types

SPOT = ("karpenter.sh/capacity-type", "In", ["spot"])
EITHER = ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"])
DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])
MIXED = [row("a", 2, price=1, spotPrice=0.4), row("b", 2, price=0.9)]
ZONED = [
    row("a", 2, price=1, zone="z1"),
    row("a", 2, price=0.8, zone="z2"),
    row("arm", 2, price=0.5, architecture="arm64"),
]
SPREAD = {
    "labels": {"app": "web"},
    "spec": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    },
}
APART = {
    "labels": {"app": "db"},
    "spec": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
                ]
            }
        }
    },
}


@pytest.mark.parametrize("packing", ["exact", "upstream"])
@pytest.mark.parametrize(
    ("policy", "steps", "catalogue", "expected"),
    [
        pytest.param(pool(), [pods(1, "1")], SIZES, ["small"], id="the cheapest type that holds a pod"),
        pytest.param(pool(), [pods(3, "1")], SIZES, ["medium"], id="several pods share a node"),
        pytest.param(pool(), [pods(1, "1"), pods(1, "7", name="big-{i}")], SIZES, ["large"], id="largest first"),
        pytest.param(pool(), [pods(1, "9")], SIZES, [], id="no node for a pod that is too large"),
        pytest.param(pool("p", SPOT), [pods()], MIXED, ["a/spot"], id="spot where the pool asks for it"),
        pytest.param(pool("p", EITHER), [pods()], MIXED, ["a/spot"], id="spot before on demand"),
        pytest.param(pool("p", DEMAND), [pods()], MIXED, ["b"], id="on demand, the cheapest"),
        pytest.param(
            pool("p", EITHER), [pods(nodeSelector={"karpenter.sh/capacity-type": "on-demand"})], MIXED, ["b"],
            id="a pod that selects on demand",
        ),
        pytest.param(
            pool("p", ("kubernetes.io/arch", "In", ["amd64"])), [pods()], ZONED, ["a/z2"], id="the cheapest zone"
        ),
        pytest.param(
            pool("p", ("kubernetes.io/arch", "NotIn", ["arm64"])),
            [pods(nodeSelector={"topology.kubernetes.io/zone": "z1"})], ZONED, ["a/z1"], id="a pod's zone",
        ),
        pytest.param(pool(), [pods(2, "500m", **APART)], SIZES, ["small", "small"], id="pods that keep apart"),
        pytest.param(
            [pool("cheap", weight=1), pool("first", ("node.kubernetes.io/instance-type", "In", ["large"]), weight=9)],
            [pods()], SIZES, ["large"], id="the heavier pool first",
        ),
        pytest.param(
            [pool("a", labels={"team": "a"}), pool("b", labels={"team": "b"})],
            [pods(nodeSelector={"team": "a"})], SIZES, ["small"], id="a label of one pool",
        ),
        pytest.param(
            pool("p", ("team", "In", ["a", "b"])), [pods(nodeSelector={"team": "b"})], SIZES, ["small"],
            id="a label with several values",
        ),
        pytest.param(
            pool(template={"taints": [{"key": "x", "effect": "NoSchedule"}]}), [pods()], SIZES, [], id="a taint"
        ),
        pytest.param(
            pool(template={"taints": [{"key": "x", "effect": "NoSchedule"}]}), [pods(tolerations=["x:NoSchedule"])],
            SIZES, ["small"], id="a taint that is tolerated",
        ),
        pytest.param(
            pool(template={"startupTaints": [{"key": "x", "effect": "NoSchedule"}]}), [pods()], SIZES, ["small"],
            id="a startup taint needs no toleration",
        ),
        pytest.param(pool(limits={"cpu": "4"}), [pods(6, "2")], [SIZES[0]], ["small"] * 2, id="a limit on CPU"),
        pytest.param(pool(limits={"nodes": 1}), [pods(6, "2")], [SIZES[0]], ["small"], id="a limit on nodes"),
        pytest.param(
            pool("p", ("karpenter.k8s.aws/instance-generation", "Gt", ["4"])), [pods()],
            [row("m4.large", 2, price=0.5), row("m5.large", 2, price=0.7)], ["m5.large"],
            id="what an AWS type's name says",
        ),
    ],
)  # fmt: skip
def test_what_is_launched(
    policy: Any, steps: list[Any], catalogue: list[Any], expected: list[str], packing: str
) -> None:
    result = played(policy, *steps, catalogue=catalogue, packing=packing, cloud={"startup": "5s"})
    assert types(result) == expected
    arrived = sum(step["workload"]["count"] for step in steps)
    if packing == "exact" and not policy_limits(policy) and expected:
        assert result.placed == arrived and not scaled(result).mismatched


def policy_limits(policy: Any) -> bool:
    return isinstance(policy, dict) and "limits" in policy["spec"]


def test_a_pod_waits_for_the_batch_and_for_the_node() -> None:
    result = played(pool(), {"nodes": {"count": 1, "cpu": "100m"}}, pods(1), cloud={"delay": "40s"})
    (placed,) = (result.placements or {}).values()
    assert 41 <= placed.at_s < 41.1  # it was rejected immediately; a second later the batch is closed


def test_min_values_keep_a_node_from_becoming_too_special() -> None:
    policy = pool()
    asked = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}
    policy["spec"]["template"]["spec"]["requirements"] = [asked]
    assert types(played(policy, pods(1, "1"))) == ["small"]
    assert types(played(policy, pods(1, "3"))) == []  # two types are left


def test_preferences_are_requirements_at_first_only_upstream() -> None:
    """Upstream plans a node of the preferred type. The scheduler takes any node, and exact packing knows that."""
    preferred = {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [
                                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["large"]}
                                ]
                            },
                        }
                    ]
                }
            }
        }
    }
    assert types(played(pool(), pods(1, "1", **preferred), packing="upstream")) == ["large"]
    assert types(played(pool(), pods(1, "1", **preferred))) == ["small"]


def test_upstream_knows_zones_without_nodes_and_the_scheduler_does_not() -> None:
    """Upstream buys a node in each zone; the scheduler, which sees only the first, places both pods there."""
    policy, spread = pool("p", ("kubernetes.io/arch", "In", ["amd64"])), pods(2, "1", **SPREAD)
    assert types(played(policy, spread, catalogue=ZONED)) == ["a/z2"]
    result = played(policy, spread, catalogue=ZONED, packing="upstream")
    assert types(result) == ["a/z2", "a/z1"]


def test_daemons_take_room_on_new_nodes() -> None:
    daemon = {
        "apply": {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
                },
            },
        }
    }
    assert types(played(pool(), daemon, pods(2, "1"))) == ["medium"]


def test_what_the_cloud_does_not_have_is_left_out_for_a_while() -> None:
    result = played(pool(), pods(4, "2"), catalogue=[row("a", 2, price=1), row("b", 2, price=2)], cloud={
        "quota": {"a": 1}})  # fmt: skip
    assert sorted(types(result)) == ["a", "b", "b", "b"]
    assert scaled(result).failed == {"quota": 3}


def test_failed_launches_are_tried_again() -> None:
    result = played(pool(), pods(10, "2"), catalogue=[row("a", 2), row("b", 2, price=1.1)], cloud={"failures": "50%"})
    assert result.placed == 10
    assert scaled(result).failed["no capacity"] > 0


def test_spot_nodes_are_taken_back_and_replaced() -> None:
    catalogue = [row("a", 2, price=1, spotPrice=0.3, interruptionsPerHour=1)]
    result = played(pool("p", SPOT), pods(2, "2"), catalogue=catalogue, until_s=6 * 3600)
    found = scaled(result)
    assert found.interrupted > 3
    assert found.evicted["Interrupted"] >= found.interrupted - 2
    assert result.running == 2 or result.pending


def test_what_nodes_cost_is_what_the_measures_say() -> None:
    result = played(pool(), pods(3, "2", run="1h"), until_s=7200)
    assert result.measures is not None
    assert scaled(result).cost == pytest.approx(float(result.measures.row["cost"]), rel=1e-6)
