"""VolumeZone: bound volumes with topology labels."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.cluster_event import ActionType, Hint
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.volume_zone import VolumeZone

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
REFUSED = {"a": ["~node(s) had no available volume zone"]}


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({ZONE: "z1"}, {ZONE: "z1"}, True, id="the same zone"),
        pytest.param({ZONE: "z1"}, {ZONE: "z2"}, False, id="another zone"),
        pytest.param({ZONE: "z1__z2"}, {ZONE: "z2"}, True, id="one of several zones"),
        pytest.param({ZONE: "z1 __ z2"}, {ZONE: "z2"}, True, id="spaces around zones do not count"),
        pytest.param({ZONE: "z1__"}, {ZONE: "z2"}, True, id="a malformed list of zones is ignored"),
        pytest.param({ZONE: "z1"}, {}, True, id="a node without topology labels takes anything"),
        pytest.param({ZONE: "z1"}, {REGION: "r"}, False, id="a node with other topology labels lacks the zone"),
        pytest.param({BETA_ZONE: "z1"}, {ZONE: "z1"}, True, id="a beta label of the volume meets the node's new one"),
        pytest.param({BETA_ZONE: "z1"}, {BETA_ZONE: "z2", ZONE: "z1"}, False, id="the node's beta label comes first"),
        pytest.param({ZONE: "z1"}, {BETA_ZONE: "z1"}, False, id="a new label does not meet the node's beta one"),
        pytest.param({ZONE: "z1", REGION: "r1"}, {ZONE: "z1", REGION: "r2"}, False, id="all labels must agree"),
        pytest.param({BETA_REGION: "r1"}, {REGION: "r1"}, True, id="regions have a successor, too"),
    ],
)
def test_labels_of_volume_and_node(world: Any, volume: dict[str, str], node: dict[str, str], fits: bool) -> None:
    world.node("a", **node)
    world.volume("pv", metadata={"labels": volume})
    world.claim("c", bound="pv")
    assert world.judge(VolumeZone(None, world.handle), world.pod("c")) == ({} if fits else REFUSED)


def test_every_volume_must_fit(world: Any) -> None:
    world.node("a", **{ZONE: "z1"})
    for i in (1, 2):
        world.volume(f"pv{i}", metadata={"labels": {ZONE: f"z{i}"}})
        world.claim(f"c{i}", bound=f"pv{i}")
    assert world.judge(VolumeZone(None, world.handle), world.pod("c1", "c2")) == REFUSED


def test_it_judges_without_its_pre_filter_as_well(world: Any) -> None:
    world.node("a", **{ZONE: "z2"})
    world.volume("pv", metadata={"labels": {ZONE: "z1"}})
    world.claim("c", bound="pv")
    plugin = VolumeZone(None, world.handle)
    assert world.filter(plugin, world.pod("c"), CycleState()) == REFUSED
    assert world.filter(plugin, world.pod("x"), CycleState()) == {"a": ['~persistentvolumeclaim "x" not found']}


@pytest.mark.parametrize(
    ("claim", "want"),
    [
        pytest.param({"name": ""}, "PersistentVolumeClaim had no name", id="no name"),
        pytest.param({"name": "x"}, 'persistentvolumeclaim "x" not found', id="no claim"),
        pytest.param({"bound": "pv"}, 'persistentvolume "pv" not found', id="no volume"),
        pytest.param(
            {"cls": None}, "PersistentVolumeClaim had no pv name and storageClass name", id="neither volume nor class"
        ),
        pytest.param({"cls": "x"}, 'storageclass.storage.k8s.io "x" not found', id="no such class"),
        pytest.param({"cls": "odd"}, 'VolumeBindingMode not set for StorageClass "odd"', id="a class without a mode"),
        pytest.param({"cls": "now"}, "PersistentVolume had no name", id="a class that should have bound it"),
    ],
)
def test_claims_that_refuse_every_node(world: Any, claim: dict[str, Any], want: str) -> None:
    world.node("a", **{ZONE: "z"})
    world.storage_class("odd", mode=None)
    world.storage_class("now", mode="Immediate")
    name = claim.pop("name", "c")
    if name == "c":
        world.claim(name, **claim)
    status = world.pre_filter(VolumeZone(None, world.handle), world.pod(name))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (want,)


def test_claims_that_wait_and_pods_without_claims_are_skipped(world: Any) -> None:
    world.storage_class("slow")
    world.claim("c")
    plugin = VolumeZone(None, world.handle)
    assert world.pre_filter(plugin, world.pod("c")).is_skip
    assert world.pre_filter(plugin, world.pod()).is_skip
    assert world.pre_filter(plugin, world.pod(volumes=[{"ephemeral": {}}])).is_skip


class TestHints:
    def test_what_it_wants_to_hear_of(self, world: Any) -> None:
        events = VolumeZone(None, world.handle).events_to_register()
        assert [(e.event.resource.value, int(e.event.action), e.hint is not None) for e in events] == [
            ("storage.k8s.io/StorageClass", 1, True),
            ("Node", 1 | 8, False),
            ("PersistentVolumeClaim", 1 | int(ActionType.UPDATE), True),
            ("PersistentVolume", 1 | int(ActionType.UPDATE), True),
        ]

    @pytest.mark.parametrize(
        ("mode", "want"), [("WaitForFirstConsumer", Hint.QUEUE), ("Immediate", Hint.SKIP), (None, Hint.SKIP)]
    )
    def test_a_class_was_added(self, world: Any, mode: str | None, want: Hint) -> None:
        hint = VolumeZone(None, world.handle).events_to_register()[0].hint
        assert hint is not None
        assert hint(world.pod("c"), None, world.storage_class("x", mode=mode)) is want

    @pytest.mark.parametrize(("name", "want"), [("c", Hint.QUEUE), ("d", Hint.SKIP)])
    def test_a_claim_changed(self, world: Any, name: str, want: Hint) -> None:
        hint = VolumeZone(None, world.handle).events_to_register()[2].hint
        assert hint is not None
        assert hint(world.pod("c"), None, world.claim(name)) is want

    @pytest.mark.parametrize(
        ("before", "after", "want"),
        [
            pytest.param(None, {}, Hint.QUEUE, id="a new volume"),
            pytest.param({ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE, id="another zone"),
            pytest.param({ZONE: "a__b"}, {ZONE: "b__a"}, Hint.SKIP, id="the same zones in another order"),
            pytest.param({ZONE: "a"}, {ZONE: "a", "x": "y"}, Hint.SKIP, id="another label"),
        ],
    )
    def test_a_volume_changed(self, world: Any, before: Any, after: Any, want: Hint) -> None:
        hint = VolumeZone(None, world.handle).events_to_register()[3].hint
        assert hint is not None
        old = None if before is None else world.volume("pv", metadata={"labels": before})
        assert hint(world.pod("c"), old, world.volume("pv", metadata={"labels": after})) is want
