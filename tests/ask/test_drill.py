"""What a loss does: cases small enough to check by hand, and what really happens when the node is deleted."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mooring
from mooring.api.core import Pod
from mooring.api.errors import InputError, UsageError
from mooring.api.meta import Object
from mooring.ask.drill import Drill, Loss, domains, drill, drill_with
from mooring.core.cluster import Cluster
from mooring.sim.worlds import EmbeddedWorld
from mooring.testing import make_node, make_object, make_pod

from .slow_way import manifest, played, settled


def owned(name: str, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": kind.lower(), "uid": kind, "controller": True}
    return make_pod(name, metadata={"ownerReferences": [owner]}, **fields)


def losing(name: str, *objects: Object) -> Loss:
    (loss,) = drill(Cluster(*objects), name).losses
    return loss


A, B = make_node("a", cpu="4", zone="north"), make_node("b", cpu="4", zone="south")

# ---- by hand -------------------------------------------------------------------------------------------------------


def test_pods_of_controllers_come_back_elsewhere() -> None:
    loss = losing("a", A, B, owned("web", node="a", cpu="2"))
    assert loss.replaced == {"default/web": "b"}
    assert loss.is_harmless and loss.use["cpu"] == 50.0


def test_what_has_no_place_says_why() -> None:
    loss = losing("a", A, B, owned("web", node="a", cpu="3"), owned("other", node="b", cpu="2"))
    assert list(loss.unplaced) == ["default/web"] and not loss.is_harmless
    assert loss.unplaced["default/web"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize(
    ("pod", "where"),
    [
        pytest.param(owned("logs", "DaemonSet", node="a"), "node_pods", id="a DaemonSet's pod goes with its node"),
        pytest.param(
            make_pod("api", node="a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
            "node_pods",
            id="a static pod goes with its node",
        ),
        pytest.param(
            make_pod("ending", node="a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "",
            id="a pod that ends anyway is no loss",
        ),
    ],
)
def test_who_does_not_come_back(pod: Pod, where: str) -> None:
    loss = losing("a", A, B, pod)
    assert loss.pods == 1 and not loss.replaced and not loss.unplaced
    assert loss.node_pods == ([pod.key] if where == "node_pods" else [])
    assert loss.is_harmless


def test_the_more_important_pod_is_placed_first() -> None:
    pods = [owned("a-low", node="a", cpu="2", priority=1), owned("z-high", node="a", cpu="2", priority=9)]
    loss = losing("a", A, make_node("b", cpu="2"), *pods)
    assert loss.replaced == {"default/z-high": "b"} and list(loss.unplaced) == ["default/a-low"]


def test_preempted_pods_are_placed_again() -> None:
    c = make_node("c", cpu="1")
    pods = [owned("high", node="a", cpu="4", priority=9), owned("low", node="b", cpu="1", priority=1)]
    loss = losing("a", A, B, c, *pods)
    assert loss.preempted == {"default/low": "default/high"}
    assert loss.replaced == {"default/high": "b", "default/low": "c"} and loss.is_harmless


def test_a_pod_without_a_controller_is_placed_again_and_named() -> None:
    loss = losing("a", A, B, make_pod("bare", node="a"))
    assert loss.replaced == {"default/bare": "b"} and loss.bare_pods == ["default/bare"] and loss.is_harmless


def test_a_preempted_pod_without_a_controller_is_named() -> None:
    loss = losing("a", A, B, owned("high", node="a", cpu="4", priority=9), make_pod("low", node="b", cpu="1"))
    assert loss.bare_pods == list(loss.unplaced) == ["default/low"] and not loss.is_harmless


@pytest.mark.parametrize(
    ("allowed", "broken"),
    [
        pytest.param(2, [], id="it allows as many as are lost"),
        pytest.param(1, ["default/keep"], id="it allows fewer than are lost"),
    ],
)
def test_budgets(allowed: int, broken: list[str]) -> None:
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    budget = make_object(
        "PodDisruptionBudget", "keep", "default", spec=selector, status={"disruptionsAllowed": allowed}
    )
    budget.metadata.resource_version = "1"
    pods = [owned(f"web-{i}", node="a", labels={"app": "web"}) for i in range(2)]
    loss = losing("a", A, B, budget, *pods)
    assert loss.broken_budgets == broken and loss.is_harmless is not bool(broken)


def test_a_local_volume_is_lost_and_its_pod_waits() -> None:
    hosts = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
    disk = make_object(
        "PersistentVolume",
        "disk",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [hosts]}},
            "claimRef": {
                "namespace": "default",
                "name": "data-db-0",
                "uid": "uid-PersistentVolumeClaim-default-data-db-0",
            },
        },
        status={"phase": "Bound"},
    )
    claim = make_object(
        "PersistentVolumeClaim",
        "data-db-0",
        "default",
        spec={"storageClassName": "local", "volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
        metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        status={"phase": "Bound"},
    )
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}
    loss = losing("a", A, B, disk, claim, owned("db-0", "StatefulSet", node="a", spec=volumes))
    assert loss.lost_volumes == ["disk"]
    assert "didn't match PersistentVolume's node affinity" in loss.unplaced["default/db-0"]


def test_the_worst_loss_comes_first_and_decides() -> None:
    pods = [owned("one", node="a", cpu="3"), owned("two", node="b", cpu="2")]
    found = drill(Cluster(A, B, make_node("c", cpu="2"), *pods))
    assert [loss.lost for loss in found.losses] == [("a",), ("b",), ("c",)]
    assert not found.is_safe and [loss.lost for loss in found.harmful] == [("a",)]
    assert drill(Cluster(A, B, owned("two", node="b", cpu="2"))).is_safe


def test_the_cluster_is_unchanged() -> None:
    cluster = Cluster(A, B, owned("web", node="a"))
    drill(cluster)
    assert [node.name for node in cluster.nodes] == ["a", "b"]
    assert [pod.spec.node_name for pod in cluster.pods] == ["a"]


# ---- what can be lost ----------------------------------------------------------------------------------------------

RACKS = [make_node(name, zone=zone, labels={"rack": rack}) for name, zone, rack in ("an1", "bn2", "cs2")]


@pytest.mark.parametrize(
    ("lose", "together", "want"),
    [
        pytest.param("node", 1, {("a",): "a", ("b",): "b", ("c",): "c"}, id="each node"),
        pytest.param("zone", 1, {("n",): "ab", ("s",): "c"}, id="each zone"),
        pytest.param("label=rack", 1, {("1",): "a", ("2",): "bc"}, id="each rack"),
        pytest.param("node", 2, {("a", "b"): "ab", ("a", "c"): "ac", ("b", "c"): "bc"}, id="each pair of nodes"),
        pytest.param("zone", 2, {("n", "s"): "abc"}, id="both zones"),
        pytest.param("b", 1, {("b",): "b"}, id="one node by its name"),
        pytest.param("n", 1, {("n",): "ab"}, id="one zone by its name"),
    ],
)
def test_domains(lose: str, together: int, want: dict[tuple[str, ...], str]) -> None:
    assert {each.names: "".join(each.nodes) for each in domains(RACKS, lose, together)} == want


@pytest.mark.parametrize(
    ("lose", "n", "message"),
    [
        pytest.param("label=rak", 1, "no node has the label rak; the nodes have .*rack", id="a label that no node has"),
        pytest.param("zoone", 1, "zoone: no node or zone of that name; did you mean zone", id="a name that is unknown"),
        pytest.param("a", 2, "only 1 can be lost; expected 2 or more to lose 2 together", id="no pair"),
        pytest.param("node", 3, "n: 3; expected 1 or 2", id="three together"),
    ],
)
def test_mistakes(lose: str, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        drill(Cluster(*RACKS), lose, n)


def test_a_cluster_without_nodes_has_nothing_to_lose() -> None:
    with pytest.raises(InputError, match="no nodes to lose"):
        drill(Cluster())


def test_too_many_pairs_are_refused() -> None:
    nodes = [make_node(f"n{i}") for i in range(500)]
    with pytest.raises(InputError, match="124,750 pairs are too many"):
        domains(nodes, "node", 2)


FIVE = [make_node(f"n{i}", cpu="4", labels={"rack": f"r{i}"}) for i in range(5)]
FULL = [owned(f"on-{i}", node=f"n{i}", cpu="4") for i in range(5)]

# ---- by several ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, {"profiles": [{"schedulerName": "mine"}]}], ids=["no", "its own"])
def test_processes_find_the_same(config: dict[str, Any] | None) -> None:
    spec = {"schedulerName": "mine"}
    cluster = Cluster(A, B, make_node("c", cpu="2"), *(owned(f"p{i}", node="a", cpu="2", spec=spec) for i in range(2)))
    assert drill(cluster, config=config, workers=2).to_list() == drill(cluster, config=config).to_list()


def test_a_dask_cluster_of_two_workers_finds_the_same() -> None:
    cluster = Cluster(*FIVE, *FULL[:3], owned("web", node="n3", cpu="1"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from distributed import LocalCluster

        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as dask:
            found = drill(cluster, on=dask.scheduler_address.replace("tcp", "dask"))
    assert found.to_list() == drill(cluster).to_list()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(
            {"on": "tcp://a:1"}, "expected dask://HOST:PORT or ray://HOST:PORT", id="an address of another kind"
        ),
        pytest.param({"on": "dask://a:1", "workers": 2}, "give one of them", id="here and there"),
    ],
)
def test_where_no_workers_can_be(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        drill_with(mooring.Scheduler(Cluster(*FIVE)), **asked)


def interrupting(after: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    return progress


def test_ctrl_c_leaves_what_is_known() -> None:
    found = drill_with(mooring.Scheduler(Cluster(*FIVE, *FULL)), progress=interrupting(2))
    assert len(found.losses) == 2 and not found.is_complete and not found.is_safe
    assert repr(found).startswith("Interrupted after 2 of 5 losses; 2 of these 2 do harm")


# ---- in print ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lose", "shown"),
    [
        pytest.param("node", "--lose n3 shows what it does", id="nodes"),
        pytest.param("label=rack", "--lose label=rack=r3 shows what it does", id="values of a label"),
    ],
)
def test_every_harmful_loss_is_named_with_the_option_that_shows_it(lose: str, shown: str) -> None:
    found = drill(Cluster(*FIVE, *FULL), lose)
    printed = repr(found)
    assert all(f"Without {loss.lost[0]}\n" in printed for loss in found.losses[:3])
    assert f"Also harmful: losing {found.losses[3].lost[0]}, {found.losses[4].lost[0]}\n" in printed
    assert shown in printed
    alone = drill(Cluster(*FIVE, *FULL), shown.split()[1])
    assert alone.losses == [found.losses[3]]


def test_an_unknown_label_value_is_reported() -> None:
    with pytest.raises(InputError, match="no node has the label rack=r9; there are r0, r1, r2, r3, r4"):
        drill(Cluster(*FIVE), "label=rack=r9")


def test_pods_are_grouped_if_their_messages_differ_only_in_preemption() -> None:
    loss = Loss(("a",), ("a",))
    for i in range(50):
        loss.unplaced[f"p{i}"] = f"0/9 nodes are available: 9 Insufficient cpu. preemption: 0/9 nodes: {i} No victims."
    for i in range(7):
        loss.unplaced[f"q{i}"] = (
            f"0/9 nodes are available: {i} Insufficient cpu, {9 - i} Too many pods. preemption: no."
        )
    printed = repr(Drill("a", 1, [loss], 1)).splitlines()
    assert printed[6:8] == [
        "  no place for p0, p1, p2, p3, p4, p5 and 44 more:",
        "    0/9 nodes are available: 9 Insufficient cpu. …",
    ]
    assert printed[8:10] == [
        "  no place for q0:",
        "    0/9 nodes are available: 0 Insufficient cpu, 9 Too many pods. preemption: no.",
    ]
    assert printed[-1] == "  no place for 3 more pods, for 3 other reasons"


# ---- against a cluster from which the node is deleted --------------------------------------------------------------


def deleted(objects: list[Object], node: str, pods: list[Pod]) -> tuple[dict[str, str], set[str], set[str]]:
    """Delete a node with its pods, and make those anew in the queue's order: (placed, refused, evicted)."""
    placed: dict[str, str] = {}
    refused: set[str] = set()
    evicted: set[str] = set()

    async def story(world: EmbeddedWorld) -> None:
        await world.cluster.delete(f"node/{node}")
        for pod in pods:
            await world.cluster.delete(f"pod/{pod.name}", grace_period_s=0)
        await asyncio.sleep(1)
        before = {each["metadata"]["name"] for each in await world.cluster.list("pod")}
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            again = manifest(pod)
            again["metadata"]["name"] += "-again"
            del again["spec"]["nodeName"]
            await world.cluster.backend.create(again)
            name = again["metadata"]["name"]
            found, _ = await settled(world, name)
            if not found:
                await asyncio.sleep(40)  # victims have their grace period
                found = ((await world.cluster.get(f"pod/{name}")) or {})["spec"].get("nodeName", "")
            if found:
                placed[pod.key] = found
            else:
                refused.add(pod.key)
        after = {each["metadata"]["name"] for each in await world.cluster.list("pod")}
        evicted.update(f"default/{name}" for name in before - after)

    played(objects, story)
    return placed, refused, evicted


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cores=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=7),
    order=st.permutations(range(7)),
)
def test_deleting_the_node_does_what_the_drill_says(
    cores: list[int], pods: list[tuple[int, int]], order: list[int]
) -> None:
    nodes: list[Object] = [make_node(f"n{i}", cpu=each, zone="ns"[i % 2]) for i, each in enumerate(cores)]
    classes = [make_object("PriorityClass", f"p{i}", value=10 * i) for i in range(7)]
    running = []
    for i, (node, halves) in enumerate(pods):
        spec = {"priorityClassName": f"p{order[i]}", "terminationGracePeriodSeconds": 1}
        name = f"n{node % len(cores)}"
        running.append(owned(f"r{i}", node=name, cpu=f"{halves * 500}m", priority=10 * order[i], spec=spec))
    mine = [pod for pod in running if pod.spec.node_name == "n0"]
    loss = losing("n0", *nodes, *running)
    placed, refused, evicted = deleted([*classes, *nodes, *running], "n0", mine)
    ours = {pod.key for pod in mine}
    # The story makes no victims anew, so only the pods of the lost node are compared, and the evicted pods.
    assert {pod: node for pod, node in loss.replaced.items() if pod in ours} == placed
    assert {pod for pod in loss.unplaced if pod in ours} == refused
    assert set(loss.preempted) == evicted


