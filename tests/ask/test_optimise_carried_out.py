"""A plan of moves, carried out on the embedded control plane: real evictions, real budgets, real bindings."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import mooring
from mooring.ask.moves import EVICT
from mooring.ask.optimise import optimise
from mooring.sim.scenario import ScenarioCluster
from mooring.testing_scenarios import node, play

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "schedulerName": "by-hand",  # so that only the plan binds its pods
                "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
    },
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


async def bind(cluster: ScenarioCluster, pod: str, target: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"kind": "Node", "name": target},
    }
    path = f"/api/v1/namespaces/default/pods/{pod}/binding"
    await cluster.backend.client.create(path, json.dumps(body).encode())
    await cluster.wait(f"pod/{pod}", "Ready")


async def waiting(cluster: ScenarioCluster) -> list[str]:
    pods = await cluster.list("pods", "default")
    return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]


async def next_pod(cluster: ScenarioCluster) -> str:
    """The pod that the controller has made in place of an evicted one."""

    async def holds() -> Any:
        return await waiting(cluster)

    return (await cluster.until("a pod comes", holds))[0]


def test_a_plan_is_carried_out_with_real_evictions() -> None:
    found: list[Any] = []

    async def story(cluster: ScenarioCluster) -> None:
        for i in range(6):
            await cluster.create(node(f"node{i}", cpu="4"))
        await cluster.create(DEPLOYMENT, BUDGET)
        for i in range(6):
            await bind(cluster, await next_pod(cluster), f"node{i}")
        objects = [each for kind in ("nodes", "pods", "poddisruptionbudgets") for each in await cluster.list(kind)]
        plan = optimise(mooring.load({"apiVersion": "v1", "kind": "List", "items": objects}))
        found.append(plan)
        for step in plan.steps:
            if step.action == EVICT:
                evicted = await cluster.get(f"pod/{step.pod}")
                assert evicted is not None
                await cluster.backend.evict(evicted)  # 429 if the budget forbids it
                await cluster.wait_gone(f"pod/{step.pod}")
            else:
                await bind(cluster, await next_pod(cluster), step.node)
        places = Counter((await cluster.placements()).values())
        assert sorted(places.values()) == [2, 4]  # four cores each: no node has more than it can take

    play(story)
    assert (found[0].before.nodes, found[0].after.nodes, found[0].is_optimal) == (6, 2, True)
