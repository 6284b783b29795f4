"""What a ResourceQuota would say of a new pod: upstream's amounts, and what would do instead."""

from __future__ import annotations

from typing import Any

import pytest

import mooring


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "compute", "namespace": "shop"}
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": hard, **spec},
    }
    return value | ({"status": {"hard": hard, "used": used}} if used is not None else {})


def pod(name: str = "web", cpu: str = "2", **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "1Gi"} if cpu else {}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
}
REFUSES = "quota compute of namespace shop: the API server refuses the pod"


@pytest.mark.parametrize(
    ("objects", "asked", "notes"),
    [
        pytest.param([quota({"requests.cpu": "10"}, {"requests.cpu": "8"})], pod(), [], id="just enough is left"),
        pytest.param(
            [quota({"requests.cpu": "10"}, {"requests.cpu": "9"})],
            pod(),
            [f"{REFUSES}: requests.cpu 2 asked, 9 of 10 used; 1 instead, or a quota of 11 would do"],
            id="too little is left",
        ),
        pytest.param(
            [quota({"cpu": "3"}), pod("old", nodeName="a")],
            pod(),
            [f"{REFUSES}: cpu 2 asked, 2 of 3 used; 1 instead, or a quota of 4 would do"],
            id="without a status the pods are counted",
        ),
        pytest.param(
            [quota({"pods": "1"}, {"pods": "1"})],
            pod(),
            [f"{REFUSES}: pods 1 asked, 1 of 1 used; a quota of 2 would do"],
            id="no pod more",
        ),
        pytest.param(
            [quota({"limits.cpu": "10"}, {"limits.cpu": "0"})],
            pod(),
            [f"{REFUSES}: must specify limits.cpu"],
            id="a limit that the pod lacks",
        ),
        pytest.param(
            [quota({"requests.cpu": "1"}, {"requests.cpu": "0"}, scopes=["BestEffort"])],
            pod(),
            [],
            id="a quota for other pods",
        ),
        pytest.param(
            [
                quota(
                    {"requests.cpu": "1"},
                    {"requests.cpu": "0"},
                    scopeSelector={
                        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                    },
                )
            ],
            pod(),
            [],
            id="a quota for another priority class",
        ),
        pytest.param([quota({"services": "1"}, {"services": "1"})], pod(), [], id="not about pods"),
    ],
)
def test_what_a_quota_says_of_a_new_pod(objects: list[Any], asked: dict[str, Any], notes: list[str]) -> None:
    cluster = mooring.load(NODE, *objects)
    found = mooring.explain(cluster, asked, kubernetes_version="1.37")
    assert [note for note in found.notes if "quota" in note] == notes


def test_a_pod_that_exists_was_let_in() -> None:
    cluster = mooring.load(NODE, quota({"pods": "1"}, {"pods": "1"}), pod())
    assert not [note for note in mooring.explain(cluster, "shop/web").notes if "quota" in note]
