"""VolumeBinding: which nodes can serve a pod's claims, and what is promised when one is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.core.framework.cluster_event import ActionType, Hint
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.volume_binding import chosen_volumes

AFFINITY = "~node(s) didn't match PersistentVolume's node affinity"
BIND = "~node(s) didn't find available persistent volumes to bind"
SPACE = "~node(s) did not have enough free storage"
MISSING = "~node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WAIT = "WaitForFirstConsumer"


def on(*hosts: str) -> dict[str, Any]:
    return (
        {"matchLabels": {"host": hosts[0]}}
        if len(hosts) == 1
        else {"matchExpressions": [{"key": "host", "operator": "In", "values": list(hosts)}]}
    )


@pytest.fixture
def two(world: Any) -> Any:
    """Nodes a and b, a class without a provisioner and one with."""
    world.node("a")
    world.node("b")
    world.storage_class("slow")
    world.storage_class("dynamic", provisioner="csi.x")
    return world


class TestPreFilter:
    @pytest.mark.parametrize(
        ("claim", "text"),
        [
            pytest.param(
                {"phase": "Lost", "volumeName": "pv"},
                'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
                id="a lost claim",
            ),
            pytest.param(
                {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
                'persistentvolumeclaim "c" is being deleted',
                id="a claim that is being deleted",
            ),
            pytest.param(
                {"cls": "now"}, "pod has unbound immediate PersistentVolumeClaims", id="a class that binds immediately"
            ),
            pytest.param({"cls": None}, "pod has unbound immediate PersistentVolumeClaims", id="no class"),
            pytest.param({"cls": "ghost"}, "pod has unbound immediate PersistentVolumeClaims", id="an unknown class"),
            pytest.param(
                {"volumeName": "pv"},
                "pod has unbound immediate PersistentVolumeClaims",
                id="a claim that names its volume but is not bound",
            ),
            pytest.param(
                {"size": "lots"},
                "persistentvolumeclaim \"c\": 'lots' is not a quantity; "
                "write a number with a suffix such as 500m, 2 or 1.5Gi",
                id="a size that is no quantity",
            ),
        ],
    )
    def test_claims_that_refuse_every_node(self, two: Any, claim: dict[str, Any], text: str) -> None:
        two.storage_class("now", mode="Immediate")
        two.claim("c", **claim)
        status = two.pre_filter(two.binding(), two.pod("c"))
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def test_a_missing_claim(self, two: Any) -> None:
        status = two.pre_filter(two.binding(), two.pod("ghost"))
        assert (status.code, status.reasons) == (
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            ('persistentvolumeclaim "ghost" not found',),
        )

    def test_an_ephemeral_claim_that_is_yet_to_be_made(self, two: Any) -> None:
        status = two.pre_filter(two.binding(), two.pod(volumes=[{"ephemeral": {}}]))
        assert status.reasons == (
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-v0"',
        )

    def test_an_ephemeral_claim_of_another_pod(self, two: Any) -> None:
        two.claim("pod-v0", metadata={"ownerReferences": [{"controller": True, "uid": "other"}]})
        status = two.pre_filter(two.binding(), two.pod(volumes=[{"ephemeral": {}}]))
        assert status.reasons == ("PVC ns/pod-v0 was not created for pod ns/pod (pod is not owner)",)

    def test_an_ephemeral_claim_of_its_own(self, two: Any) -> None:
        two.claim("pod-v0", metadata={"ownerReferences": [{"controller": True, "uid": "uid-pod"}]})
        assert two.pre_filter(two.binding(), two.pod(volumes=[{"ephemeral": {}}])).is_success

    def test_a_class_without_a_binding_mode_is_an_error(self, two: Any) -> None:
        two.storage_class("odd", mode=None)
        two.claim("c", cls="odd")
        status = two.pre_filter(two.binding(), two.pod("c"))
        assert (status.code, status.message) == (Code.ERROR, 'VolumeBindingMode not set for StorageClass "odd"')

    def test_the_beta_annotation_names_the_class_first(self, two: Any) -> None:
        two.claim("c", cls="ghost", annotations={"volume.beta.kubernetes.io/storage-class": "slow"})
        assert two.pre_filter(two.binding(), two.pod("c")).is_success

    @pytest.mark.parametrize("volumes", [[], [{"emptyDir": {}}], [{"cinder": {"volumeID": "v"}}]], ids=str)
    def test_pods_without_claims_are_skipped(self, two: Any, volumes: Any) -> None:
        assert two.pre_filter(two.binding(), two.pod(volumes=volumes)).is_skip


class TestBoundClaims:
    def test_a_volume_ties_the_pod_to_its_nodes(self, two: Any) -> None:
        two.volume("pv", on=["b"])
        two.claim("c", bound="pv")
        assert two.judge(two.binding(), two.pod("c")) == {"a": [AFFINITY]}

    def test_a_volume_without_affinity_can_be_used_anywhere(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c", bound="pv")
        assert two.judge(two.binding(), two.pod("c")) == {}

    def test_fields_in_a_volumes_affinity_are_not_looked_at(self, two: Any) -> None:
        field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
        two.volume("pv", nodeAffinity={"required": {"nodeSelectorTerms": [field]}})
        two.claim("c", bound="pv")
        assert two.judge(two.binding(), two.pod("c")) == {}

    def test_a_volume_that_does_not_exist(self, two: Any) -> None:
        two.claim("c", bound="gone")
        assert two.judge(two.binding(), two.pod("c")) == {"a": [MISSING], "b": [MISSING]}

    def test_the_first_claim_that_fails_speaks_for_the_node(self, two: Any) -> None:
        two.volume("pv", on=["b"])
        two.claim("c", bound="pv")
        two.claim("d", bound="gone")
        assert two.judge(two.binding(), two.pod("c", "d")) == {"a": [AFFINITY], "b": [MISSING]}
        assert two.judge(two.binding(), two.pod("d", "c")) == {"a": [MISSING], "b": [MISSING]}

    def test_reasons_of_bound_and_unbound_claims_stand_together(self, two: Any) -> None:
        two.volume("pv", on=["b"], phase="Bound", claimRef={"name": "c", "namespace": "ns"})
        two.claim("c", bound="pv")
        two.claim("d")
        assert two.judge(two.binding(), two.pod("c", "d")) == {"a": [AFFINITY, BIND], "b": [BIND]}

    def test_an_in_tree_volume_speaks_its_drivers_language_where_it_has_moved(self, two: Any) -> None:
        two.node("a", **{"topology.gke.io/zone": "z1"})
        two.node("b", **{"topology.gke.io/zone": "z2"})
        two.csi_node("a", {}, migrated="kubernetes.io/gce-pd,kubernetes.io/cinder")
        two.csi_node("b", {}, migrated="kubernetes.io/gce-pd")
        labels = {"topology.kubernetes.io/zone": "z1"}
        two.volume("pv", gcePersistentDisk={"pdName": "d"}, metadata={"labels": labels})
        two.claim("c", bound="pv")
        assert two.judge(two.binding(), two.pod("c")) == {"b": [AFFINITY]}
        two.csi_node("b", {})
        assert two.judge(two.binding(), two.pod("c")) == {}

    def test_an_in_tree_volume_that_cannot_move_is_an_error_there(self, two: Any) -> None:
        two.csi_node("a", {}, migrated="kubernetes.io/azure-disk")
        two.volume("pv", azureDisk={"diskName": "d", "diskURI": "u", "kind": "Shared"})
        two.claim("c", bound="pv")
        text = "!could not translate pv: kind(Shared) is not supported in csi migration"
        assert two.judge(two.binding(), two.pod("c")) == {"a": [text]}


class TestProvisioning:
    def test_a_class_with_a_provisioner_needs_no_volume(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        assert two.judge(two.binding(), two.pod("c")) == {}

    def test_a_class_without_one_needs_a_volume(self, two: Any) -> None:
        two.claim("c")
        assert two.judge(two.binding(), two.pod("c")) == {"a": [BIND], "b": [BIND]}

    @pytest.mark.parametrize(
        ("terms", "refused"),
        [
            pytest.param([], "", id="anywhere"),
            pytest.param([[("host", ["a"])]], "b", id="one node"),
            pytest.param([[("host", ["a"])], [("host", ["b"])]], "", id="one of two terms"),
            pytest.param([[("host", ["a"]), ("host", ["b"])]], "ab", id="both conditions of a term"),
            pytest.param([[]], "ab", id="an empty term matches nothing"),
            pytest.param([[("host", [])]], "ab", id="nor does one without values"),
        ],
    )
    def test_allowed_topologies(self, two: Any, terms: Any, refused: str) -> None:
        allowed = [{"matchLabelExpressions": [{"key": k, "values": v} for k, v in term]} for term in terms]
        two.storage_class("dynamic", provisioner="csi.x", allowedTopologies=allowed)
        two.claim("c", cls="dynamic")
        assert two.judge(two.binding(), two.pod("c")) == {name: [BIND] for name in refused}

    def test_a_claim_that_was_promised_a_node_stays_there(self, two: Any) -> None:
        two.volume("pv", cls="dynamic")
        two.claim("c", cls="dynamic", annotations={"volume.kubernetes.io/selected-node": "b"})
        plugin, pod, state = two.binding(), two.pod("c"), CycleState()
        assert two.judge(plugin, pod, state) == {"a": [BIND]}
        assert plugin.reserve(state, two.cluster.info(pod), "b").is_success
        assert chosen_volumes(state, "b") == {"ns/c": {"provisionOn": "b"}}  # no existing volume is considered

    def test_a_promise_of_an_unknown_node_refuses_all(self, two: Any) -> None:
        two.claim("c", cls="dynamic", annotations={"volume.kubernetes.io/selected-node": "gone"})
        assert two.judge(two.binding(), two.pod("c")) == {"a": [BIND], "b": [BIND]}

    def test_a_selector_that_does_not_compile_is_an_error(self, two: Any) -> None:
        two.claim("c", selector={"matchExpressions": [{"key": "x", "operator": "Odd"}]})
        told = two.judge(two.binding(), two.pod("c"))
        assert set(told) == {"a", "b"}
        assert told["a"][0].startswith('!error creating internal label selector for claim: ns/c: "Odd" is not a valid')

    def test_a_class_that_vanishes_between_the_points_is_an_error(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        plugin, pod, state = two.binding(), two.pod("c"), CycleState()
        two.pre_filter(plugin, pod, state)
        two.cluster.objects.remove(StorageClass, "dynamic")
        assert two.filter(plugin, pod, state)["a"] == ['!failed to find storage class "dynamic"']


class TestStorageCapacity:
    @pytest.fixture
    def tracked(self, two: Any) -> Any:
        two.csi_driver("csi.x", storageCapacity=True)
        return two

    @pytest.mark.parametrize(
        ("fields", "fits"),
        [
            pytest.param({"capacity": "1Gi"}, True, id="just enough"),
            pytest.param({"capacity": "1073741823"}, False, id="a byte short"),
            pytest.param({"capacity": "9Gi", "maximumVolumeSize": "1Mi"}, False, id="the maximum counts first"),
            pytest.param({"capacity": "1Mi", "maximumVolumeSize": "9Gi"}, True, id="even when it is larger"),
            pytest.param({}, False, id="neither is said"),
            pytest.param({"capacity": "much"}, False, id="not a quantity"),
        ],
    )
    def test_how_much_is_left(self, tracked: Any, fields: dict[str, str], fits: bool) -> None:
        tracked.claim("c", cls="dynamic")
        tracked.capacity("cap", "dynamic", on("a"), **fields)
        told = tracked.judge(tracked.binding(), tracked.pod("c"))
        assert told == {"b": [SPACE]} | ({} if fits else {"a": [SPACE]})

    @pytest.mark.parametrize(
        ("cls", "topology", "refused"),
        [
            pytest.param("dynamic", {}, "", id="reachable from everywhere"),
            pytest.param("dynamic", None, "ab", id="reachable from nowhere"),
            pytest.param("dynamic", on("a", "b"), "", id="reachable from both"),
            pytest.param("other", {}, "ab", id="of another class"),
            pytest.param("dynamic", {"matchExpressions": [{"key": "x", "operator": "Odd"}]}, "ab", id="malformed"),
        ],
    )
    def test_where_it_is(self, tracked: Any, cls: str, topology: Any, refused: str) -> None:
        tracked.claim("c", cls="dynamic")
        tracked.capacity("cap", cls, topology, capacity="5Gi")
        assert tracked.judge(tracked.binding(), tracked.pod("c")) == {name: [SPACE] for name in refused}

    def test_it_follows_what_the_driver_publishes(self, tracked: Any) -> None:
        tracked.claim("c", cls="dynamic")
        plugin, pod = tracked.binding(), tracked.pod("c")
        assert set(tracked.judge(plugin, pod)) == {"a", "b"}
        tracked.capacity("cap", "dynamic", on("a"), capacity="5Gi")
        assert set(tracked.judge(plugin, pod)) == {"b"}
        tracked.node("c")
        assert set(tracked.judge(plugin, pod)) == {"b", "c"}

    @pytest.mark.parametrize("spec", [{"storageCapacity": False}, {}], ids=str)
    def test_drivers_that_publish_nothing_are_trusted(self, two: Any, spec: Any) -> None:
        two.csi_driver("csi.x", **spec)
        two.claim("c", cls="dynamic")
        assert two.judge(two.binding(), two.pod("c")) == {}

    def test_a_claim_that_does_not_say_how_much_is_not_measured(self, tracked: Any) -> None:
        tracked.claim("c", cls="dynamic", size=None)
        assert tracked.judge(tracked.binding(), tracked.pod("c")) == {}

    def test_of_two_claims_the_first_that_fails_speaks(self, tracked: Any) -> None:
        tracked.claim("static", size="1Mi")
        tracked.claim("big", cls="dynamic", size="1Gi")
        told = tracked.judge(tracked.binding(), tracked.pod("big", "static"))
        assert told == {"a": [BIND], "b": [BIND]}  # the smaller claim is tried first


class TestReserve:
    def reserve(self, world: Any, plugin: Any, pod: Any, node: str) -> CycleState:
        state = CycleState()
        assert node not in world.judge(plugin, pod, state)
        assert plugin.reserve(state, world.cluster.info(pod), node).is_success
        return state

    def test_the_smallest_volume_that_fits_is_promised(self, two: Any) -> None:
        for name, size in (("large", "9Gi"), ("tiny", "1Mi"), ("fitting", "2Gi")):
            two.volume(name, size=size, on=["a"])
        two.claim("c")
        state = self.reserve(two, two.binding(), two.pod("c"), "a")
        assert chosen_volumes(state, "a") == {"ns/c": {"volume": "fitting"}}
        assert chosen_volumes(state, "b") == {}

    def test_what_is_promised_is_not_promised_again(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c")
        two.claim("d")
        plugin = two.binding()
        first = two.pod("c", name="first")
        state = self.reserve(two, plugin, first, "a")
        second = two.pod("d", name="second")
        assert two.judge(plugin, second) == {"a": [BIND], "b": [BIND]}
        plugin.unreserve(state, two.cluster.info(first), "a")
        assert two.judge(plugin, second) == {}

    def test_a_promised_volume_remains_its_claims_own(self, two: Any) -> None:
        """The pod is tried again before the API server has heard: the same volume is found for it."""
        two.volume("pv", on=["a"])
        two.volume("another", size="2Gi")
        two.claim("c")
        plugin, pod = two.binding(), two.pod("c")
        self.reserve(two, plugin, pod, "a")
        assert two.judge(plugin, pod) == {"b": [BIND]}
        again = self.reserve(two, plugin, pod, "a")
        assert chosen_volumes(again, "a") == {"ns/c": {"volume": "pv"}}

    def test_a_claim_promised_to_a_node_is_seen_there_by_other_pods(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        plugin = two.binding()
        first, second = two.pod("c", name="first"), two.pod("c", name="second")
        state = self.reserve(two, plugin, first, "b")
        assert chosen_volumes(state, "b") == {"ns/c": {"provisionOn": "b"}}
        assert two.judge(plugin, second) == {"a": [BIND]}
        plugin.unreserve(state, two.cluster.info(first), "b")
        assert two.judge(plugin, second) == {}

    def test_the_api_servers_word_ends_the_promise(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c")
        two.claim("d")
        plugin = two.binding()
        self.reserve(two, plugin, two.pod("c", name="first"), "a")
        two.volume("pv")  # another client changed it: the assumption was made on an older version
        assert two.judge(plugin, two.pod("d", name="second")) == {}

    def test_the_selected_node_is_written(self, two: Any) -> None:
        two.volume("pv")
        claim = two.claim("c")
        plugin = two.binding()
        self.reserve(two, plugin, two.pod("c"), "a")
        promised = plugin._volumes.get("pv")
        ref = promised.spec.claim_ref
        assert (ref.kind, ref.api_version, ref.namespace, ref.name, ref.uid, ref.resource_version) == (
            "PersistentVolumeClaim",
            "v1",
            "ns",
            "c",
            claim.uid,
            claim.metadata.resource_version,
        )
        assert promised.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
        stored = two.cluster.objects.get(PersistentVolume, "pv")
        assert stored.spec.claim_ref is None and not stored.metadata.annotations

    def test_a_volume_that_a_user_has_reserved_gets_no_annotation(self, two: Any) -> None:
        two.volume("pv", claimRef={"name": "c", "namespace": "ns"})
        claim = two.claim("c")
        plugin = two.binding()
        self.reserve(two, plugin, two.pod("c"), "a")
        promised = plugin._volumes.get("pv")
        assert promised.spec.claim_ref.uid == claim.uid
        assert promised.metadata.annotations == {}

    def test_several_claims_share_out_the_volumes(self, two: Any) -> None:
        for name, size in (("v1", "1Gi"), ("v2", "2Gi"), ("v3", "3Gi")):
            two.volume(name, size=size, on=["a"])
        two.claim("big", size="2Gi")
        two.claim("small", size="1Gi")
        two.claim("new", size="1Gi", cls="dynamic")
        state = self.reserve(two, two.binding(), two.pod("big", "new", "small"), "a")
        assert chosen_volumes(state, "a") == {
            "ns/small": {"volume": "v1"},
            "ns/big": {"volume": "v2"},
            "ns/new": {"provisionOn": "a"},
        }

    def test_a_pod_without_claims_has_nothing_to_bind(self, two: Any) -> None:
        plugin, pod, state = two.binding(), two.pod(), CycleState()
        assert two.pre_filter(plugin, pod, state).is_skip
        info = two.cluster.info(pod)
        assert plugin.reserve(state, info, "a").is_success
        flight = plugin.pre_bind_pre_flight(state, info, "a")
        assert flight.status.is_skip and flight.allow_parallel
        assert chosen_volumes(state, "a") == {}

    def test_bound_claims_leave_nothing_to_bind(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c", bound="pv")
        plugin, pod = two.binding(), two.pod("c")
        state = self.reserve(two, plugin, pod, "a")
        assert plugin.pre_bind_pre_flight(state, two.cluster.info(pod), "a").status.is_skip

    def test_unbound_claims_are_left_to_pre_bind(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        plugin, pod = two.binding(), two.pod("c")
        state = self.reserve(two, plugin, pod, "a")
        assert plugin.pre_bind_pre_flight(state, two.cluster.info(pod), "a").status.is_success
        other = plugin.pre_bind_pre_flight(state, two.cluster.info(pod), "b").status
        assert (other.code, other.message) == (Code.ERROR, 'no pod volume found for node "b"')

    def test_a_volume_that_vanished_meanwhile_fails_the_attempt(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c")
        plugin, pod, state = two.binding(), two.pod("c"), CycleState()
        two.judge(plugin, pod, state)
        two.cluster.objects.remove(PersistentVolume, "pv")
        status = plugin.reserve(state, two.cluster.info(pod), "a")
        assert (status.code, status.message) == (
            Code.ERROR,
            'volumes for node "a" have changed since it was chosen',
        )

    def test_a_claim_that_changed_meanwhile_fails_the_attempt_and_reverts(self, two: Any) -> None:
        two.volume("pv")
        two.claim("c", size="1Mi")
        two.claim("d", cls="dynamic")
        plugin, pod, state = two.binding(), two.pod("c", "d"), CycleState()
        two.judge(plugin, pod, state)
        old = two.cluster.objects.get(PersistentVolumeClaim, "ns/d").metadata.resource_version
        new = two.claim("d", cls="dynamic").metadata.resource_version
        status = plugin.reserve(state, two.cluster.info(pod), "a")
        assert (status.code, status.message) == (
            Code.ERROR,
            f'"ns/d" is out of sync (stored: {new}, assume: {old})',
        )
        assert plugin._volumes.get("pv").spec.claim_ref is None

    def test_without_pre_filter_nothing_is_known(self, two: Any) -> None:
        plugin, info = two.binding(), two.cluster.info(two.pod("c"))
        assert plugin.reserve(CycleState(), info, "a").message == "not found"
        assert plugin.pre_bind_pre_flight(CycleState(), info, "a").status.message == "not found"
        plugin.unreserve(CycleState(), info, "a")
        assert two.filter(plugin, two.pod("c"), CycleState()) == {"a": ["!not found"], "b": ["!not found"]}


def test_only_some_rows_can_be_asked_about(two: Any) -> None:
    two.volume("pv", on=["b"])
    two.claim("c", bound="pv")
    nodes = two.cluster.nodes()
    for i, info in enumerate(nodes.infos):
        told = two.judge(two.binding(), two.pod("c"), nodes=nodes.subset(np.array([i])))
        assert told == ({"a": [AFFINITY]} if info.name == "a" else {})


class TestScore:
    def score(self, world: Any, pod: Any, shape: Any = None) -> dict[str, int]:
        plugin, state = world.binding(features={"StorageCapacityScoring": True}), CycleState()
        if shape is not None:
            plugin._shape = shape
        assert world.judge(plugin, pod, state) == {}
        nodes, info = world.cluster.nodes(), world.cluster.info(pod)
        assert plugin.pre_score(state, info, nodes).is_success
        scores = plugin.score(state, info, nodes)
        return {node.name: int(score) for node, score in zip(nodes.infos, scores, strict=True)}

    def test_it_is_skipped_without_its_gate(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        plugin, state, pod = two.binding(), CycleState(), two.pod("c")
        two.judge(plugin, pod, state)
        nodes = two.cluster.nodes()
        assert plugin.pre_score(state, two.cluster.info(pod), nodes).is_skip
        assert plugin.score(state, two.cluster.info(pod), nodes) is None

    def test_the_emptier_pool_scores_more(self, two: Any) -> None:
        two.csi_driver("csi.x", storageCapacity=True)
        two.capacity("on-a", "dynamic", on("a"), capacity="10Gi")
        two.capacity("on-b", "dynamic", on("b"), capacity="4Gi")
        two.claim("c", cls="dynamic", size="1Gi")
        assert self.score(two, two.pod("c")) == {"a": 90, "b": 75}

    def test_existing_volumes_come_before_pools(self, two: Any) -> None:
        two.csi_driver("csi.x", storageCapacity=True)
        two.capacity("all", "dynamic", {}, capacity="100Gi")
        two.volume("va", size="4Gi", on=["a"])
        two.volume("vb", size="2Gi", on=["b"])
        two.claim("static", size="1Gi")
        two.claim("new", cls="dynamic", size="100Gi")
        assert self.score(two, two.pod("static", "new")) == {"a": 75, "b": 50}

    def test_classes_are_averaged_and_rounded(self, two: Any) -> None:
        two.storage_class("fast")
        for node in "ab":
            two.volume(f"slow-{node}", size="2Gi", on=[node])
            two.volume(f"fast-{node}", size="8Gi" if node == "a" else "3Gi", on=[node], cls="fast")
        two.claim("c", size="1Gi")
        two.claim("d", size="1Gi", cls="fast")
        assert self.score(two, two.pod("c", "d")) == {"a": 69, "b": 59}  # (50 + 88) / 2, (50 + 67) / 2 = 58.5

    def test_two_claims_from_one_pool_share_its_capacity(self, two: Any) -> None:
        two.csi_driver("csi.x", storageCapacity=True)
        two.capacity("all", "dynamic", {}, capacity="4Gi")
        for name in "cd":
            two.claim(name, cls="dynamic", size="1Gi")
        assert self.score(two, two.pod("c", "d")) == {"a": 50, "b": 50}

    def test_without_capacities_there_is_no_score(self, two: Any) -> None:
        two.claim("c", cls="dynamic")
        assert self.score(two, two.pod("c")) == {"a": 0, "b": 0}


class TestHints:
    def hints(self, world: Any) -> dict[str, Any]:
        return {e.event.resource.value: e.hint for e in world.binding().events_to_register()}

    def test_what_it_wants_to_hear_of(self, two: Any) -> None:
        events = two.binding().events_to_register()
        assert [(e.event.resource.value, int(e.event.action), e.hint is not None) for e in events] == [
            ("storage.k8s.io/StorageClass", int(ActionType.ADD | ActionType.UPDATE), True),
            ("PersistentVolumeClaim", int(ActionType.ADD | ActionType.UPDATE), True),
            ("PersistentVolume", int(ActionType.ADD | ActionType.UPDATE), False),
            ("Node", 9, False),
            ("storage.k8s.io/CSINode", int(ActionType.ADD | ActionType.UPDATE), True),
            ("storage.k8s.io/CSIDriver", int(ActionType.UPDATE), True),
            ("storage.k8s.io/CSIStorageCapacity", int(ActionType.ADD | ActionType.UPDATE), True),
        ]

    def test_a_class(self, two: Any) -> None:
        hint, pod = self.hints(two)["storage.k8s.io/StorageClass"], two.pod("c")
        term = {"matchLabelExpressions": [{"key": "host", "values": ["a"]}]}
        old, same = two.storage_class("s"), two.storage_class("s", provisioner="other")
        new = two.storage_class("s", allowedTopologies=[term])
        assert hint(pod, None, old) is Hint.QUEUE
        assert hint(pod, old, same) is Hint.SKIP
        assert hint(pod, old, new) is Hint.QUEUE

    @pytest.mark.parametrize(("name", "want"), [("c", Hint.QUEUE), ("pod-v0", Hint.QUEUE), ("d", Hint.SKIP)])
    def test_a_claim(self, two: Any, name: str, want: Hint) -> None:
        pod = two.pod("c", volumes=[{"ephemeral": {}}])
        assert self.hints(two)["PersistentVolumeClaim"](pod, None, two.claim(name)) is want
        elsewhere = two.pod("c", namespace="elsewhere")
        assert self.hints(two)["PersistentVolumeClaim"](elsewhere, None, two.claim(name)) is Hint.SKIP

    def test_a_csi_node(self, two: Any) -> None:
        hint, pod = self.hints(two)["storage.k8s.io/CSINode"], two.pod("c")
        old, limits = two.csi_node("a", {}), two.csi_node("a", {"x": 1})
        assert hint(pod, None, old) is Hint.QUEUE
        assert hint(pod, old, limits) is Hint.SKIP
        assert hint(pod, old, two.csi_node("a", {}, migrated="kubernetes.io/cinder")) is Hint.QUEUE

    @pytest.mark.parametrize(
        ("driver", "before", "after", "want"),
        [
            pytest.param("csi.x", True, False, Hint.QUEUE, id="it stops to measure"),
            pytest.param("csi.x", True, None, Hint.QUEUE, id="it no longer says"),
            pytest.param("csi.x", False, True, Hint.SKIP, id="it begins to measure"),
            pytest.param("csi.y", True, False, Hint.SKIP, id="another driver"),
        ],
    )
    def test_a_driver(self, two: Any, driver: str, before: Any, after: Any, want: Hint) -> None:
        hint, pod = self.hints(two)["storage.k8s.io/CSIDriver"], two.pod(volumes=[{"csi": {"driver": driver}}])
        old, new = (two.csi_driver("csi.x", storageCapacity=value) for value in (before, after))
        assert hint(pod, old, new) is want

    @pytest.mark.parametrize(
        ("before", "after", "want"),
        [
            pytest.param(None, {"capacity": "1Gi"}, Hint.QUEUE, id="a new one"),
            pytest.param({"capacity": "1Gi"}, {"capacity": "2Gi"}, Hint.QUEUE, id="more"),
            pytest.param({"capacity": "2Gi"}, {"capacity": "1Gi"}, Hint.SKIP, id="less"),
            pytest.param({}, {"capacity": "1Gi"}, Hint.QUEUE, id="a first number"),
            pytest.param({"capacity": "1Gi"}, {}, Hint.SKIP, id="no number any more"),
            pytest.param(
                {"capacity": "1Gi"},
                {"capacity": "9Gi", "maximumVolumeSize": "1Mi"},
                Hint.SKIP,
                id="more, but smaller volumes",
            ),
        ],
    )
    def test_a_capacity(self, two: Any, before: Any, after: Any, want: Hint) -> None:
        hint = self.hints(two)["storage.k8s.io/CSIStorageCapacity"]
        old = None if before is None else two.capacity("cap", "s", {}, **before)
        assert hint(two.pod("c"), old, two.capacity("cap", "s", {}, **after)) is want