# ---- how it looks --------------------------------------------------------------------------------------------------


def shown(*objects: Object, lose: str = "node", n: int = 1) -> list[str]:
    return repr(drill(Cluster(*objects), lose, n)).splitlines()


def test_it_prints_as_the_command_does() -> None:
    lines = shown(A, B, owned("web", node="a", cpu="3"), owned("other", node="b", cpu="2"), make_pod("x", node="b"))
    assert lines[0] == "Not safe: losing 2 of 2 nodes does harm"
    assert "Without b" in lines and "  without a controller, so their owner must recreate them: default/x" in lines
    assert shown(A, B)[0] == "Safe: any node can be lost (2 were tried)"
    assert "Safe: any node can be lost (2 were tried)" in drill(Cluster(A, B))._repr_html_()
    rows = drill(Cluster(A, B, owned("web", node="b", cpu="1"))).table().rows
    assert ("b", 1, 0, 0, 0, 0) in rows and len(rows) == 2
    assert shown(A, B, n=2)[0] == "Losing a and b does no harm"
    assert shown(A, B, lose="zone")[0] == "Safe: any zone can be lost (2 were tried)"
    assert shown(*RACKS, lose="label=rack")[0] == "Safe: any value of rack can be lost (2 were tried)"
    assert shown(*RACKS, n=2)[0] == "Safe: any pair of nodes can be lost (3 were tried)"


def test_the_front_door_has_it() -> None:
    found = mooring.drill(Cluster(A, B))
    assert isinstance(found, Drill) and isinstance(found, mooring.Drill)
