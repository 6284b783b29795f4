"""Short stories with an autoscaler, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.sim.autoscaler.outcome import Autoscaling
from mooring.sim.result import Simulation
from mooring.sim.scenario_file import scenario_of
from mooring.sim.simulate import run_scenario

Rows = list[dict[str, Any]]


def row(name: str, cpu: int | str, memory: str = "64Gi", price: float = 1.0, **more: Any) -> dict[str, Any]:
    """A line of a catalogue."""
    return {"type": name, "cpu": str(cpu), "memory": memory, "price": price, **more}


SIZES: Rows = [row("small", 2, price=1), row("medium", 4, price=1.8), row("large", 8, price=3.4)]


def pool(
    name: str = "default",
    *requirements: tuple[str, str, list[str]],
    disruption: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A NodePool; consolidation is off unless it is asked for."""
    asked = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": dict(labels or {})},
                "spec": {"requirements": asked, **(template or {})},
            },
            "disruption": {"consolidateAfter": "Never", **(disruption or {})},
            **spec,
        },
    }


def groups(*rows: dict[str, Any], flags: Any = None, **more: Any) -> dict[str, Any]:
    """A policy of cluster-autoscaler."""
    return {"kind": "ClusterAutoscaler", "flags": flags or {}, "nodeGroups": list(rows), **more}


def pods(count: int = 1, cpu: str = "1", **fields: Any) -> dict[str, Any]:
    """Pods that arrive together and run for ever."""
    return {"workload": {"count": count, "every": "0s", "cpu": cpu, "recreate": True, **fields}}


def played(
    policy: Any,
    *steps: dict[str, Any],
    catalogue: Rows = SIZES,
    cloud: Mapping[str, Any] | None = None,
    packing: str = "exact",
    until_s: float | None = None,
    seed: int = 0,
    version: str | None = None,
) -> Simulation:
    """The result of a story with this policy."""
    step = {"policy": policy, "catalogue": catalogue, "packing": packing, "cloud": dict(cloud or {})}
    value: dict[str, Any] = {"steps": [{"autoscaler": step}, *steps]}
    if version is not None:
        value["kubernetesVersion"] = version
    story = scenario_of(value, source="story", folder=Path(), name="story")
    result = run_scenario(story, until_s=until_s, seed=seed, keeps_placements=True)
    assert not result.failure, result.failure
    return result


def scaled(result: Simulation) -> Autoscaling:
    """What the autoscaler did."""
    assert result.autoscaling is not None
    return result.autoscaling


def types(result: Simulation) -> list[str]:
    """The types of all nodes that ever came, in their order; spot ones and zones are named."""
    return [
        "/".join(filter(None, (life.type, life.zone, "spot" if life.capacity_type == "spot" else "")))
        for life in scaled(result).nodes
    ]
