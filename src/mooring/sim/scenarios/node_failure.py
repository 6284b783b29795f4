"""A node falls silent; five minutes later its pods are replaced elsewhere.

Seven minutes pass: the node is missed after 50 seconds, and its pods are given 300 more, as on a real cluster.
"""

from __future__ import annotations

from typing import Any

from mooring.sim.scenario import ScenarioCluster, node

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
"""


async def scenario(cluster: ScenarioCluster) -> None:
    for i in (1, 2):
        await cluster.create(node(f"node{i}"))
    await cluster.apply(DEPLOYMENT)
    await cluster.wait("deployment/web", "Available")
    cluster.say("node2 loses power")
    await cluster.fail_node("node2")

    async def unreachable() -> Any:
        found = await cluster.get("node/node2")
        taints = [each["key"] for each in ((found or {}).get("spec") or {}).get("taints") or ()]
        return "node.kubernetes.io/unreachable" in taints

    await cluster.expect("node2 is found unreachable", unreachable, within_s=70)

    async def moved() -> Any:
        pods = await cluster.list("pods", "default", labels="app=web")
        alive = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
        where = {each["spec"].get("nodeName", "") for each in alive}
        running = all((each.get("status") or {}).get("phase") == "Running" for each in alive)
        return (len(alive) == 4 and where == {"node1"} and running) or f"they are on {sorted(where)}"

    await cluster.expect("all four pods run on node1", moved, within_s=330)
    cluster.say("the power is back, and the old pods find out that they are not needed any more")
    await cluster.recover_node("node2")
    await cluster.wait("node/node2", "Ready")

    async def tidy() -> Any:
        return len(await cluster.list("pods", "default", labels="app=web")) == 4

    await cluster.expect("the pods that were lost with node2 are gone", tidy, within_s=40)
