"""NodeVolumeLimits: attached volumes against the limits of CSI drivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.core.framework.cluster_event import Hint
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.node_volume_limits import NodeVolumeLimits
from mooring.core.plugins.volumes.attached import NO_LIMIT, AttachedVolumes

FULL = ["node(s) exceed max volume count"]


def csi(handle: str, driver: str = "csi.x") -> dict[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def bound(world: Any, name: str, handle: str | None = None, driver: str = "csi.x") -> str:
    """A claim that is bound to a CSI volume of its own."""
    world.volume(f"pv-{name}", **csi(handle or name, driver))
    world.claim(name, bound=f"pv-{name}")
    return name


def test_the_limit_is_reached_but_not_exceeded(world: Any) -> None:
    world.node("a", csi={"csi.x": 2})
    world.node("b", csi={"csi.x": 3})
    for node in "ab":
        world.pod(bound(world, f"{node}1"), bound(world, f"{node}2"), name=node, on=node)
    plugin = NodeVolumeLimits(None, world.handle)
    assert world.judge(plugin, world.pod(bound(world, "new"))) == {"a": FULL}
    assert world.judge(plugin, world.pod("new", bound(world, "newer"))) == {"a": FULL, "b": FULL}


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(None, id="a node without a CSINode"),
        pytest.param({}, id="a CSINode without drivers"),
        pytest.param({"csi.x": -1}, id="a driver that gives no number"),
        pytest.param({"csi.y": 0}, id="a limit of another driver"),
    ],
)
def test_nodes_without_a_limit_take_any_number(world: Any, limits: dict[str, int] | None) -> None:
    world.node("a", csi=limits)
    assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))) == {}


def test_a_volume_in_use_on_the_node_is_not_new_there(world: Any) -> None:
    for node in "ab":
        world.node(node, csi={"csi.x": 1})
    world.pod(bound(world, "shared"), name="user", on="a")
    world.pod(bound(world, "other"), name="another", on="b")
    plugin = NodeVolumeLimits(None, world.handle)
    assert world.judge(plugin, world.pod("shared")) == {"b": FULL}
    assert world.judge(plugin, world.pod("shared", bound(world, "more"))) == {"a": FULL, "b": FULL}


def test_two_claims_of_one_volume_count_once(world: Any) -> None:
    world.node("a", csi={"csi.x": 1})
    assert (
        world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "c1", "h"), bound(world, "c2", "h")))
        == {}
    )


def test_drivers_are_counted_apart(world: Any) -> None:
    world.node("a", csi={"csi.x": 1, "csi.y": 1})
    world.pod(bound(world, "x"), name="user", on="a")
    plugin = NodeVolumeLimits(None, world.handle)
    assert world.judge(plugin, world.pod(bound(world, "y", driver="csi.y"))) == {}
    assert world.judge(plugin, world.pod("y", bound(world, "x2"))) == {"a": FULL}


class TestWhatCounts:
    """Each case puts one volume into a pod on the node; the limit is 1, so a new volume is refused if it counts."""

    @pytest.mark.parametrize(
        ("cls", "counts"),
        [
            pytest.param("dynamic", True, id="a claim that is yet to be provisioned"),
            pytest.param("missing", False, id="a claim of a class that does not exist"),
            pytest.param(None, False, id="a claim without a class"),
        ],
    )
    def test_unbound_claims(self, world: Any, cls: str | None, counts: bool) -> None:
        world.storage_class("dynamic", provisioner="csi.x")
        world.node("a", csi={"csi.x": 1})
        world.claim("c", cls=cls)
        world.pod("c", name="user", on="a")
        told = world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new")))
        assert told == ({"a": FULL} if counts else {})

    def test_a_claim_whose_volume_is_missing_counts_by_its_class(self, world: Any) -> None:
        world.storage_class("dynamic", provisioner="csi.x")
        world.node("a", csi={"csi.x": 1})
        world.claim("c", cls="dynamic", bound="gone")
        world.pod("c", name="user", on="a")
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))) == {"a": FULL}

    def test_a_missing_claim_of_a_running_pod_does_not_count(self, world: Any) -> None:
        world.node("a", csi={"csi.x": 1})
        world.pod("gone", name="user", on="a")
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))) == {}

    @pytest.mark.parametrize(
        ("source", "driver"),
        [
            ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io"),
            ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com"),
            ({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Managed"}}, "disk.csi.azure.com"),
            ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org"),
            ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
    )
    @pytest.mark.parametrize("inline", [True, False], ids=["inline", "persistent"])
    def test_in_tree_volumes_count_for_the_driver_that_took_over(
        self, world: Any, source: dict[str, Any], driver: str, inline: bool
    ) -> None:
        world.node("a", csi={driver: 1})
        world.node("no-csi")
        if inline:
            world.pod(name="user", on="a", volumes=[source])
        else:
            world.volume("pv", **source)
            world.claim("c", bound="pv")
            world.pod("c", name="user", on="a")
        told = world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new", driver=driver)))
        assert told == {"a": FULL}

    @pytest.mark.parametrize(
        "source",
        [
            {"azureFile": {"secretName": "s", "shareName": "n"}},
            {"vsphereVolume": {"volumePath": "p"}},
            {"nfs": {"server": "s", "path": "/"}},
            {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}},
        ],
        ids=lambda s: next(iter(s)),
    )
    def test_volumes_that_no_limit_is_kept_for(self, world: Any, source: dict[str, Any]) -> None:
        drivers = ("file.csi.azure.com", "csi.vsphere.vmware.com", "disk.csi.azure.com")
        world.node("a", csi=dict.fromkeys(drivers, 0))
        world.volume("pv", **source)
        world.claim("c", bound="pv")
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod("c")) == {}

    def test_classes_of_in_tree_provisioners_count_for_the_driver(self, world: Any) -> None:
        world.node("a", csi={"ebs.csi.aws.com": 0})
        world.storage_class("ebs", provisioner="kubernetes.io/aws-ebs")
        world.storage_class("file", provisioner="kubernetes.io/azure-file")
        world.claim("c", cls="ebs")
        world.claim("d", cls="file")
        plugin = NodeVolumeLimits(None, world.handle)
        assert world.judge(plugin, world.pod("c")) == {"a": FULL}
        assert world.judge(plugin, world.pod("d")) == {}


class TestAttachments:
    def test_attachments_count_beside_pods(self, world: Any) -> None:
        world.node("a", csi={"csi.x": 2})
        world.pod(bound(world, "used"), name="user", on="a")
        plugin = NodeVolumeLimits(None, world.handle)
        pod = world.pod(bound(world, "new"))
        world.attachment("va-1", "a", "pv-used")
        assert world.judge(plugin, pod) == {}  # that one is counted with its pod
        world.volume("pv-left", **csi("left"))
        world.attachment("va-2", "a", "pv-left")
        assert world.judge(plugin, pod) == {"a": FULL}
        world.cluster.objects.remove(VolumeAttachment, "va-2")
        assert world.judge(plugin, pod) == {}

    def test_an_attachment_counts_from_when_its_volume_is_known(self, world: Any) -> None:
        world.node("a", csi={"csi.x": 1})
        world.attachment("va", "a", "pv-late")
        plugin, pod = NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))
        assert world.judge(plugin, pod) == {}
        world.volume("pv-late", **csi("late"))
        assert world.judge(plugin, pod) == {"a": FULL}

    def test_a_volume_that_is_only_attached_counts_twice(self, world: Any) -> None:
        """As upstream: what no pod on the node uses is new, though it is attached."""
        world.node("a", csi={"csi.x": 1})
        bound(world, "new")
        world.attachment("va", "a", "pv-new")
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod("new")) == {"a": FULL}

    @pytest.mark.parametrize(
        ("volume", "attacher"),
        [
            pytest.param(None, "csi.x", id="without a volume"),
            pytest.param("gone", "csi.x", id="of a volume that is gone"),
            pytest.param("nfs", "csi.x", id="of a volume that is not CSI"),
            pytest.param("pv-left", "", id="without an attacher"),
            pytest.param("pv-left", "csi.y", id="of another driver"),
        ],
    )
    def test_attachments_that_do_not_count(self, world: Any, volume: str | None, attacher: str) -> None:
        world.node("a", csi={"csi.x": 1})
        world.volume("nfs")
        world.volume("pv-left", **csi("left"))
        world.attachment("va", "a", volume, attacher)
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))) == {}


class TestEphemeralVolumes:
    def claim(self, world: Any, pod: str, owner: str) -> None:
        owners = [{"controller": True, "uid": owner, "kind": "Pod", "name": pod}]
        world.volume(f"pv-{pod}", **csi(pod))
        world.claim(
            f"{pod}-v0",
            bound=f"pv-{pod}",
            metadata={"ownerReferences": owners, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        )

    def test_the_pods_own_claim_counts(self, world: Any) -> None:
        world.node("a", csi={"csi.x": 0})
        self.claim(world, "pod", "uid-pod")
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(volumes=[{"ephemeral": {}}])) == {"a": FULL}

    def test_a_claim_of_another_pod_is_an_error(self, world: Any) -> None:
        world.node("a", csi={"csi.x": 9})
        world.node("b")
        self.claim(world, "pod", "uid-somebody")
        told = world.judge(NodeVolumeLimits(None, world.handle), world.pod(volumes=[{"ephemeral": {}}]))
        text = "!PVC ns/pod-v0 was not created for pod ns/pod (pod is not owner)"
        assert told == {"a": [text], "b": [text]}

    def test_a_running_pod_with_the_claim_of_another_is_an_error_where_limits_are(self, world: Any) -> None:
        world.node("a", csi={"csi.y": 9})
        world.node("b")
        self.claim(world, "user", "uid-somebody")
        world.pod(name="user", on="a", volumes=[{"ephemeral": {}}])
        world.pod(name="user2", on="b", volumes=[{"ephemeral": {}}])
        told = world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new")))
        assert told == {"a": ["!PVC ns/user-v0 was not created for pod ns/user (pod is not owner)"]}


def test_a_missing_claim_of_the_new_pod_is_named(world: Any) -> None:
    world.node("a", csi={"csi.x": 9})
    world.node("b")
    told = world.judge(NodeVolumeLimits(None, world.handle), world.pod("ghost"))
    text = '~looking up PVC ns/ghost: persistentvolumeclaim "ghost" not found'
    assert told == {"a": [text], "b": [text]}


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}},
            "!converting volume(v0) from inline to csi: kind(Dedicated) is not supported in csi migration",
        ),
        ({"persistentVolumeClaim": {"claimName": ""}}, "!PersistentVolumeClaim had no name"),
    ],
    ids=["an unmanaged Azure disk", "a claim without a name"],
)
def test_volumes_that_cannot_be_counted(world: Any, volume: dict[str, Any], text: str) -> None:
    world.node("a", csi={"csi.x": 9})
    assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(volumes=[volume])) == {"a": [text]}


@pytest.mark.parametrize("volumes", [[], [{"emptyDir": {}}], [{"csi": {"driver": "csi.x"}}], [{"nfs": {}}]], ids=str)
def test_pods_without_such_volumes_are_skipped(world: Any, volumes: Any) -> None:
    assert world.pre_filter(NodeVolumeLimits(None, world.handle), world.pod(volumes=volumes)).is_skip


class TestVolumeLimitScaling:
    @pytest.mark.parametrize(
        ("spec", "refused"),
        [
            ({"preventPodSchedulingIfMissing": True}, True),
            ({"preventPodSchedulingIfMissing": False}, False),
            ({}, False),
            (None, False),
        ],
        ids=["a driver that insists", "one that does not", "one that says nothing", "an unknown driver"],
    )
    def test_a_node_without_the_driver(self, world: Any, spec: dict[str, Any] | None, refused: bool) -> None:
        world.node("has", csi={"csi.x": -1})
        world.node("lacks", csi={"csi.y": 5})
        world.node("bare")
        if spec is not None:
            world.csi_driver("csi.x", **spec)
        world.handle.features = {"VolumeLimitScaling": True}
        told = world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new")))
        text = ["csi.x CSI driver is not installed on the node"]
        assert told == ({"lacks": text, "bare": text} if refused else {})

    def test_without_the_gate_no_plugin_asks(self, world: Any) -> None:
        world.node("lacks", csi={"csi.y": 5})
        world.csi_driver("csi.x", preventPodSchedulingIfMissing=True)
        assert world.judge(NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))) == {}


def test_a_hypothesis_is_counted_by_its_own_pods(world: Any) -> None:
    for node in "ab":
        world.node(node, csi={"csi.x": 1})
    world.pod(bound(world, "used"), name="user", on="a")
    plugin, pod = NodeVolumeLimits(None, world.handle), world.pod(bound(world, "new"))
    fork = world.cluster.nodes().fork()
    at = {info.name: i for i, info in enumerate(fork.infos)}
    user = world.cluster.pod("uid-user")
    fork.table.move_pods([(at["a"], user)], -1)
    fork.table.move_pods([(at["b"], user)], 1)
    assert world.judge(plugin, pod, nodes=fork) == {"b": FULL}
    assert world.judge(plugin, pod, nodes=fork.subset(np.array([at["b"]]))) == {"b": FULL}
    assert world.judge(plugin, pod) == {"a": FULL}


class TestHints:
    def hints(self, world: Any) -> dict[str, Any]:
        return {e.event.label: e.hint for e in NodeVolumeLimits(None, world.handle).events_to_register()}

    def test_what_it_wants_to_hear_of(self, world: Any) -> None:
        assert {label: hint is not None for label, hint in self.hints(world).items()} == {
            "storage.k8s.io/CSINodeAdd": False,
            "storage.k8s.io/CSINodeUpdate": True,
            "PodDelete": True,
            "PersistentVolumeClaimAdd": True,
            "storage.k8s.io/VolumeAttachmentDelete": True,
        }

    @pytest.mark.parametrize(
        ("before", "after", "want"),
        [
            ({"x": 1}, {"x": 2}, Hint.QUEUE),
            ({"x": 2}, {"x": 1}, Hint.SKIP),
            ({"x": 1}, {"x": 1, "y": 1}, Hint.QUEUE),
            ({"x": 1}, {"x": 1, "y": 0}, Hint.SKIP),
            ({"x": 1}, {"x": -1}, Hint.SKIP),
            ({"x": -1}, {"x": 1}, Hint.QUEUE),
        ],
        ids=["raised", "lowered", "a new driver", "a new driver without room", "no number any more", "a first number"],
    )
    def test_limits_changed(self, world: Any, before: Any, after: Any, want: Hint) -> None:
        hint = self.hints(world)["storage.k8s.io/CSINodeUpdate"]
        assert hint(world.pod("c"), world.csi_node("a", before), world.csi_node("a", after)) is want

    @pytest.mark.parametrize(
        ("volume", "on", "want"),
        [
            ({"persistentVolumeClaim": {"claimName": "c"}}, "a", Hint.QUEUE),
            ({"ephemeral": {}}, "a", Hint.QUEUE),
            ({"cinder": {"volumeID": "v"}}, "a", Hint.QUEUE),
            ({"emptyDir": {}}, "a", Hint.SKIP),
            ({"persistentVolumeClaim": {"claimName": "c"}}, "", Hint.SKIP),
        ],
        ids=["a claim", "an ephemeral volume", "a migrated volume", "no such volume", "a pod that was nowhere"],
    )
    def test_a_pod_was_deleted(self, world: Any, volume: Any, on: str, want: Hint) -> None:
        deleted = world.pod(name="gone", on=on, volumes=[volume])
        assert self.hints(world)["PodDelete"](world.pod("c"), deleted, None) is want

    def test_a_nominated_pod_was_deleted(self, world: Any) -> None:
        deleted = world.pod("c", name="gone", status={"nominatedNodeName": "a"})
        assert self.hints(world)["PodDelete"](world.pod("c"), deleted, None) is Hint.QUEUE

    @pytest.mark.parametrize(("name", "want"), [("c", Hint.QUEUE), ("pod-v0", Hint.QUEUE), ("d", Hint.SKIP)])
    def test_a_claim_was_added(self, world: Any, name: str, want: Hint) -> None:
        pod = world.pod("c", volumes=[{"ephemeral": {}}])
        assert self.hints(world)["PersistentVolumeClaimAdd"](pod, None, world.claim(name)) is want

    @pytest.mark.parametrize(
        ("volumes", "want"),
        [
            ([{"persistentVolumeClaim": {"claimName": "c"}}], Hint.QUEUE),
            ([{"cinder": {"volumeID": "v"}}], Hint.QUEUE),
            ([{"awsElasticBlockStore": {"volumeID": "v"}}], Hint.SKIP),
            ([{"azureDisk": {"kind": "Shared"}}], Hint.QUEUE),
            ([{"ephemeral": {}}], Hint.SKIP),
        ],
        ids=["a claim", "a volume of the attacher", "a volume of another", "one that cannot move", "ephemeral"],
    )
    def test_an_attachment_was_deleted(self, world: Any, volumes: Any, want: Hint) -> None:
        gone = world.attachment("va", "a", "pv", "cinder.csi.openstack.org")
        hint = self.hints(world)["storage.k8s.io/VolumeAttachmentDelete"]
        assert hint(world.pod(volumes=volumes), gone, None) is want


NODES, CLAIMS, VOLUMES = ["a", "b", "c"], ["c1", "c2", "c3"], ["v1", "v2", "v3"]
HANDLES, DRIVERS = ["h", "i"], ["csi.x", "csi.y"]


class History:
    """Everything that can happen to what the counts depend on."""

    def __init__(self, world: Any, draw: Any) -> None:
        self.world, self.draw, self.pods = world, draw, 0

    def one(self, of: list[Any]) -> Any:
        return self.draw(st.sampled_from(of))

    def node_comes(self) -> None:
        self.world.node(self.one(NODES))

    def node_goes(self) -> None:
        self.world.cluster.remove_node(self.one(NODES))

    def limits_change(self) -> None:
        limits = {driver: self.draw(st.integers(-1, 2)) for driver in DRIVERS}
        self.world.csi_node(self.one(NODES), limits)

    def pod_comes(self) -> None:
        self.pods += 1
        ephemeral = [{"ephemeral": {}}] if self.draw(st.booleans()) else []
        self.world.pod(self.one(CLAIMS), name=f"p{self.pods}", on=self.one(NODES), volumes=ephemeral)

    def pod_goes(self) -> None:
        self.world.cluster.remove_pod(f"uid-p{self.draw(st.integers(0, self.pods))}")

    def claim_changes(self) -> None:
        self.world.claim(self.one([*CLAIMS, "p1-v0"]), cls="dyn", bound=self.one(["", *VOLUMES]))

    def volume_changes(self) -> None:
        self.world.volume(self.one(VOLUMES), **csi(self.one(HANDLES), self.one(DRIVERS)))

    def attachment_changes(self) -> None:
        self.world.attachment(f"va-{self.one(NODES)}", self.one(NODES), self.one(VOLUMES), self.one(DRIVERS))

    def class_changes(self) -> None:
        self.world.storage_class("dyn", provisioner=self.one(DRIVERS))

    def something_is_deleted(self) -> None:
        kind, keys = self.one(
            [
                (PersistentVolume, VOLUMES),
                (PersistentVolumeClaim, [f"ns/{name}" for name in CLAIMS]),
                (CSINode, NODES),
                (VolumeAttachment, [f"va-{name}" for name in NODES]),
            ]
        )
        self.world.cluster.objects.remove(kind, self.one(keys))


def columns(attached: AttachedVolumes) -> Any:
    attached.refresh()
    no_limit = np.full(len(attached.has_limits), NO_LIMIT)
    return (
        {driver: attached.count(driver).tolist() for driver in DRIVERS},
        {d: (no_limit if (limit := attached.limit(d)) is None else limit).tolist() for d in DRIVERS},
        attached.has_csi_node.tolist(),
        attached.has_limits.tolist(),
        attached.failing,
        {f"{d}/{h}": set(attached.users(f"{d}/{h}")) for d in DRIVERS for h in HANDLES},
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_updated_counts_equal_recomputed_ones(world: Any, data: st.DataObject) -> None:
    """Whatever comes, changes or goes: counts that followed all changes agree with fresh ones."""
    world.__init__()
    history = History(world, data.draw)
    world.storage_class("dyn", provisioner="csi.x")
    for node, claim, volume in zip(NODES, CLAIMS, VOLUMES, strict=True):
        world.node(node, csi={"csi.x": 1})
        world.volume(volume, **csi("h"))
        world.claim(claim, cls="dyn", bound=volume)
        history.pods += 1
        world.pod(claim, name=f"p{history.pods}", on=node)
    happenings = [getattr(history, name) for name in vars(History) if not name.startswith(("_", "one"))]
    world.cluster.nodes()
    attached = AttachedVolumes(world.cluster)
    attached.refresh()
    for happen in data.draw(st.lists(st.sampled_from(happenings), min_size=1, max_size=8)):
        happen()
        world.cluster.nodes()
        assert columns(attached) == columns(AttachedVolumes(world.cluster)), happen.__name__


def test_the_codes_are_upstreams(world: Any) -> None:
    world.node("a", csi={"csi.x": 0})
    plugin, info = NodeVolumeLimits(None, world.handle), world.cluster.info(world.pod(bound(world, "new")))
    verdict = plugin.filter(CycleState(), info, world.cluster.nodes())
    assert verdict is not None
    assert verdict.status_of(1).code is Code.UNSCHEDULABLE
