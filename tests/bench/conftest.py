"""Definitions small enough for a test, written where the test says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.bench.perf.definitions import PerfWorkload, load

OBJECTS = {
    "pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {generateName: pod-, labels: {type: waiting}}
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: app, image: pause, resources: {requests: {cpu: 100m}}}]
    """,
    "named-pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {name: "pod-{{.Index}}", labels: {number: "{{.Index}}"}}
        spec:
          schedulingGates: [{name: example.com/hold}]
          containers: [{name: app, image: pause}]
    """,
    "named-pod-opened.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {name: "pod-{{.Index}}", labels: {number: "{{.Index}}"}}
        spec:
          containers: [{name: app, image: pause}]
    """,
    "high-pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {generateName: high-}
        spec:
          priority: 10
          containers: [{name: app, image: pause, resources: {requests: {cpu: "3"}}}]
    """,
    "low-pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {generateName: low-}
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: app, image: pause, resources: {requests: {cpu: "2"}}}]
    """,
    "small-node.yaml": """
        apiVersion: v1
        kind: Node
        metadata: {name: "small-{{.Index}}"}
        status:
          capacity: {cpu: 1m, memory: 1Gi, pods: "110"}
          conditions: [{type: Ready, status: "True"}]
    """,
    "grown-node.yaml": """
        apiVersion: v1
        kind: Node
        metadata: {name: "small-{{.Index}}", labels: {kubernetes.io/hostname: "small-{{.Index}}"}}
        status:
          capacity: {cpu: "4", memory: 1Gi, pods: "110"}
          allocatable: {cpu: "4", memory: 1Gi, pods: "110"}
          conditions: [{type: Ready, status: "True"}]
    """,
    "service.yaml": """
        apiVersion: v1
        kind: Service
        metadata: {generateName: service-}
        spec: {selector: {app: perf}, ports: [{port: 80}]}
    """,
    "namespace.yaml": """
        apiVersion: v1
        kind: Namespace
        metadata: {labels: {team: blue}}
    """,
    "pv.yaml": """
        apiVersion: v1
        kind: PersistentVolume
        spec:
          accessModes: [ReadOnlyMany]
          capacity: {storage: 1Gi}
          csi: {driver: csi.example.com}
    """,
    "pvc.yaml": """
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {annotations: {pv.kubernetes.io/bind-completed: "yes"}}
        spec:
          accessModes: [ReadOnlyMany]
          resources: {requests: {storage: 1Gi}}
    """,
}

WriteCase = Callable[..., PerfWorkload]


@pytest.fixture
def write_case(tmp_path: Path) -> WriteCase:
    """Write one case with the given steps beside the objects above; return its only workload."""
    folder = tmp_path / "topic"
    folder.mkdir()
    for name, text in OBJECTS.items():
        (folder / name).write_text(text)

    def write(steps: str, **params: object) -> PerfWorkload:
        numbers = ", ".join(f"{name}: {value}" for name, value in params.items())
        (folder / "performance-config.yaml").write_text(
            f"- name: Case\n  workloadTemplate:\n{steps}\n  workloads:\n  - name: tiny\n    params: {{{numbers}}}\n"
        )
        return load(tmp_path).workloads[0]

    return write
