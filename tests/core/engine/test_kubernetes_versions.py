"""Decisions that differ between versions of Kubernetes, each in both; the rest is in the recorded corpora."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing import decide, make_node, make_object, make_pod

BOTH = pytest.mark.parametrize("version", ["1.36", "1.37"])
GIB = 1 << 30


@BOTH
def test_the_message_when_nothing_fits(version: str) -> None:
    said = decide(make_pod(cpu="9"), make_node("a"), kubernetes_version=version).message
    between = "" if version == "1.37" else "no new claims to deallocate, "
    assert said == (
        f"0/1 nodes are available: 1 Insufficient cpu. {between}preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


@BOTH
def test_the_message_of_a_preemptor(version: str) -> None:
    small = make_pod("small", node="a", cpu="3", priority=0)
    said = decide(make_pod("big", cpu="3", priority=9), make_node("a"), small, kubernetes_version=version)
    assert said.nominated_node == "a"
    told = " preemption: found a potential placement for pod on node a, preempting 1 victims"
    assert said.message == "0/1 nodes are available: 1 Insufficient cpu." + (told if version == "1.37" else "")


@BOTH
def test_image_volumes_raise_the_ceiling(version: str) -> None:
    """Two images of which one is there, whole and large: half the ceiling or all of it."""
    pod = make_pod(image="app:1", spec={"volumes": [{"name": "v", "image": {"reference": "data:1"}}]})
    nodes = (
        make_node("a", images={"app:1": GIB}),
        make_node("b", images={"app:1": GIB}),
    )
    decision = decide(pod, *nodes, kubernetes_version=version)
    assert decision.scores is not None
    assert decision.scores.by_plugin["ImageLocality"].tolist() == ([50, 50] if version == "1.37" else [100, 100])


@BOTH
def test_a_negative_namespace_selector(version: str) -> None:
    """Namespace "far" has the label that the selector excludes; until 1.36 empty labels are asked instead."""
    far = make_object("Namespace", "far", metadata={"labels": {"team": "x"}})
    near = make_object("Namespace", "default")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    }
    spec: dict[str, Any] = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    other = make_pod("db", namespace="far", node="a", labels={"app": "db"})
    decision = decide(make_pod(spec=spec), make_node("a"), far, near, other, kubernetes_version=version)
    assert (decision.node == "a") is (version == "1.37")


@BOTH
def test_volume_binding_scores(version: str) -> None:
    decision = decide(make_pod(), make_node("a"), make_node("b"), kubernetes_version=version)
    assert decision.scores is not None
    assert ("VolumeBinding" in decision.scores.by_plugin) is (version == "1.37")
