"""Whatever policy, trace and cloud: no pod is lost, no node is overfull, cost adds up, and budgets are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Node
from mooring.api.meta import Object
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.requests import CPU, MEMORY
from mooring.live.observer import Observed, SchedulerObserver
from mooring.sim.scenario_file import scenario_of
from mooring.sim.simulate import run_scenario
from tests.sim.autoscaler.stories import groups, pool, row, scaled

TYPES = [
    row("small", 2, "4Gi", 1, spotPrice=0.3, interruptionsPerHour=0.5),
    row("medium", 4, "8Gi", 1.8, spotPrice=0.5, interruptionsPerHour=0.2),
    row("large", 8, "24Gi", 3.4),
]
HOURS_S = 2 * 3600.0


class Inspector(SchedulerObserver):
    """Looks at every node at every binding, and counts nodes that are being disrupted."""

    def __init__(self) -> None:
        self.most_disrupted = self.bindings = 0
        self.most: dict[str, int] = {}  # nodes of each group
        self._nodes: dict[str, bool] = {}

    def configured(self, scheduler: Observed) -> None:
        self._cluster = scheduler.cluster

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        self.bindings += 1
        rows = self._cluster.nodes()
        for name in (CPU, MEMORY):
            assert (rows.requested(name) <= rows.allocatable(name)).all()
        assert (rows.pod_count <= rows.allowed_pods).all()

    def put(self, obj: Object) -> None:
        if isinstance(obj, Node):
            self._nodes[obj.name] = any(taint.key == "karpenter.sh/disrupted" for taint in obj.spec.taints)
            self.most_disrupted = max(self.most_disrupted, sum(self._nodes.values()))
            of = obj.name.rpartition("-")[0]
            there = sum(name.rpartition("-")[0] == of for name in self._nodes)
            self.most[of] = max(self.most.get(of, 0), there)

    def delete(self, obj: Object) -> None:
        if isinstance(obj, Node):
            self._nodes.pop(obj.name, None)


WORKLOADS = st.fixed_dictionaries(
    {
        "rate": st.sampled_from(["20/h", "60/h"]),
        "for": st.sampled_from(["30m", "2h"]),
        "templates": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["a-{i}", "b-{i}"]),
                    "cpu": st.sampled_from(["250m", "1", "1900m", "3"]),
                    "memory": st.sampled_from(["512Mi", "3Gi"]),
                    "run": st.sampled_from(["5m", {"exponential": "30m"}, {"uniform": ["1m", "2h"]}]),
                }
            ),
            min_size=1,
            max_size=2,
            unique_by=lambda each: each["name"],
        ),
    }
)
CLOUDS = st.fixed_dictionaries(
    {"delay": st.sampled_from(["0s", "90s", {"exponential": "1m"}]), "failures": st.sampled_from([0, 0.3])},
    optional={"quota": st.sampled_from([{"cpu": 20}, {"nodes": 5}])},
)


def run(policy: Any, workload: Any, cloud: Any, packing: str, seed: int) -> tuple[Any, Inspector]:
    step = {"policy": policy, "catalogue": TYPES, "packing": packing, "cloud": cloud}
    steps = [{"autoscaler": step}, {"workload": {**workload, "recreate": True}}]
    story = scenario_of({"steps": steps}, source="story", folder=Path(), name="story")
    inspector = Inspector()
    result = run_scenario(story, until_s=HOURS_S, seed=seed, observers=(inspector,))
    assert not result.failure, result.failure
    return result, inspector


def check(result: Any, inspector: Inspector) -> None:
    assert inspector.bindings == result.placed
    assert result.arrived == result.running + len(result.pending) + result.ended
    found = scaled(result)
    by_node = sum(life.price * life.hours(result.ended_at_s) for life in found.nodes)
    assert found.cost == pytest.approx(by_node, rel=1e-4)  # what was measured ends a moment after the story
    assert found.cost == pytest.approx(float(result.measures.row.get("cost", 0.0)), rel=1e-6, abs=1e-6)
    assert found.ordered >= len(found.nodes)
    assert sum(found.removed.values()) == sum(life.removed_s is not None for life in found.nodes)
    assert found.mismatched <= found.planned


@settings(max_examples=6, deadline=None)
@given(
    workload=WORKLOADS,
    cloud=CLOUDS,
    packing=st.sampled_from(["exact", "upstream"]),
    seed=st.integers(0, 99),
    after=st.sampled_from(["0s", "2m", "Never"]),
    nodes=st.integers(0, 3),
    kinds=st.sampled_from([["spot"], ["on-demand"], ["spot", "on-demand"]]),
)
def test_node_pools(
    workload: Any, cloud: Any, packing: str, seed: int, after: str, nodes: int, kinds: list[str]
) -> None:
    disruption = {"consolidateAfter": after, "budgets": [{"nodes": str(nodes)}]}
    asked = ("karpenter.sh/capacity-type", "In", kinds)
    policy = pool("p", asked, disruption=disruption, template={"expireAfter": "Never"}, limits={"cpu": 60})
    result, inspector = run(policy, workload, cloud, packing, seed)
    check(result, inspector)
    assert inspector.most_disrupted <= nodes


@settings(max_examples=6, deadline=None)
@given(
    workload=WORKLOADS,
    cloud=CLOUDS,
    packing=st.sampled_from(["exact", "upstream"]),
    seed=st.integers(0, 99),
    expander=st.sampled_from(["random", "least-waste", "most-pods", "price"]),
    most=st.integers(1, 6),
    threshold=st.sampled_from([0.3, 0.9]),
)
def test_groups(workload: Any, cloud: Any, packing: str, seed: int, expander: str, most: int, threshold: float) -> None:
    flags = {
        "expander": expander,
        "scale-down-utilization-threshold": threshold,
        "scale-down-unneeded-time": "3m",
        "scale-down-delay-after-add": "1m",
    }
    rows = [
        {"name": name, "type": name, "max": most, "min": 1 if name == "small" else 0} for name in ("small", "large")
    ]
    result, inspector = run(groups(*rows, flags=flags), workload, cloud, packing, seed)
    check(result, inspector)
    assert all(count <= most for count in inspector.most.values())
