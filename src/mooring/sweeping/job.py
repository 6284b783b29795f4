"""A sweep as a Kubernetes Job with an index: each pod takes its share of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOUNT = "/sweep"


def job_manifest(
    file: str,
    *,
    shards: int,
    image: str,
    claim: str,
    settings: Mapping[str, str],
    name: str = "sweep",
    cpu: str = "1",
    memory: str = "2Gi",
) -> dict[str, Any]:
    """An Indexed Job. The claim has the sweep's files, and gets the results; paths are below it."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ["mooring", "sweep", "run", file, *sets, "--shard", f"/{shards}", "--jobs", "1", "--results", "results"]
    container = {
        "name": "sweep",
        "image": image,
        "command": command,
        "workingDir": MOUNT,
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": MOUNT}],
    }
    spec = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "mooring-sweep"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": shards,
            "backoffLimitPerIndex": 2,
            "template": {"metadata": {"labels": {"app.kubernetes.io/name": "mooring-sweep"}}, "spec": spec},
        },
    }
