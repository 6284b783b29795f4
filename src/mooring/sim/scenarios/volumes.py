"""A claim waits for its first consumer, and the volume is made where the pod goes; a local disk decides the other way.

A class that waits lets the scheduler choose the node first: the provisioner then makes the volume in that zone.
"""

from __future__ import annotations

from mooring.sim.scenario import ScenarioCluster, node, pod

STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-of-node1}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /disks/1}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]
"""


def claim(name: str, storage_class: str, size: str = "5Gi") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def with_claim(name: str) -> list[dict[str, object]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


async def scenario(cluster: ScenarioCluster) -> None:
    for i in (1, 2, 3):
        await cluster.create(node(f"node{i}", zone=f"zone-{i}"))
    await cluster.apply(STORAGE)
    cluster.say("a pod whose claim does not exist yet cannot be placed")
    await cluster.create(pod("early", volumes=with_claim("data")))
    await cluster.expect_pod("early", pending='persistentvolumeclaim "data" not found')
    await cluster.create(claim("data", "late"))
    await cluster.expect_pod("early", node=["node1", "node2", "node3"], phase="Running")
    found = await cluster.get("pvc/data")
    cluster.say(f"its volume was made for it: {found['spec']['volumeName'][:8]}…" if found else "")
    cluster.say("the only local disk is on node1, so that is where the next pod goes")
    await cluster.create(claim("local-data", "local"), pod("local", volumes=with_claim("local-data")))
    await cluster.expect_pod("local", node="node1", phase="Running")
    cluster.say("a second one finds no disk left")
    await cluster.create(claim("more-data", "local"), pod("late-comer", volumes=with_claim("more-data")))
    await cluster.expect_pod("late-comer", pending="didn't find available persistent volumes to bind", for_s=5)
