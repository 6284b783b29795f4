"""The same story, seed and version give the same bytes: in another process, with other hashes, in another Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mooring

STORY = """
title: Everything that could depend on an order
steps:
- nodes: {count: 6, cpu: "8", zones: [a, b, c]}
- apply:
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web}
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: shop}
    spec:
      replicas: 5
      selector: {matchLabels: {app: shop}}
      template:
        metadata: {labels: {app: shop}}
        spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: report}
    spec:
      schedule: "*/2 * * * *"
      jobTemplate:
        spec:
          template:
            metadata: {annotations: {mooring/completes-after: 30s}}
            spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
- workload:
    rate: 20/m
    for: 3m
    labels: {app: web}
    templates:
    - {weight: 3, name: "web-{i}", cpu: 500m, run: {uniform: [10s, 2m]}}
    - {weight: 1, name: "train-{i}", cpu: "4", run: {logNormal: {median: 1m, sigma: 1}}, priority: 10}
    - {weight: 1, name: "batch-{i}", cpu: "1", run: {exponential: 40s}}
- nodeGroup: {name: spot, max: 5, delay: 30s, idle: 1m, price: 0.35, cpu: "8", memory: 64Gi}
- advance: 1m
- fail: node1
- advance: 1m
- recover: node1
- drain: node2
"""
OTHERS = [name for name in ("python3.11", "python3.12", "python3.13", "python3.14") if shutil.which(name)]
SOURCES = Path(mooring.__file__).parents[1]


def simulated(python: str, folder: Path, hash_seed: str) -> tuple[bytes, bytes]:
    """The result as JSON, and the record."""
    (folder / "story.yaml").write_text(STORY)
    command = ["-m", "mooring", "simulate", "story.yaml", "--seed", "3", "--until", "6m", "--record", "r.mrec"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [python, *command, "-o", "json", "--placements"], cwd=folder, env=environment, capture_output=True, check=True
    )
    return done.stdout, (folder / "r.mrec").read_bytes()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    return simulated(sys.executable, tmp_path_factory.mktemp("here"), "0")


def test_with_other_hashes(here: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert simulated(sys.executable, tmp_path, "4711") == here


@pytest.mark.parametrize("python", OTHERS)
def test_in_another_python(python: str, here: tuple[bytes, bytes], tmp_path: Path) -> None:
    versions = "import zstandard, sys, msgspec, numpy, click, rich; print(sys.version_info[:2], zstandard.ZSTD_VERSION)"
    found, ours = (
        subprocess.run([each, "-c", versions], capture_output=True, text=True, check=False)
        for each in (python, sys.executable)
    )
    if found.returncode:
        pytest.skip(f"{python} does not have what mooring needs")
    if found.stdout.partition(")")[2] != ours.stdout.partition(")")[2]:
        pytest.skip(f"{python} has another zstd: {found.stdout.strip()}; a record is the same bytes with the same one")
    assert simulated(python, tmp_path, "1") == here
