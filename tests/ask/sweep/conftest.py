"""A small sweep: a cluster, two configurations, and a command that compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

CLUSTER = """
kind: List
items:
- kind: Node
  metadata: {name: a, labels: {kubernetes.io/hostname: a}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- kind: Node
  metadata: {name: b, labels: {kubernetes.io/hostname: b}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- kind: Pod
  metadata: {name: old}
  spec: {nodeName: a, containers: [{name: main, resources: {requests: {cpu: "2"}}}]}
- kind: Pod
  metadata: {name: web}
  spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}
"""
SWEEP = """
title: Strategies
command: diff --cluster ${here}/cluster.yaml --config ${config}
over:
  config: {files: "${here}/configs/*.yaml"}
table: {rows: config, columns: config, value: moved}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "configs" / "least.yaml").write_text(CONFIG % "LeastAllocated")
    (tmp_path / "configs" / "most.yaml").write_text(CONFIG % "MostAllocated")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path
