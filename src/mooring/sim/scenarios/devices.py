"""Two pods want a device each and only one is left: the second waits until the first releases it.

A claim is made for each pod from a template, the scheduler allocates devices to it, and the claim goes with its pod.
"""

from __future__ import annotations

from typing import Any

from mooring.sim.scenario import ScenarioCluster, node, pod

DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node2-gpus}
spec:
  nodeName: node2
  driver: gpu.example.com
  pool: {name: node2, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]
"""

WANTS_ONE = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


async def scenario(cluster: ScenarioCluster) -> None:
    await cluster.create(node("node1"), node("node2"))
    await cluster.apply(DEVICES)
    cluster.say("node2 has a single device")
    await cluster.create(pod("first", resourceClaims=WANTS_ONE, terminationGracePeriodSeconds=1))
    await cluster.expect_pod("first", node="node2", phase="Running")
    await cluster.create(pod("second", resourceClaims=WANTS_ONE))
    await cluster.expect_pod("second", pending="cannot allocate all claims", for_s=10)
    cluster.say("the first pod ends, and its device with it")
    await cluster.delete("pod/first")
    await cluster.expect_pod("second", node="node2", phase="Running")

    async def claims() -> Any:
        found = await cluster.list("resourceclaims", "default")
        return len(found) == 1 or f"there are {len(found)}"

    await cluster.expect("one claim is left", claims)
