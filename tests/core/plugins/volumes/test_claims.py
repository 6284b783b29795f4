"""A pod's volume claims: how they are called, whose they are, and how far they are bound."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.volumes.claims import (
    claim_class,
    claim_of,
    claims_of,
    is_fully_bound,
    ownership_problem,
    refers_to,
    volume_class,
)

EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
OWNED = [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}]


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, ("c", False), id="a claim by its name"),
        pytest.param(EPHEMERAL, ("pod-scratch", True), id="an ephemeral volume's claim"),
        pytest.param({"emptyDir": {}}, None, id="a volume without a claim"),
    ],
)
def test_the_claim_behind_a_volume(world: Any, volume: dict[str, Any], want: tuple[str, bool] | None) -> None:
    pod = world.pod(volumes=[volume])
    assert claim_of(pod, pod.spec.volumes[0]) == want


def test_claims_come_in_the_order_of_volumes(world: Any) -> None:
    pod = world.pod("b", "a", "b", volumes=[{"emptyDir": {}}, EPHEMERAL])
    assert [ref.name for ref in claims_of(world.cluster.info(pod))] == ["b", "a", "b", "pod-scratch"]


@pytest.mark.parametrize(
    ("name", "ephemeral", "want"),
    [
        pytest.param("c", False, True, id="a claim that the pod names"),
        pytest.param("d", False, False, id="another claim"),
        pytest.param("pod-scratch", False, False, id="an ephemeral volume's claim does not count"),
        pytest.param("pod-scratch", True, True, id="an ephemeral volume's claim counts"),
    ],
)
def test_whether_a_pod_refers_to_a_claim(world: Any, name: str, ephemeral: bool, want: bool) -> None:
    assert refers_to(world.pod("c", volumes=[EPHEMERAL]), world.claim(name), ephemeral=ephemeral) is want


def test_a_claim_of_another_namespace_is_another_claim(world: Any) -> None:
    assert not refers_to(world.pod("c", namespace="other"), world.claim("c"), ephemeral=True)


@pytest.mark.parametrize(
    ("owners", "problem"),
    [
        pytest.param(OWNED, "", id="the pod's"),
        pytest.param([], "PVC ns/c was not created for pod ns/pod (pod is not owner)", id="without an owner"),
        pytest.param(
            [OWNED[0] | {"uid": "older"}],
            "PVC ns/c was not created for pod ns/pod (pod is not owner)",
            id="an earlier pod's of that name",
        ),
    ],
)
def test_whose_an_ephemeral_claim_is(world: Any, owners: list[dict[str, Any]], problem: str) -> None:
    claim = world.claim("c", metadata={"ownerReferences": owners})
    assert ownership_problem(world.pod("c"), claim) == problem


def test_a_claim_is_bound_when_both_say_so(world: Any) -> None:
    assert is_fully_bound(world.claim("a", bound="v"))
    assert not is_fully_bound(world.claim("b", volumeName="v"))
    assert not is_fully_bound(world.claim("c"))


@pytest.mark.parametrize(
    ("annotations", "name", "want"),
    [
        pytest.param({}, "fast", "fast", id="the field"),
        pytest.param({"volume.beta.kubernetes.io/storage-class": "old"}, "fast", "old", id="the annotation is older"),
        pytest.param({"volume.beta.kubernetes.io/storage-class": ""}, "fast", "", id="even an empty one"),
        pytest.param({}, None, "", id="none"),
    ],
)
def test_the_class_of_a_claim(world: Any, annotations: dict[str, str], name: str | None, want: str) -> None:
    assert claim_class(world.claim("c", cls=name, annotations=annotations)) == want


def test_the_class_of_a_volume(world: Any) -> None:
    assert volume_class(world.volume("v", cls="slow")) == "slow"
