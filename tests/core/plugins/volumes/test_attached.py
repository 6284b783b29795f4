"""How many volumes of each driver are attached where, and what makes a node be counted anew."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.core.plugins.volumes.attached import NO_LIMIT, AttachedVolumes, ClaimMissing, CountError, limits


@pytest.fixture
def attached(world: Any) -> AttachedVolumes:
    world.node("a", csi={"csi.x": 2})
    world.node("b", csi={"csi.x": -1})
    world.node("c")
    world.settle()
    return AttachedVolumes(world.cluster)


def csi_claim(world: Any, name: str, driver: str = "csi.x") -> None:
    """A claim that is bound to a volume of a driver."""
    world.volume(f"pv-{name}", csi={"driver": driver, "volumeHandle": f"h-{name}"})
    world.claim(name, bound=f"pv-{name}")


def counts(attached: AttachedVolumes, driver: str = "csi.x") -> list[int]:
    attached.refresh()
    found: list[int] = attached.count(driver).tolist()
    return found


class TestCounts:
    def test_volumes_of_pods_count(self, world: Any, attached: AttachedVolumes) -> None:
        for name in ("one", "two"):
            csi_claim(world, name)
        csi_claim(world, "other", "csi.y")
        world.pod("one", "two", "other", name="p", on="a")
        assert (counts(attached), counts(attached, "csi.y")) == ([2, 0, 0], [1, 0, 0])

    def test_pods_that_share_a_volume_count_it_once(self, world: Any, attached: AttachedVolumes) -> None:
        csi_claim(world, "one")
        world.pod("one", name="p", on="a")
        world.pod("one", name="q", on="a")
        assert counts(attached) == [1, 0, 0]
        assert attached.users("csi.x/h-one") == {"a"} and attached.rows_using("csi.x/h-one").tolist() == [0]

    def test_attachments_count_once_beside_pods(self, world: Any, attached: AttachedVolumes) -> None:
        for name in ("one", "left"):
            csi_claim(world, name)
            world.attachment(f"at-{name}", "a", f"pv-{name}")
        world.pod("one", name="p", on="a")
        assert counts(attached) == [2, 0, 0]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda w: w.remove_pod("p"), id="its pod goes"),
            pytest.param(lambda w: w.cluster.objects.remove(PersistentVolumeClaim, "ns/one"), id="its claim goes"),
            pytest.param(
                lambda w: w.volume("pv-one", csi={"driver": "csi.y", "volumeHandle": "h"}), id="its volume changes"
            ),
        ],
    )
    def test_a_node_is_recounted(self, world: Any, attached: AttachedVolumes, change: Any) -> None:
        csi_claim(world, "one")
        world.pod("one", name="p", on="a")
        assert counts(attached) == [1, 0, 0]
        change(world)
        assert counts(attached) == [0, 0, 0]

    def test_an_attachment_that_goes(self, world: Any, attached: AttachedVolumes) -> None:
        csi_claim(world, "one")
        world.attachment("at", "b", "pv-one")
        assert counts(attached) == [0, 1, 0]
        world.cluster.objects.remove(VolumeAttachment, "at")
        assert counts(attached) == [0, 0, 0]

    def test_nodes_come_and_go(self, world: Any, attached: AttachedVolumes) -> None:
        csi_claim(world, "one")
        world.csi_node("b", {"csi.x": 3})
        world.pod("one", name="p", on="b")
        assert counts(attached) == [0, 1, 0]
        world.cluster.remove_node("a")
        world.settle()
        assert counts(attached) == [1, 0]

    def test_counts_are_dropped_with_the_last_limit_and_return_with_the_next(
        self, world: Any, attached: AttachedVolumes
    ) -> None:
        csi_claim(world, "one")
        world.pod("one", name="p", on="b")
        assert (counts(attached), attached.users("csi.x/h-one")) == ([0, 1, 0], {"b"})
        world.cluster.remove_node("a")
        world.settle()
        assert (counts(attached), attached.users("csi.x/h-one")) == ([0, 0], set())
        world.csi_node("c", {"csi.x": 7})
        assert counts(attached) == [1, 0]

    def test_a_volume_that_does_not_exist_yet_counts_for_its_class(self, world: Any, attached: AttachedVolumes) -> None:
        world.storage_class("slow", provisioner="csi.x")
        world.claim("new")
        world.pod("new", name="p", on="a")
        assert counts(attached) == [1, 0, 0]


class TestNewPods:
    def test_its_volumes_are_found(self, world: Any, attached: AttachedVolumes) -> None:
        csi_claim(world, "one")
        found = attached.of_new_pod(world.cluster.info(world.pod("one")), has_csi_node=True)
        assert found == {"csi.x/h-one": "csi.x"}

    def test_a_claim_that_is_missing(self, world: Any, attached: AttachedVolumes) -> None:
        with pytest.raises(ClaimMissing, match='looking up PVC ns/gone: persistentvolumeclaim "gone" not found'):
            attached.of_new_pod(world.cluster.info(world.pod("gone")), has_csi_node=True)

    def test_a_claim_without_a_name(self, world: Any, attached: AttachedVolumes) -> None:
        with pytest.raises(CountError, match="PersistentVolumeClaim had no name"):
            attached.of_new_pod(world.cluster.info(world.pod("")), has_csi_node=True)


def test_a_pod_whose_volumes_cannot_be_counted_is_remembered(world: Any, attached: AttachedVolumes) -> None:
    world.claim("pod-x")
    ephemeral = {"name": "x", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    world.pod(on="a", volumes=[ephemeral])
    attached.refresh()
    assert attached.failing == {"a": "PVC ns/pod-x was not created for pod ns/pod (pod is not owner)"}
    world.remove_pod("pod")
    attached.refresh()
    assert attached.failing == {}


def test_limits_are_those_of_csi_nodes(world: Any, attached: AttachedVolumes) -> None:
    attached.refresh()
    found = attached.limit("csi.x")
    assert found is not None and found.tolist() == [2, NO_LIMIT, NO_LIMIT]
    assert attached.limit("csi.y") is None
    assert (attached.has_csi_node.tolist(), attached.has_limits.tolist()) == ([True, True, False], [True, False, False])
    assert attached.installed("csi.x").tolist() == [True, True, False]
    world.csi_node("c", {"csi.x": 7})
    attached.refresh()
    found = attached.limit("csi.x")
    assert found is not None and found.tolist() == [2, NO_LIMIT, 7]


def test_drivers_that_name_no_limit_are_not_listed(world: Any) -> None:
    assert limits(world.csi_node("a", {"csi.x": 2, "csi.y": -1})) == {"csi.x": 2}
    assert limits(None) == {}


def test_an_unused_volume_is_forgotten(world: Any, attached: AttachedVolumes) -> None:
    csi_claim(world, "one")
    world.pod("one", name="p", on="a")
    attached.refresh()
    world.remove_pod("p")
    world.cluster.objects.remove(PersistentVolume, "pv-one")
    attached.refresh()
    assert attached.users("csi.x/h-one") == set()
    assert not attached._claim_nodes and not attached._volume_nodes and not attached._users
