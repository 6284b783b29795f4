"""How many more pods fit: cases small enough to count by hand, and what the live scheduler really places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mooring
from mooring import sdk
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.ask import capacity as filling
from mooring.ask.capacity import Capacity, capacity, nodes_with_room
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_object, make_pod

from .slow_way import placed_one_by_one

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def spread(key: str = ZONE) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def apart() -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def web(cpu: str = "1", **more: Any) -> Pod:
    return make_pod("web", cpu=cpu, labels={"app": "web"}, **more)


def asked(pod: Pod, *objects: Object, **more: Any) -> Capacity:
    return capacity(Cluster(*objects), pod, **more)


# ---- by hand -------------------------------------------------------------------------------------------------------

A, B = make_node("a", cpu="4", zone="north"), make_node("b", cpu="2", zone="south")


@pytest.mark.parametrize(
    ("pod", "objects", "nodes", "reasons"),
    [
        pytest.param(web(), [A, B], {"a": 4, "b": 2}, {"Insufficient cpu": 2}, id="as many as there is room for"),
        pytest.param(web("5"), [A, B], {}, {"Insufficient cpu": 2}, id="none of a pod that is too large"),
        pytest.param(
            web(),
            [A, B, make_pod("old", node="a", cpu="3")],
            {"a": 1, "b": 2},
            {"Insufficient cpu": 2},
            id="running pods take their room",
        ),
        pytest.param(
            web(),
            [A, B, make_pod("old", cpu="3", priority=9, status={"nominatedNodeName": "a"})],
            {"a": 1, "b": 2},
            {"Insufficient cpu": 2},
            id="a nominated pod keeps its place",
        ),
        pytest.param(
            web(),
            [A, B, make_pod("old", cpu="3", priority=9)],
            {"a": 4, "b": 2},
            {"Insufficient cpu": 2},
            id="a pod that waits without a nomination is not counted",
        ),
        pytest.param(
            web(),
            [make_node("a", cpu="4", pods=3)],
            {"a": 3},
            {"Too many pods": 1},
            id="the number of pods is a limit, too",
        ),
        pytest.param(
            web(),
            [A, make_node("b", cpu="2", taints=["dedicated=gpu:NoSchedule"])],
            {"a": 4},
            {"node(s) had untolerated taint(s)": 1, "Insufficient cpu": 1},
            id="each reason has its number of nodes",
        ),
        pytest.param(
            web(spec=spread()),
            [A, B],
            {"a": 3, "b": 2},
            {"node(s) didn't match pod topology spread constraints": 1, "Insufficient cpu": 1},
            id="spreading stops them before the room does",
        ),
        pytest.param(
            web(spec=apart()),
            [A, B],
            {"a": 1, "b": 1},
            {"node(s) didn't match pod anti-affinity rules": 2},
            id="pods that stay apart get a node each",
        ),
        pytest.param(
            web(host_ports=[80]),
            [A, B],
            {"a": 1, "b": 1},
            {"node(s) didn't have free ports for the requested pod ports": 2},
            id="a port can be had once per node",
        ),
    ],
)
def test_capacity(pod: Pod, objects: list[Object], nodes: dict[str, int], reasons: dict[str, int]) -> None:
    found = asked(pod, *objects)
    assert found.nodes == nodes
    assert found.fits == sum(nodes.values())
    assert found.reasons == reasons
    assert (found.stopped_by or "").startswith(f"0/{len([o for o in objects if type(o).__name__ == 'Node'])} nodes are")


def test_the_cluster_is_unchanged() -> None:
    cluster = Cluster(A, B)
    capacity(cluster, web())
    assert len(cluster.pods) == 0 and len(cluster.nodes) == 2


def test_the_count_ends_where_it_was_asked_to() -> None:
    found = asked(web(), A, B, copies=3)
    assert (found.fits, found.stopped_by, found.is_enough) == (3, None, True)
    found = asked(web(), A, B, copies=7)
    assert (found.fits, found.is_enough) == (6, False)


def test_sets_are_counted_whole() -> None:
    cluster = Cluster(make_node("a", cpu="7"))
    found = capacity(cluster, [web("1"), make_pod("db", cpu="2")])
    assert (found.fits, found.nodes) == (2, {"a": 4})
    assert found.stopped_pod == "default/db"


def test_shares_say_how_many_of_a_pod_are_in_a_set(tmp_path: Path) -> None:
    cluster = Cluster(make_node("a", cpu="7"), make_pod("x", cpu="1"), make_pod("y", cpu="2"))
    found = capacity(cluster, {"default/x": 3, "default/y": 1})
    assert (found.fits, found.nodes, found.asked) == (1, {"a": 4}, {"default/x": 3, "default/y": 1})


def test_lower_priority_pods_are_evicted_only_on_request() -> None:
    objects = [make_node("a", cpu="4"), make_pod("low", node="a", cpu="3"), make_pod("high", node="a", priority=9)]
    pod = web(priority=5)
    assert asked(pod, *objects).fits == 1
    found = asked(pod, *objects, preempt=True)
    assert (found.fits, found.preempted) == (4, ["default/low"])


def test_pods_in_a_budget_are_preempted_only_where_nothing_else_helps() -> None:
    budget = make_object(
        "PodDisruptionBudget",
        "keep",
        "default",
        spec={"selector": {"matchLabels": {"app": "kept"}}},
        status={"disruptionsAllowed": 0},
    )
    objects = [
        *(make_node(name, cpu="1") for name in "ab"),
        make_pod("kept", node="a", cpu="1", labels={"app": "kept"}),
        make_pod("other", node="b", cpu="1"),
        budget,
    ]
    assert asked(web(priority=5), *objects, preempt=True, copies=1).preempted == ["default/other"]


def test_one_more_node_of_each_kind() -> None:
    daemon = make_pod(
        "logs",
        node="a",
        cpu="1",
        metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "logs", "uid": "d", "controller": True}]},
    )
    found = asked(web(), A, make_node("a2", cpu="4", zone="north"), B, daemon)
    assert [(each.kind, each.nodes, each.fits) for each in found.one_more_node] == [
        ("4 CPU, 8Gi in north", 2, 3),  # its DaemonSet takes one of four cores
        ("2 CPU, 8Gi in south", 1, 2),
    ]


TYPE = "node.kubernetes.io/instance-type"


def alike(name: str, *, labels: dict[str, str], **more: Any) -> Object:
    return make_node(name, cpu="2", zone="north", labels={TYPE: "c", **labels}, **more)


def one_required(key: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["ssd"]}]}]
    needs = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": needs}}


@pytest.mark.parametrize(
    ("pod", "more", "kinds"),
    [
        pytest.param(
            web(spec={"nodeSelector": {"disk": "ssd"}}),
            {},
            {"c in north, disk=hdd": 0, "c in north, disk=ssd": 2},
            id="selector",
        ),
        pytest.param(
            web(spec=one_required("disk")), {}, {"c in north, disk=hdd": 0, "c in north, disk=ssd": 2}, id="affinity"
        ),
        pytest.param(
            web(spec=spread("disk")),
            {"node": "b"},
            {"c in north, disk=hdd": 2, "c in north, disk=ssd": 0},
            id="a topology key",
        ),
        pytest.param(web(), {}, {"c in north": 2}, id="a label that nothing reads"),
    ],
)
def test_nodes_that_differ_in_a_label_that_the_pod_reads_are_of_two_kinds(
    pod: Pod, more: dict[str, Any], kinds: dict[str, int]
) -> None:
    there = [make_pod("other", cpu="2", **({"labels": {"app": "web"}} | more))] if more else []
    hdd, ssd = alike("a", labels={"disk": "hdd"}), alike("b", labels={"disk": "ssd"})
    full = [make_pod("full", cpu="2", node="a")]
    found = asked(pod, hdd, ssd, *full, *there)
    assert {each.kind: each.fits for each in found.one_more_node} == kinds
    assert [each["kind"] for each in found.to_dict()["oneMoreNode"]] == [each.kind for each in found.one_more_node]


def test_nodes_that_differ_in_a_taints_value_or_a_devices_number_are_of_two_kinds() -> None:
    tolerant = web(spec={"tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]})
    nodes = [alike(name, labels={}, taints=[f"team={name}:NoSchedule"]) for name in "ab"]
    assert {each.kind: each.fits for each in asked(tolerant, *nodes).one_more_node} == {
        "c in north, tainted team=a:NoSchedule": 2,
        "c in north, tainted team=b:NoSchedule": 0,
    }
    wants = web(requests={"example.com/gpu": 1})
    nodes = [alike("a", labels={}), alike("b", labels={}, allocatable={"example.com/gpu": 1})]
    assert {each.kind: each.fits for each in asked(wants, *nodes).one_more_node} == {
        "c in north, example.com/gpu 0": 0,
        "c in north, example.com/gpu 1": 1,
    }


def test_the_configuration_may_name_a_label() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    needs = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": needs}}]}],
    }
    nodes = [alike("a", labels={"disk": "hdd"}), alike("b", labels={"disk": "ssd"})]
    assert {each.kind: each.fits for each in asked(web(), *nodes, config=config).one_more_node} == {
        "c in north, disk=hdd": 0,
        "c in north, disk=ssd": 2,
    }


def test_an_own_filter_may_read_any_label_but_one_that_names_the_node() -> None:
    class Quick(sdk.NodeFilter):
        name = "Quick"

        def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
            return sdk.SUCCESS if node.labels.get("disk") == "ssd" else sdk.unschedulable("too slow")

    disks = ["hdd"] * 8 + ["ssd"] * 6
    nodes = [alike(f"n{i}", labels={"disk": disk, "serial": str(i)}) for i, disk in enumerate(disks)]
    found = asked(web("2"), *nodes, plugins=[Quick])
    assert [(each.kind, each.nodes, each.fits) for each in found.one_more_node] == [
        ("c in north, disk=hdd", 8, 0),
        ("c in north, disk=ssd", 6, 1),
    ]


def test_kinds_that_were_not_tried_are_counted() -> None:
    nodes = [make_node(f"n{i}", cpu="1", zone=f"zone-{i}") for i in range(14)]
    found = asked(web("2"), *nodes)
    assert len(found.one_more_node) == 12
    assert found.notes == ["one more node was tried of the 12 kinds with most nodes; there are 14"]


def test_cordoned_nodes_are_no_kind_to_add() -> None:
    found = asked(web(), A, make_node("b", cpu="2", unschedulable=True))
    assert [each.like for each in found.one_more_node] == ["a"]


def test_an_own_plugin_decides_as_well() -> None:
    class TwoEach(sdk.NodeFilter):
        name = "TwoEach"

        def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
            return sdk.SUCCESS if len(node.pods) < 2 else sdk.unschedulable("two are enough")

    found = asked(web(), A, B, plugins=[TwoEach])
    assert (found.nodes, found.reasons) == ({"a": 2, "b": 2}, {"two are enough": 1, "Insufficient cpu": 1})


def test_a_configuration_without_limits_ends_the_count() -> None:
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
    }
    found = asked(web(), make_node("a", pods=5), config={"profiles": [profile]})
    assert (found.fits, found.stopped_by) == (6, None)
    assert "nothing stops the next one" in found.notes[-1]


def test_a_gated_pod_fits_nowhere() -> None:
    found = asked(web(spec={"schedulingGates": [{"name": "wait"}]}), A)
    assert found.fits == 0 and found.stopped_by


def test_a_pod_of_another_scheduler_is_placed_as_ours_would() -> None:
    found = asked(web(spec={"schedulerName": "theirs"}), A)
    assert found.fits == 4
    assert found.notes == ["default/web is for theirs; it is placed as default-scheduler would place it"]


@pytest.mark.parametrize(
    ("pods", "copies", "message"),
    [
        pytest.param([], None, "expected at least one pod", id="no pod"),
        pytest.param({"default/web": 0}, None, "a share of 1 or more", id="a share of nothing"),
        pytest.param(["default/x", "default/x"], None, "is given twice", id="the same pod twice"),
        pytest.param("default/x", 0, "copies: 0; expected 1 or more", id="no copies"),
        pytest.param("default/nobody", None, "no such pod", id="a pod that is not there"),
    ],
)
def test_mistakes(pods: Any, copies: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        capacity(Cluster(A, make_pod("x")), pods, copies)


# ---- volumes and devices -------------------------------------------------------------------------------------------


def test_each_copy_of_a_stateful_pod_gets_a_volume_of_its_own() -> None:
    waits = make_object(
        "StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    disks = [_disk("a", 0), _disk("a", 1), _disk("b", 0)]
    claim = make_object(
        "PersistentVolumeClaim",
        "data-db-0",
        "default",
        spec={
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )
    pod = make_pod(
        "db-0", cpu="1", spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}
    )
    found = asked(pod, A, B, waits, *disks, claim)
    assert (found.fits, found.nodes) == (3, {"a": 2, "b": 1})
    assert "didn't find available persistent volumes to bind" in (found.stopped_by or "")


def _disk(node: str, number: int) -> Any:
    affinity = {
        "required": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
        }
    }
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": f"/mnt/{number}"},
        "nodeAffinity": affinity,
        "volumeMode": "Filesystem",
    }
    return make_object("PersistentVolume", f"disk-{node}-{number}", spec=spec, status={"phase": "Available"})


def test_copies_share_a_claim_that_is_not_their_own() -> None:
    claim = make_object(
        "PersistentVolumeClaim",
        "shared",
        "default",
        spec={"storageClassName": "x", "volumeName": "disk-a-0", "accessModes": ["ReadWriteOnce"]},
        metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        status={"phase": "Bound"},
    )
    disk = _disk("a", 0)
    disk.spec.claim_ref = None
    pod = web(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]})
    assert asked(pod, A, B, disk, claim).nodes == {"a": 4}


def test_each_copy_gets_devices_of_its_own() -> None:
    devices = [{"name": f"gpu-{i}"} for i in range(3)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    exactly = {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    objects = [
        make_object("DeviceClass", "gpu", spec={}),
        make_object("ResourceSlice", "a", spec={"driver": "x", "nodeName": "a", "pool": pool, "devices": devices}),
        make_object(
            "ResourceClaimTemplate",
            "one-gpu",
            "default",
            spec={"spec": {"devices": {"requests": [{"name": "gpu", **exactly}]}}},
        ),
    ]
    pod = web(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]})
    found = asked(pod, A, B, *objects)
    assert found.nodes == {"a": 3}
    assert found.reasons == {"cannot allocate all claims": 2}


def test_a_class_that_provisions_gives_each_copy_a_volume_wherever_it_goes() -> None:
    waits = make_object("StorageClass", "fast", provisioner="x.example", volumeBindingMode="WaitForFirstConsumer")
    claim = make_object(
        "PersistentVolumeClaim",
        "data-db-0",
        "default",
        spec={"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    )
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}
    assert asked(make_pod("db-0", cpu="1", spec=volumes), A, B, waits, claim).nodes == {"a": 4, "b": 2}


# ---- against the live scheduler ------------------------------------------------------------------------------------

SHAPES = {"plain": {}, "spread over zones": spread(), "spread over nodes": spread(HOSTNAME), "apart": apart()}


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    nodes=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["north", "south"]), st.booleans()), min_size=1, max_size=4
    ),
    running=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=4),
    cpu=st.sampled_from([500, 1000, 1500]),
    shape=st.sampled_from(sorted(SHAPES)),
)
def test_the_live_scheduler_places_as_many_on_the_same_nodes(
    nodes: list[tuple[int, str, bool]], running: list[tuple[int, int, bool]], cpu: int, shape: str
) -> None:
    objects: list[Object] = [
        make_node(f"n{i}", cpu=cores, zone=zone, taints=["dedicated=x:NoSchedule"] if tainted else ())
        for i, (cores, zone, tainted) in enumerate(nodes)
    ]
    for i, (node, quarters, alike) in enumerate(running):
        labels = {"app": "web"} if alike else {}
        objects.append(make_pod(f"r{i}", node=f"n{node % len(nodes)}", cpu=f"{quarters * 250}m", labels=labels))
    pod = web(f"{cpu}m", spec=SHAPES[shape])
    found = asked(pod, *objects)
    placed, message = placed_one_by_one(objects, pod)
    assert (found.nodes, found.stopped_by) == (dict(placed), message)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    nodes=st.lists(
        st.tuples(
            st.integers(1, 6), st.sampled_from([2, 4, 12]), st.sampled_from(["", "NoSchedule", "PreferNoSchedule"])
        ),
        min_size=1,
        max_size=6,
    ),
    running=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.booleans()), max_size=8),
    cpu=st.sampled_from([0, 300, 500, 1000]),
    ports=st.sampled_from([(), (80,)]),
    shape=st.sampled_from(sorted(SHAPES)),
)
def test_filling_in_rounds_is_placing_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[tuple[int, int, str]],
    running: list[tuple[int, int, bool]],
    cpu: int,
    ports: tuple[int, ...],
    shape: str,
) -> None:
    objects: list[Object] = [
        make_node(f"n{i}", cpu=cores, pods=pods, zone="ns"[i % 2], taints=[f"x=y:{effect}"] if effect else ())
        for i, (cores, pods, effect) in enumerate(nodes)
    ]
    for i, (node, quarters, alike) in enumerate(running):
        labels = {"app": "web"} if alike else {}
        objects.append(make_pod(f"r{i}", node=f"n{node % len(nodes)}", cpu=f"{quarters * 250}m", labels=labels))
    pod = web(f"{cpu}m", spec=SHAPES[shape], host_ports=ports)
    quick = asked(pod, *objects)
    with monkeypatch.context() as slow:
        slow.setattr(filling, "nodes_with_room", lambda session, pod: None)
        assert asked(pod, *objects) == quick


def test_plain_pods_are_filled_in_rounds_and_others_are_not() -> None:
    def room(pod: Pod, *objects: Object) -> list[str] | None:
        session = Scheduler(Cluster(A, B, *objects)).session.fork()
        return nodes_with_room(session, session.info(pod))

    assert room(web()) == ["a", "b"]
    assert room(web(spec=spread())) is None
    assert room(web(spec=apart())) is None
    assert room(web(), make_pod("old", cpu="3", priority=9, status={"nominatedNodeName": "a"})) is None


# ---- how it looks --------------------------------------------------------------------------------------------------


def test_it_prints_as_the_command_does() -> None:
    text = repr(asked(web(), A, B, copies=7))
    assert text.splitlines()[0] == "6 of 7 default/web fit, on 2 nodes"
    assert "2       Insufficient cpu" in text


def test_a_notebook_shows_the_same_lines() -> None:
    page = asked(web(), A, B, copies=7)._repr_html_()
    assert asked(web(), A, B).table().rows == [("a", 4), ("b", 2)]
    assert page.startswith("<pre>") and "6 of 7 default/web fit, on 2 nodes" in page
    assert "Insufficient cpu" in page.partition("REFUSE THE NEXT ONE BECAUSE")[2]


def test_a_single_pod_may_be_called_one() -> None:
    cluster = Cluster(A, B)
    assert capacity(cluster, pod=web()).to_dict() == capacity(cluster, web()).to_dict()
    with pytest.raises(InputError, match="capacity: found both; expected pods or pod"):
        capacity(cluster, web(), pod=web())
    with pytest.raises(InputError, match="capacity: found neither; expected pods or pod"):
        capacity(cluster)


def test_the_front_door_has_it() -> None:
    assert isinstance(mooring.capacity(Cluster(A), web()), mooring.Capacity)
