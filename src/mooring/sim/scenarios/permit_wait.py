"""A permit plugin lets every pod wait as many seconds as its node's number says.

The plugin is the one that mini-kube-scheduler teaches permit with: node3 holds its pods for three seconds.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring import sdk
from mooring.sim.scenario import ScenarioCluster, node, pod


class WaitForNodeNumber(sdk.Permit):
    """Allow a pod on ``node3`` after three seconds; the scheduler continues with other pods."""

    name = "WaitForNodeNumber"

    def permit(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> tuple[sdk.Status, float]:
        digit = node_name[-1:]
        if not digit.isdecimal():
            return sdk.SUCCESS, 0.0
        asyncio.get_running_loop().call_later(int(digit), self._allow, pod.metadata.uid)
        return sdk.wait(), 10.0

    def _allow(self, uid: str) -> None:
        waiting: Any = self.handle.waiting_pods.get(uid) if self.handle is not None else None
        if waiting is not None:
            waiting.allow(self.name)


PLUGINS = (WaitForNodeNumber,)
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"permit": {"enabled": [{"name": "WaitForNodeNumber"}]}}}],
}


async def scenario(cluster: ScenarioCluster) -> None:
    await cluster.create(node("node5"), node("node2"))
    cluster.say("node5 lets its pods wait for five seconds, node2 for two")
    started = cluster.clock.monotonic()
    await cluster.create(
        pod("pod5", nodeSelector={"kubernetes.io/hostname": "node5"}),
        pod("pod2", nodeSelector={"kubernetes.io/hostname": "node2"}),
    )
    await cluster.expect_pod("pod2", node="node2")
    await cluster.expect_pod("pod5", node="", within_s=0.5)
    await cluster.expect_pod("pod5", node="node5")
    waited_s = cluster.clock.monotonic() - started

    async def in_time() -> Any:
        return 5.0 <= waited_s < 8.0 or f"it took {waited_s:.1f}s"

    await cluster.expect("pod5 was bound after five seconds, although it came first", in_time, within_s=0)
