"""Six replicas are spread over three zones, and a seventh waits when a zone has no room left.

The constraint forbids that one zone has more than one pod more than another.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mooring.sim.scenario import ScenarioCluster, node

ZONE = "topology.kubernetes.io/zone"

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers:
      - {name: main, image: web, resources: {requests: {cpu: "1"}}}
"""


async def scenario(cluster: ScenarioCluster) -> None:
    for i in range(6):
        await cluster.create(node(f"node{i + 1}", zone="abc"[i % 3], cpu="2" if i % 3 == 2 else "4"))
    cluster.say("six nodes in the zones a, b and c; those in c are small")
    await cluster.apply(DEPLOYMENT)
    await cluster.wait("deployment/web", "Available")

    async def even() -> Any:
        counts = await _pods_by_zone(cluster)
        return counts == {"a": 2, "b": 2, "c": 2} or f"the zones have {counts}"

    await cluster.expect("every zone has two of six pods", even)
    cluster.say("zone c is closed; two more pods go to a and b, a third would unbalance them")
    for i in (3, 6):
        await cluster.cordon(f"node{i}")
    await cluster.scale("deployment/web", 9)

    async def uneven() -> Any:
        counts = await _pods_by_zone(cluster)
        waiting = counts.pop("", 0)
        return (waiting == 1 and counts == {"a": 3, "b": 3, "c": 2}) or f"the zones have {counts}, {waiting} wait"

    await cluster.expect("one of nine pods waits", uneven)
    waiting = [name for name, where in (await cluster.placements()).items() if not where]
    await cluster.expect_pod(waiting[0], pending="node(s) didn't match pod topology spread constraints")


async def _pods_by_zone(cluster: ScenarioCluster) -> dict[str, int]:
    zones = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in await cluster.list("nodes")}
    return dict(sorted(Counter(zones.get(where, "") for where in (await cluster.placements()).values()).items()))
