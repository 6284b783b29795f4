"""Traffic to try an extender with: pods and nodes as schedulers send them, plain, odd and many."""

from __future__ import annotations

import random
from typing import Any

import msgspec

INSTANCE_TYPES = ("small", "medium", "large")
ZONES = ("zone-a", "zone-b", "zone-c")


def make_node(i: int, rng: random.Random | None = None, *, size: int = 0) -> dict[str, Any]:
    """A node as cloud clusters have them, some 2 KB of JSON; ``size`` pads it with annotations."""
    rng = rng or random.Random(i)
    name = f"node-{i:05d}"
    capacity = {"cpu": str(rng.choice((2, 8, 32, 96))), "memory": f"{rng.choice((8, 64, 256))}Gi", "pods": "110"}
    node: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{i:012d}",
            "resourceVersion": str(1000 + i),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": ZONES[i % 3],
                "topology.kubernetes.io/region": "region-1",
                "node.kubernetes.io/instance-type": INSTANCE_TYPES[i % 3],
                "disk": "ssd" if i % 2 else "hdd",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/attach-detach": "true"},
        },
        "spec": {"podCIDR": f"10.{i // 250 % 250}.{i % 250}.0/24", "providerID": f"example:///{ZONES[i % 3]}/{name}"},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": "2026-01-01T00:05:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:10Z",
                    "reason": f"Kubelet{kind}",
                    "message": f"kubelet reports {kind}",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "addresses": [{"type": "InternalIP", "address": f"10.0.{i // 250 % 250}.{i % 250}"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": f"{i:032x}",
                "systemUUID": f"{i:032x}",
                "bootID": f"{i:032x}",
                "kernelVersion": "6.1.0",
                "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": "v1.36.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
    if size:
        node["metadata"]["annotations"]["example.com/notes"] = "x" * size
    return node


def make_pod(name: str, rng: random.Random | None = None) -> dict[str, Any]:
    """A pending pod."""
    rng = rng or random.Random(name)
    request = {"cpu": f"{rng.choice((100, 500, 2000))}m", "memory": f"{rng.choice((128, 512, 4096))}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "example/app:1", "resources": {"requests": request}}],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{rng.getrandbits(128):032x}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name.rpartition("-")[0] or name},
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def args_body(pod: dict[str, Any], nodes: list[dict[str, Any]], *, by_name: bool) -> bytes:
    """ExtenderArgs in one of its two forms."""
    if by_name:
        return msgspec.json.encode(
            {"Pod": pod, "Nodes": None, "NodeNames": [node["metadata"]["name"] for node in nodes]}
        )
    return msgspec.json.encode({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def preemption_body(pod: dict[str, Any], nodes: list[str], *, by_uid: bool) -> bytes:
    """ExtenderPreemptionArgs with one victim per node."""
    victims = {node: make_pod(f"victim-on-{node}") for node in nodes}
    whole = {node: {"Pods": [victim], "NumPDBViolations": 0} for node, victim in victims.items()}
    meta = {
        node: {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0} for node, victim in victims.items()
    }
    return msgspec.json.encode(
        {
            "Pod": pod,
            "NodeNameToVictims": None if by_uid else whole,
            "NodeNameToMetaVictims": meta if by_uid else None,
        }
    )
