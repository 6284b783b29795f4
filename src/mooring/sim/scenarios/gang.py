"""Three workers are of use only together: they hold their nodes until the last one has found its own.

The plugin is a gang in thirty lines; ``Coscheduling``, which comes with mooring, is the one to use.
"""

from __future__ import annotations

from typing import Any

from mooring import sdk
from mooring.sim.scenario import ScenarioCluster, node, pod

GROUP, SIZE = "gang", "gang-size"


class Gang(sdk.Permit):
    """Bind the pods of a gang when all of them hold a node, or none of them."""

    name = "Gang"

    def permit(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> tuple[sdk.Status, float]:
        group = pod.metadata.labels.get(GROUP)
        if group is None or self.handle is None:
            return sdk.SUCCESS, 0.0
        waiting: Any = [each for each in self.handle.waiting_pods.all() if _group(each.pod.pod) == group]
        if len(waiting) + 1 < int(pod.metadata.labels[SIZE]):
            return sdk.wait(), 30.0
        for each in waiting:
            each.allow(self.name)
        return sdk.SUCCESS, 0.0


def _group(pod: sdk.Pod) -> str | None:
    return pod.metadata.labels.get(GROUP)


PLUGINS = (Gang,)
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"permit": {"enabled": [{"name": "Gang"}]}}}],
}


async def scenario(cluster: ScenarioCluster) -> None:
    for i in (1, 2):
        await cluster.create(node(f"node{i}", cpu="1"))
    cluster.say("two nodes with room for one worker each; the gang has three")
    for i in (1, 2, 3):
        await cluster.create(pod(f"worker-{i}", cpu="1", labels={GROUP: "training", SIZE: "3"}))
    await cluster.expect_pod("worker-3", pending="Insufficient cpu")
    await cluster.advance(5)
    for name in ("worker-1", "worker-2"):
        await cluster.expect_pod(name, node="", within_s=0.5)
    cluster.say("a third node comes: the last worker finds a place, and all three are bound")
    await cluster.create(node("node3", cpu="1"))
    for i in (1, 2, 3):
        await cluster.expect_pod(f"worker-{i}", phase="Running")
