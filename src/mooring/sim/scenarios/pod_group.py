"""Four workers are one pod group: all of them start, or none, and when they have to go, they go together.

Kubernetes 1.37 does this itself, with the gate GenericWorkload.
"""

from __future__ import annotations

from typing import Any

from mooring.sim.scenario import ScenarioCluster, node, pod

KUBERNETES_VERSION = "1.37"
FEATURE_GATES = {"GenericWorkload": True}


def group(name: str, min_count: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }


def worker(i: int) -> dict[str, Any]:
    return pod(f"train-{i}", cpu="3", schedulingGroup={"podGroupName": "train"}, terminationGracePeriodSeconds=5)


async def scenario(cluster: ScenarioCluster) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    await cluster.create({**urgent, "value": 1000})
    for i in (1, 2):
        await cluster.create(node(f"node{i}", cpu="4"))
    await cluster.create(group("train", 4, disruptionMode={"all": {}}))
    cluster.say("three of four workers: too few to try")
    for i in (1, 2, 3):
        await cluster.create(worker(i))
    await cluster.advance(5)
    cluster.say("the fourth comes; only two fit, so none is bound")
    await cluster.create(worker(4))
    await cluster.expect_pod("train-1", pending="minCount (4) cannot be satisfied")
    await cluster.expect_pod("train-3", pending="Insufficient cpu")
    cluster.say("two more nodes: the group is tried again after its backoff, and starts as one")
    for i in (3, 4):
        await cluster.create(node(f"node{i}", cpu="4"))
    for i in (1, 2, 3, 4):
        await cluster.expect_pod(f"train-{i}", phase="Running")
    cluster.say("something urgent needs one node: the whole group makes room, because it runs together or not at all")
    await cluster.create(group("hotfix", 1, priorityClassName="urgent"))
    await cluster.create(
        pod("hotfix-1", cpu="4", priorityClassName="urgent", schedulingGroup={"podGroupName": "hotfix"})
    )
    await cluster.expect_pod("hotfix-1", phase="Running")
    await cluster.until("no worker is left", lambda: _only(cluster, "hotfix-1"))


async def _only(cluster: ScenarioCluster, name: str) -> bool:
    return set(await cluster.placements()) == {name}
