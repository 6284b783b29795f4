"""Nine nodes that take no pods, a pod that waits, and a tenth node.

The story with which mini-kube-scheduler introduces itself.
"""

from __future__ import annotations

from mooring.sim.scenario import ScenarioCluster, node, pod


async def scenario(cluster: ScenarioCluster) -> None:
    for i in range(9):
        await cluster.create(node(f"node{i}", unschedulable=True))
    cluster.say("nine nodes, and none of them takes pods")
    await cluster.create(pod("pod1", image="registry.k8s.io/pause:3.5"))
    await cluster.expect_pod("pod1", pending="9 node(s) were unschedulable")
    await cluster.advance(0.3)
    cluster.say("a tenth node appears")
    await cluster.create(node("node10"))
    await cluster.expect_pod("pod1", node="node10")
    await cluster.expect_pod("pod1", phase="Running")
