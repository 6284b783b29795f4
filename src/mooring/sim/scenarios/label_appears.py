"""A plugin wants nodes labelled cpu=true; the pod waits until one of them is.

The story of a well-known first scheduler plugin, with the plugin in Python.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring import sdk
from mooring.sim.scenario import ScenarioCluster, node, pod


class CpuLabelled(sdk.NodeFilter):
    """Only nodes labelled cpu=true take pods of this profile."""

    name = "CpuLabelled"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        if node.labels.get("cpu") == "true":
            return sdk.SUCCESS
        return sdk.unschedulable(f"Node: {node.name}")

    def events_to_register(self) -> Sequence[sdk.EventRegistration]:
        return (sdk.NODE_CHANGED,)


PLUGINS = (CpuLabelled,)
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "custom-scheduler", "plugins": {"filter": {"enabled": [{"name": "CpuLabelled"}]}}},
    ],
}


async def scenario(cluster: ScenarioCluster) -> None:
    await cluster.create(node("node1"), node("node2"))
    await cluster.create(pod("nginx", image="nginx", schedulerName="custom-scheduler"))
    await cluster.expect_pod("nginx", pending="0/2 nodes are available: 1 Node: node1, 1 Node: node2.")
    await cluster.advance(20)
    cluster.say("node2 gets the label")
    await cluster.label("node/node2", cpu="true")
    await cluster.expect_pod("nginx", node="node2", phase="Running")
