"""NodePools as users write them: budgets with their schedules, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.api.times import parse_time
from mooring.sim.autoscaler.node_pool import EMPTY, UNBOUNDED, UNDERUTILIZED, Asked, NodeBudget, NodePool
from mooring.sim.autoscaler.policy import policy_of, read_policy_file, read_step
from tests.sim.autoscaler.stories import SIZES, groups, pool

NOON = parse_time("2026-01-01T12:00:00Z")


def with_budgets(*budgets: dict[str, Any]) -> NodePool:
    return NodePool.read(pool(disruption={"budgets": list(budgets)}), "NodePool")


@pytest.mark.parametrize(
    ("budgets", "nodes", "reason", "expected"),
    [
        pytest.param([], 10, EMPTY, UNBOUNDED, id="no budget"),
        pytest.param([{"nodes": "3"}], 10, EMPTY, 3, id="a number"),
        pytest.param([{"nodes": "10%"}], 11, EMPTY, 2, id="a share is rounded up"),
        pytest.param([{"nodes": "5"}, {"nodes": "2"}], 10, EMPTY, 2, id="the smallest"),
        pytest.param([{"nodes": "0", "reasons": ["Empty"]}], 10, UNDERUTILIZED, UNBOUNDED, id="another reason"),
        pytest.param([{"nodes": "0", "reasons": ["Empty"]}], 10, EMPTY, 0, id="this reason"),
        pytest.param([{"nodes": "0", "schedule": "0 12 * * *", "duration": "1h"}], 10, EMPTY, 0, id="at its time"),
        pytest.param([{"nodes": "0", "schedule": "0 11 * * *", "duration": "1h"}], 10, EMPTY, UNBOUNDED, id="its end"),
        pytest.param([{"nodes": "0", "schedule": "0 9 * * *", "duration": "1h"}], 10, EMPTY, UNBOUNDED, id="too late"),
        pytest.param([{"nodes": "0", "schedule": "0 13 * * *", "duration": "8h"}], 10, EMPTY, UNBOUNDED, id="early"),
        pytest.param([{"nodes": "1", "schedule": "@daily", "duration": "23h"}], 10, EMPTY, 1, id="a name"),
    ],
)
def test_how_many_nodes_may_go(budgets: list[Any], nodes: int, reason: str, expected: int) -> None:
    assert with_budgets(*budgets).allowed_disruptions(nodes, reason, NOON) == expected


def broken(**spec: Any) -> dict[str, Any]:
    made = pool()
    made["spec"] |= spec
    return made


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        pytest.param({"kind": "NodePool"}, "metadata.name is missing", id="no name"),
        pytest.param(broken(weigth=3), "unknown field 'weigth'", id="an unknown field"),
        pytest.param(pool("p", ("a", "Is", ["b"])), "requirements.0.: \"Is\" is not a valid", id="no operator"),
        pytest.param(pool("p", ("zone", "Gt", ["3"])), "zone Gt: the catalogue has no", id="not said"),
        pytest.param(pool(disruption={"budgets": [{"nodes": "many"}]}), "expected a number or", id="nodes"),
        pytest.param(pool(disruption={"budgets": [{"schedule": "@daily"}]}), "schedule and dur", id="half"),
        pytest.param(pool(disruption={"consolidationPolicy": "Never"}), "consolidationPolicy: expected", id="policy"),
        pytest.param(pool(disruption={"consolidateAfter": "soon"}), "expected a duration", id="after"),
        pytest.param(
            pool("p", ("kubernetes.io/arch", "In", ["riscv64"])), "no type of the catalogue meets", id="nothing to have"
        ),
        pytest.param(broken(limits={"cpu": "x"}), "spec.limits.cpu: expected a quantity", id="a limit"),
        pytest.param({"kind": "Deployment"}, "expected NodePool or one Cl", id="kind"),
        pytest.param(groups(), "nodeGroups: expected a list of node groups, found an empty list", id="no groups"),
        pytest.param(groups({"name": "a", "type": "b", "max": 1}), "no type 'b' in the catalogue", id="a type"),
        pytest.param(groups({"name": "a", "max": 1}), "nodeGroups.0.: type is missing", id="without a type"),
        pytest.param(
            groups({"name": "a", "type": "small", "max": 1}, flags={"expander": "best"}), "no expander", id="expander"
        ),
        pytest.param(
            groups({"name": "a", "type": "small", "max": 1}, flags=["--balance-similar-node-groups=true"]),
            "--balance-similar-node-groups is not simulated", id="a flag",
        ),
        pytest.param(
            groups({"name": "a", "type": "small", "max": 1, "capacityType": "spot"}), "cannot be had as spot", id="spot"
        ),
        pytest.param(
            groups({"name": "a", "type": "small", "max": 1}, priorities={"1": ["("]}), "priorities.1", id="a pattern"
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(policy: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^file.yaml: .*{says}"):
        policy_of([policy], "file", "file.yaml", SIZES)


@pytest.mark.parametrize("value", [True, 5, "amd64"])
def test_lists_of_a_node_pool_are_lists(value: object) -> None:
    with pytest.raises(InputError, match=r"requirements\[0\]\.values: expected a list, found"):
        Asked.read({"key": "a", "operator": "In", "values": value}, "requirements[0]")
    with pytest.raises(InputError, match=r"budgets\[0\]\.reasons: expected a list, found"):
        NodeBudget.read({"reasons": value}, "budgets[0]")


@pytest.mark.parametrize("value", [None, 5, True])
def test_a_catalogue_is_a_file_or_a_list(value: object) -> None:
    with pytest.raises(InputError, match="catalogue: expected a file or a list of types, found"):
        read_step({"policy": [], "catalogue": value}, str, {})


def test_a_node_class_is_left_out_and_flags_are_read_as_arguments(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "kind: ClusterAutoscaler\n"
        'flags: [./cluster-autoscaler, --v=4, --expander=price, "--scale-down-unneeded-time=${after}"]\n'
        "nodeGroups: [{name: a, type: small, max: 3, flags: {scale-down-utilization-threshold: 0.7}}]\n---\n"
        "kind: EC2NodeClass\n"
    )
    found = read_policy_file(file, SIZES, values={"after": "3m"})  # type: ignore[arg-type]
    policy = found._groups(found.offerings([""]))
    assert policy.flags.expander == ("price",) and policy.flags.scale_down_unneeded_time == 180
    assert policy.groups[0].flags.scale_down_utilization_threshold == 0.7
    with pytest.raises(InputError, match="no parameter 'after'"):
        read_policy_file(file, SIZES)  # type: ignore[arg-type]
