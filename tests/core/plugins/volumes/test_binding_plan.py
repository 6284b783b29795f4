"""Plans: which volume each claim would get on each node, and why a node cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.core.plugins.volumes.binding_plan import (
    BIND_CONFLICT,
    ERROR,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    Planner,
    PodClaims,
)
from mooring.core.plugins.volumes.free_volumes import AssumeCache


@pytest.fixture
def planner(world: Any) -> Planner:
    for name in ("a", "b"):
        world.node(name)
    world.storage_class("slow")
    world.storage_class("made", provisioner="csi.x")
    world.settle()
    return Planner(world.cluster, AssumeCache(PersistentVolume, world.cluster.objects, "persistentvolumes"))


def codes(planner: Planner, *, bound: Any = (), delayed: Any = ()) -> list[int]:
    found: list[int] = planner.plan(PodClaims(list(bound), list(delayed))).codes.tolist()
    return found


def on_node(planner: Planner, row: int, *delayed: PersistentVolumeClaim) -> tuple[list[str], list[str]]:
    """(claims with the volumes that they get, claims for which one is made)."""
    found = planner.volumes_on(planner.plan(PodClaims([], list(delayed))), row)
    return [f"{each.claim.name}={each.volume.name}" for each in found.bindings], [c.name for c in found.provisions]


class TestBoundClaims:
    def test_a_volume_of_one_node(self, world: Any, planner: Planner) -> None:
        world.volume("v", on=["b"])
        assert codes(planner, bound=[world.claim("c", bound="v")]) == [NODE_CONFLICT, 0]

    def test_a_volume_that_does_not_exist(self, world: Any, planner: Planner) -> None:
        assert codes(planner, bound=[world.claim("c", bound="gone")]) == [VOLUME_MISSING] * 2

    def test_the_first_that_does_not_fit_settles_a_node(self, world: Any, planner: Planner) -> None:
        world.volume("v", on=["b"])
        claims = [world.claim("c", bound="v"), world.claim("d", bound="gone")]
        assert codes(planner, bound=claims) == [NODE_CONFLICT, VOLUME_MISSING]


class TestFreeVolumes:
    def test_the_smallest_that_is_large_enough(self, world: Any, planner: Planner) -> None:
        world.volume("large", "5Gi", on=["a", "b"])
        world.volume("fits", "2Gi", on=["a"])
        world.volume("small", "1Gi", on=["a", "b"])
        claim = world.claim("c", "2Gi")
        assert on_node(planner, 0, claim) == (["c=fits"], [])
        assert on_node(planner, 1, claim) == (["c=large"], [])

    def test_two_claims_get_two_volumes(self, world: Any, planner: Planner) -> None:
        world.volume("v", "1Gi", on=["a"])
        world.volume("w", "2Gi", on=["a"])
        claims = [world.claim("c", "2Gi"), world.claim("d", "1Gi")]
        assert on_node(planner, 0, *claims) == (["d=v", "c=w"], [])
        assert codes(planner, delayed=claims) == [0, BIND_CONFLICT]

    def test_a_volume_that_is_meant_for_the_claim_is_the_only_choice(self, world: Any, planner: Planner) -> None:
        world.volume("free", on=["a", "b"])
        world.volume("meant", "5Gi", on=["a"], claimRef={"name": "c", "namespace": "ns"})
        claim = world.claim("c")
        assert on_node(planner, 0, claim) == (["c=meant"], [])
        assert codes(planner, delayed=[claim]) == [0, BIND_CONFLICT]

    def test_a_selector_that_does_not_parse_is_an_error(self, world: Any, planner: Planner) -> None:
        odd = {"matchExpressions": [{"key": "k", "operator": "Odd"}]}
        plan = planner.plan(PodClaims([], [world.claim("c", selector=odd)]))
        assert plan.codes.tolist() == [ERROR] * 2
        assert plan.errors[0].startswith("error creating internal label selector for claim: ns/c: ")


class TestProvisioning:
    def test_a_class_that_makes_volumes(self, world: Any, planner: Planner) -> None:
        claim = world.claim("c", cls="made")
        assert (codes(planner, delayed=[claim]), on_node(planner, 0, claim)) == ([0, 0], ([], ["c"]))

    def test_a_class_that_makes_none(self, world: Any, planner: Planner) -> None:
        assert codes(planner, delayed=[world.claim("c", cls="slow")]) == [BIND_CONFLICT] * 2

    def test_a_class_that_makes_them_for_some_nodes(self, world: Any, planner: Planner) -> None:
        topologies = [{"matchLabelExpressions": [{"key": "host", "values": ["b"]}]}]
        world.storage_class("made", provisioner="csi.x", allowedTopologies=topologies)
        assert codes(planner, delayed=[world.claim("c", cls="made")]) == [BIND_CONFLICT, 0]

    def test_a_class_that_does_not_exist(self, world: Any, planner: Planner) -> None:
        plan = planner.plan(PodClaims([], [world.claim("c", cls="ghost")]))
        assert plan.errors == dict.fromkeys((0, 1), 'failed to find storage class "ghost"')

    def test_a_driver_that_says_how_much_it_has(self, world: Any, planner: Planner) -> None:
        world.csi_driver("csi.x", storageCapacity=True)
        world.capacity("x", "made", {"matchLabels": {"host": "a"}}, capacity="1Gi")
        assert codes(planner, delayed=[world.claim("c", "1Gi", cls="made")]) == [0, NOT_ENOUGH_SPACE]
        assert codes(planner, delayed=[world.claim("c", "2Gi", cls="made")]) == [NOT_ENOUGH_SPACE] * 2

    def test_a_claim_that_has_its_node(self, world: Any, planner: Planner) -> None:
        chosen = {"volume.kubernetes.io/selected-node": "b"}
        claim = world.claim("c", cls="made", annotations=chosen)
        assert (codes(planner, delayed=[claim]), on_node(planner, 1, claim)) == ([BIND_CONFLICT, 0], ([], ["c"]))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda w: w.volume("v"), id="a volume"),
        pytest.param(lambda w: w.storage_class("new"), id="a class"),
        pytest.param(lambda w: w.node("a", zone="z"), id="a node's labels"),
        pytest.param(lambda w: w.csi_driver("csi.x"), id="a driver"),
        pytest.param(lambda w: w.capacity("x", "made", None), id="a capacity"),
        pytest.param(lambda w: w.csi_node("a", {}), id="a CSINode"),
    ],
)
def test_the_state_differs_after_a_plan_may_have_changed(world: Any, planner: Planner, change: Any) -> None:
    before = planner.state()
    assert planner.state() == before
    change(world)
    world.settle()
    assert planner.state() != before
