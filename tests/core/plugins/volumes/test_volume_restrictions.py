"""VolumeRestrictions: disks and claims that cannot be shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.core import Pod
from mooring.core.framework.cluster_event import ActionType, EventResource, Hint
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.volume_restrictions import VolumeRestrictions

NO_DISK = ["node(s) had no available disk"]
IN_USE = [
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
]


def gce(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "readOnly": read_only}}


def rbd(monitors: list[str], pool: str = "rbd", image: str = "i", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": monitors, "pool": pool, "image": image, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        pytest.param(gce("a"), gce("a"), True, id="two writers of one GCE disk"),
        pytest.param(gce("a", True), gce("a"), True, id="a reader beside a writer of one GCE disk"),
        pytest.param(gce("a", True), gce("a", True), False, id="two readers of one GCE disk"),
        pytest.param(gce("a"), gce("b"), False, id="different GCE disks"),
        pytest.param(ebs("a", True), ebs("a", True), True, id="EBS is not shared even by readers"),
        pytest.param(ebs("a"), ebs("b"), False, id="different EBS volumes"),
        pytest.param(iscsi("q"), iscsi("q"), True, id="two writers of one iSCSI target"),
        pytest.param(iscsi("q", True), iscsi("q", True), False, id="two readers of one iSCSI target"),
        pytest.param(iscsi("q"), iscsi("r"), False, id="different iSCSI targets"),
        pytest.param(rbd(["m1", "m2"]), rbd(["m2", "m3"]), True, id="one RBD image through a shared monitor"),
        pytest.param(rbd(["m1"]), rbd(["m2"]), False, id="equal RBD names at different monitors"),
        pytest.param(rbd(["m1"], pool="p"), rbd(["m1"]), False, id="different RBD pools"),
        pytest.param(rbd(["m1"], image="j"), rbd(["m1"]), False, id="different RBD images"),
        pytest.param(rbd(["m"], read_only=True), rbd(["m"], read_only=True), False, id="two readers of an RBD image"),
        pytest.param(rbd(["m"], read_only=True), rbd(["m"]), True, id="a reader beside a writer of an RBD image"),
        pytest.param(gce("a"), ebs("a"), False, id="equal names of different kinds"),
    ],
)
def test_inline_disks_on_the_same_node(world: Any, mine: Any, theirs: Any, conflict: bool) -> None:
    world.node("a")
    world.node("b")
    world.pod(name="other", on="a", volumes=[theirs])
    told = world.judge(VolumeRestrictions(None, world.handle), world.pod(volumes=[mine]))
    assert told == ({"a": NO_DISK} if conflict else {})


def test_the_disk_is_free_again_when_its_pod_goes(world: Any) -> None:
    world.node("a")
    world.pod(name="other", on="a", volumes=[gce("d")])
    plugin, pod = VolumeRestrictions(None, world.handle), world.pod(volumes=[gce("d")])
    assert world.judge(plugin, pod) == {"a": NO_DISK}
    world.cluster.remove_pod("uid-other")
    assert world.judge(plugin, pod) == {}
    world.pod(name="third", on="a", volumes=[gce("d")])
    assert world.judge(plugin, pod) == {"a": NO_DISK}
    world.cluster.remove_node("a")
    world.node("b")
    assert world.judge(plugin, pod) == {}


def test_only_some_rows_can_be_asked_about(world: Any) -> None:
    for name in "abc":
        world.node(name)
        world.pod(name=f"on-{name}", on=name, volumes=[gce("d")] if name != "b" else [])
    plugin, pod = VolumeRestrictions(None, world.handle), world.pod(volumes=[gce("d")])
    nodes = world.cluster.nodes()
    some = nodes.subset(np.array([i for i, info in enumerate(nodes.infos) if info.name in "bc"]))
    assert world.judge(plugin, pod, nodes=some) == {"c": NO_DISK}


def test_a_hypothesis_is_judged_by_its_own_pods(world: Any) -> None:
    world.node("a")
    world.node("b")
    world.pod(name="other", on="a", volumes=[gce("d")])
    plugin, pod = VolumeRestrictions(None, world.handle), world.pod(volumes=[gce("d")])
    fork = world.cluster.nodes().fork()
    at = {info.name: i for i, info in enumerate(fork.infos)}
    moved = world.cluster.pod("uid-other")
    fork.table.move_pods([(at["a"], moved)], -1)
    fork.table.move_pods([(at["b"], moved)], 1)
    assert world.judge(plugin, pod, nodes=fork) == {"b": NO_DISK}


@pytest.mark.parametrize(
    "volumes", [[], [{"emptyDir": {}}], [{"csi": {"driver": "d"}}], [{"ephemeral": {}}]], ids=lambda v: str(v)
)
def test_pods_without_such_volumes_are_skipped(world: Any, volumes: Any) -> None:
    world.node("a")
    assert world.pre_filter(VolumeRestrictions(None, world.handle), world.pod(volumes=volumes)).is_skip


def test_a_claim_that_does_not_exist_cannot_be_resolved_here(world: Any) -> None:
    status = world.pre_filter(VolumeRestrictions(None, world.handle), world.pod("ghost"))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ('persistentvolumeclaim "ghost" not found',)


class TestReadWriteOncePod:
    def test_a_claim_in_use_refuses_every_node(self, world: Any) -> None:
        world.node("a")
        world.node("b")
        world.claim("c", accessModes=["ReadWriteOncePod"])
        world.pod("c", name="other", on="a")
        told = world.judge(VolumeRestrictions(None, world.handle), world.pod("c"))
        assert told == {"a": IN_USE, "b": IN_USE}

    def test_a_user_whose_node_is_gone_is_not_in_the_way(self, world: Any) -> None:
        world.node("a")
        world.claim("c", accessModes=["ReadWriteOncePod"])
        world.pod("c", name="other", on="gone")
        plugin = VolumeRestrictions(None, world.handle)
        assert world.pre_filter(plugin, world.pod("c")).is_skip
        world.node("gone")
        assert world.pre_filter(plugin, world.pod("c")).is_success

    def test_a_disk_conflict_is_reported_first(self, world: Any) -> None:
        world.node("a")
        world.node("b")
        world.claim("c", accessModes=["ReadWriteOncePod"])
        world.pod("c", name="other", on="a", volumes=[gce("d")])
        told = world.judge(VolumeRestrictions(None, world.handle), world.pod("c", volumes=[gce("d")]))
        assert told == {"a": NO_DISK, "b": IN_USE}

    @pytest.mark.parametrize(
        ("modes", "namespace", "user"),
        [
            pytest.param(["ReadWriteOnce"], "ns", "c", id="a claim of another mode can be shared"),
            pytest.param(["ReadWriteOncePod"], "elsewhere", "c", id="a claim of that name in another namespace"),
            pytest.param(["ReadWriteOncePod"], "ns", "d", id="another claim"),
        ],
    )
    def test_what_is_no_conflict(self, world: Any, modes: list[str], namespace: str, user: str) -> None:
        world.node("a")
        world.claim("c", accessModes=modes)
        world.pod(user, name="other", on="a", namespace=namespace)
        assert world.pre_filter(VolumeRestrictions(None, world.handle), world.pod("c")).is_skip

    def test_removing_the_user_in_thought_frees_the_claim(self, world: Any) -> None:
        world.node("a")
        world.claim("c", accessModes=["ReadWriteOncePod"])
        world.pod("c", name="other", on="a")
        plugin, pod, state = VolumeRestrictions(None, world.handle), world.pod("c"), CycleState()
        assert world.pre_filter(plugin, pod, state).is_success
        copy = state.clone()
        other, node = world.cluster.pod("uid-other"), world.cluster.table.info("a")
        assert plugin.remove_pod(copy, world.cluster.info(pod), other, node).is_success
        assert world.filter(plugin, pod, copy) == {}
        assert world.filter(plugin, pod, state) == {"a": IN_USE}
        assert plugin.add_pod(copy, world.cluster.info(pod), other, node).is_success
        assert world.filter(plugin, pod, copy) == {"a": IN_USE}


def test_without_its_pre_filter_the_filter_fails(world: Any) -> None:
    world.node("a")
    told = world.filter(VolumeRestrictions(None, world.handle), world.pod(volumes=[gce("d")]), CycleState())
    assert told == {"a": ['!cannot read "PreFilterVolumeRestrictions" from cycleState']}


class TestHints:
    def hint(self, world: Any, resource: EventResource, action: ActionType) -> Any:
        plugin = VolumeRestrictions(None, world.handle)
        return next(
            e.hint for e in plugin.events_to_register() if e.event.resource is resource and action & e.event.action
        )

    def test_what_it_wants_to_hear_of(self, world: Any) -> None:
        plugin = VolumeRestrictions(None, world.handle)
        assert [(e.event.label, e.hint is not None) for e in plugin.events_to_register()] == [
            ("PodDelete", True),
            ("NodeAdd", False),
            ("PersistentVolumeClaimAdd", True),
        ]

    @pytest.mark.parametrize(
        ("mine", "theirs", "namespace", "want"),
        [
            pytest.param(([], [gce("d")]), ([], [gce("d")]), "ns", Hint.QUEUE, id="its disk was in the way"),
            pytest.param(([], [gce("d")]), ([], [gce("d")]), "other", Hint.SKIP, id="another namespace's disk"),
            pytest.param(([], [gce("d")]), ([], [gce("e")]), "ns", Hint.SKIP, id="another disk"),
            pytest.param((["c"], []), (["c"], []), "ns", Hint.QUEUE, id="it used the same claim"),
            pytest.param((["c"], []), (["d"], []), "ns", Hint.SKIP, id="it used another claim"),
        ],
    )
    def test_a_pod_was_deleted(self, world: Any, mine: Any, theirs: Any, namespace: str, want: Hint) -> None:
        waiting = world.pod(*mine[0], volumes=mine[1])
        deleted = world.pod(*theirs[0], volumes=theirs[1], name="gone", namespace=namespace)
        assert self.hint(world, EventResource.POD, ActionType.DELETE)(waiting, deleted, None) is want

    @pytest.mark.parametrize(("name", "want"), [("c", Hint.QUEUE), ("d", Hint.SKIP)])
    def test_a_claim_was_added(self, world: Any, name: str, want: Hint) -> None:
        hint = self.hint(world, EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        assert hint(world.pod("c"), None, world.claim(name)) is want

    def test_an_ephemeral_claim_does_not_matter(self, world: Any) -> None:
        hint = self.hint(world, EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        pod: Pod = world.pod(volumes=[{"ephemeral": {}}])
        assert hint(pod, None, world.claim("pod-v0")) is Hint.SKIP
