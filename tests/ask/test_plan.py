"""Nodes to add and to remove: cases small enough to check by hand, brute force, and what really happens."""

from __future__ import annotations

import asyncio
import builtins
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mooring
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.ask.consolidate import consolidate
from mooring.ask.plan import Adding, Plan, plan
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import read_types, waiting_pods
from mooring.core.cluster import Cluster
from mooring.sim.simulate import Arrival, simulate
from mooring.sim.worlds import EmbeddedWorld
from mooring.testing import make_node, make_object, make_pod

from .slow_way import manifest, played, settled

ZONE = "topology.kubernetes.io/zone"


def owned(name: str, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": kind.lower(), "uid": kind, "controller": True}
    return make_pod(name, metadata={"ownerReferences": [owner]}, **fields)


def types(**prices: Any) -> dict[str, Any]:
    """``small=(1, 2)``: a price and a number of cores; ``small=(1, 2, 3)``: and at most three."""
    made = []
    for name, (price, cores, *most) in prices.items():
        allocatable = {"cpu": str(cores), "memory": "8Gi"}
        made.append({"name": name, "price": price, "allocatable": allocatable, **({"max": most[0]} if most else {})})
    return {"types": made}


def bought(found: Plan) -> dict[str, int]:
    return {f"{each.type} {each.zone}".strip(): each.count for each in found.nodes}


def pending(*cpus: str, **fields: Any) -> list[Pod]:
    return [make_pod(f"p{i}", cpu=cpu, **fields) for i, cpu in enumerate(cpus)]


# ---- nodes to add --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "offers", "want", "cost"),
    [
        pytest.param(pending("1"), types(small=(1, 2)), {"small": 1}, 1, id="one node for one pod"),
        pytest.param(
            [make_node("old", cpu="2"), *pending("1", "1")], types(small=(1, 2)), {}, 0, id="there is room already"
        ),
        pytest.param(
            [make_node("old", cpu="1"), *pending("1", "1")], types(small=(1, 2)), {"small": 1}, 1, id="old room is used"
        ),
        pytest.param(
            pending("2", "2", "2", "2"), types(small=(3, 2), large=(5, 4)), {"large": 2}, 10, id="the larger is cheaper"
        ),
        pytest.param(
            pending("2", "2", "2"), types(small=(3, 2), large=(5, 4)), {"large": 1, "small": 1}, 8, id="one of each"
        ),
        pytest.param(
            pending("2", "2", "2"), types(small=(3, 2), large=(5, 4, 0)), {"small": 3}, 9, id="a limit of none"
        ),
        pytest.param(
            pending("2", "2", "2", "2"),
            types(small=(3, 2), large=(5, 4, 1)),
            {"large": 1, "small": 2},
            11,
            id="a limit",
        ),
        pytest.param(
            [make_node("old", cpu="1"), owned("logs", "DaemonSet", node="old", cpu="1"), *pending("1", "1")],
            types(small=(1, 2)),
            {"small": 2},
            2,
            id="a DaemonSet takes its share of each new node",
        ),
    ],
)
def test_the_cheapest_nodes(objects: list[Object], offers: dict[str, Any], want: dict[str, int], cost: float) -> None:
    found = plan(Cluster(*objects), offers)
    assert (bought(found), found.cost, found.is_complete) == (want, cost, True)
    assert found.is_cheapest and found.lower_bound == pytest.approx(cost)
    assert set(found.placed) == {pod.key for pod in objects if isinstance(pod, Pod) and not pod.spec.node_name}


def test_zones_and_spreading_decide_where_nodes_come() -> None:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    pods = pending("1", "1", "1", "1", labels={"app": "web"}, spec={"topologySpreadConstraints": [rule]})
    offers = {"types": [{"name": "s", "price": 1, "allocatable": {"cpu": "2"}, "zones": ["north", "south"]}]}
    found = plan(
        Cluster(*pods, make_node("n", zone="north", cpu="100m"), make_node("s", zone="south", cpu="100m")), offers
    )
    assert bought(found) == {"s north": 1, "s south": 1} and found.is_cheapest


def test_a_daemon_set_runs_only_where_it_tolerates_the_taints() -> None:
    tied = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["old"]}]}]
        }
    }
    logs = owned("logs", "DaemonSet", node="old", cpu="1", spec={"affinity": {"nodeAffinity": tied}})
    toleration = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    pods = pending("1", "1", spec=toleration)
    offers = types(small=(1, 2))
    offers["types"][0]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    assert bought(plan(Cluster(make_node("old", cpu="1"), logs, *pods), offers)) == {"small": 1}


def test_pods_that_no_node_helps_are_named_and_the_others_get_theirs() -> None:
    found = plan(Cluster(*pending("1", "9")), types(small=(1, 2)))
    assert bought(found) == {"small": 1} and list(found.placed) == ["default/p0"]
    assert found.unplaced["default/p1"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert not found.is_complete


def test_a_limit_that_is_too_small_is_reported() -> None:
    found = plan(Cluster(*pending("2", "2")), types(small=(1, 2, 1)))
    assert bought(found) == {"small": 1} and len(found.unplaced) == 1
    assert "the limits of the types are too small for all pods" in found.notes


def test_a_pod_that_wants_to_be_where_another_one_comes_is_not_hopeless() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pods = [make_pod("web", cpu="1", spec=near), make_pod("db", cpu="1", priority=5, labels={"app": "db"})]
    found = plan(Cluster(*pods), types(small=(1, 2)))
    assert found.is_complete and bought(found) == {"small": 1}


def test_manifests_are_asked_for_instead_of_what_waits(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(
        "{kind: Deployment, apiVersion: apps/v1, metadata: {name: web}, spec: {replicas: 3, selector: {}, template: "
        "{spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '2'}}}]}}}}"
    )
    cluster = Cluster(*pending("2"))
    assert bought(plan(cluster, types(small=(1, 2)), [str(tmp_path / "web.yaml")])) == {"small": 3}
    assert bought(plan(cluster, types(small=(1, 2)), {str(tmp_path / "web.yaml"): 5, "default/p0": None})) == {
        "small": 6
    }


def test_a_directory_of_manifests_is_meant_as_a_whole(tmp_path: Path) -> None:
    container = "containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]"
    (tmp_path / "a.yaml").write_text(
        "{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: first}, value: 7}\n---\n"
        "{kind: Deployment, apiVersion: apps/v1, metadata: {name: web}, spec: {replicas: 2, selector: {}, template: "
        f"{{spec: {{priorityClassName: first, {container}}}}}}}}}\n---\n"
        f"{{kind: Pod, apiVersion: v1, metadata: {{name: one}}, spec: {{{container}}}}}"
    )
    (tmp_path / "b.yaml").write_text(
        "{kind: DaemonSet, apiVersion: apps/v1, metadata: {name: logs}, spec: {selector: {}, template: "
        f"{{spec: {{{container}}}}}}}}}"
    )
    found = plan(Cluster(make_node("old", cpu="2")), types(small=(1, 2)), [str(tmp_path)])
    # The DaemonSet takes one core of each node, the old one included: three pods need two new ones.
    assert (found.pods, bought(found), found.is_cheapest) == (3, {"small": 2}, True)


def test_without_types_the_clusters_own_kinds_are_offered() -> None:
    cluster = Cluster(make_node("a", cpu="2", zone="north"), *pending("2", "2"))
    found = plan(cluster)
    assert (bought(found), found.cost) == ({"2 CPU, 8Gi in north north": 1}, 1)
    assert "costs 1" in found.notes[-1]


def test_without_types_kinds_differ_in_what_the_pods_read() -> None:
    nodes = [
        make_node(name, cpu="2", zone="north", labels={"disk": disk}) for name, disk in (("a", "hdd"), ("b", "ssd"))
    ]
    waiting = make_pod("quick", cpu="2", spec={"nodeSelector": {"disk": "ssd"}})
    found = plan(Cluster(*nodes, make_pod("old", cpu="2", node="b"), waiting))
    assert (bought(found), found.is_complete) == ({"2 CPU, 8Gi in north, disk=ssd north": 1}, True)


def test_without_a_solver_the_bound_is_rough_and_the_plan_is_still_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "highspy":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    found = plan(Cluster(*pending("2", "2", "2")), types(small=(3, 2), large=(5, 4)))
    assert found.is_complete and 7.5 <= found.lower_bound <= found.cost == 8
    assert found.notes == ["the lower bound is rough, because no solver is installed: pip install 'mooring[plan]'"]


@pytest.mark.parametrize(
    ("offers", "message"),
    [
        pytest.param({"types": []}, "types: no types; expected a list", id="no types"),
        pytest.param({"typs": []}, "types: Object .* unknown field `typs`", id="a field that is unknown"),
        pytest.param({"types": [{"name": "x", "price": 1}]}, r"types\[0\]: neither allocatable nor like", id="no size"),
        pytest.param(
            {"types": [{"name": "x", "price": 1, "like": "b"}]},
            r"types\[0\].like: there is no node 'b'",
            id="like a missing node",
        ),
        pytest.param(
            {"types": [{"name": "x", "price": -1, "like": "a"}]},
            r"types\[0\]: price -1, max None",
            id="a price below 0",
        ),
        pytest.param(
            {"types": [{"name": "x", "price": 1, "allocatable": {"cpu": "4x"}}]}, "unknown suffix", id="a bad quantity"
        ),
        pytest.param(
            {"types": [{"name": "x", "price": 1, "like": "a"}] * 2}, "'x' occurs twice", id="the same name twice"
        ),
        pytest.param("nowhere.yaml", "nowhere.yaml: no such file", id="no file"),
    ],
)
def test_mistakes(offers: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(Cluster(make_node("a")), offers)


# ---- from a catalogue ----------------------------------------------------------------------------------------------


def row(name: str, cores: int, price: float, **columns: Any) -> dict[str, Any]:
    return {"type": name, "cpu": cores, "memory": "8Gi", "price": price, **columns}


CATALOGUE = [
    row("small", 2, 3, spotPrice=1),
    row("large", 4, 5, zone="south"),
    row("arm", 2, 2, architecture="arm64"),
    row("gpu", 4, 9, gpus=1, zone="north"),
]


@pytest.mark.parametrize(
    ("pods", "asked", "want", "cost"),
    [
        pytest.param(pending("2"), {}, "arm", 2, id="the cheapest type of any architecture"),
        pytest.param(
            pending("2", spec={"nodeSelector": {"kubernetes.io/arch": "amd64"}}),
            {},
            "small",
            3,
            id="a pod that selects its architecture",
        ),
        pytest.param(pending("2"), {"spot": True}, "small (spot)", 1, id="spot nodes"),
        pytest.param(
            pending("2", spec={"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}}),
            {"spot": True},
            "arm",
            2,
            id="a pod that selects nodes on demand",
        ),
        pytest.param(pending("4"), {}, "large", 5, id="a type that one zone has"),
        pytest.param(pending("4"), {"zones": ["north"]}, "gpu", 9, id="one zone alone"),
        pytest.param([make_pod("train", cpu="1", requests={"nvidia.com/gpu": 1})], {}, "gpu", 9, id="a GPU"),
    ],
)
def test_the_cheapest_nodes_of_a_catalogue(pods: list[Pod], asked: dict[str, Any], want: str, cost: float) -> None:
    found = plan(Cluster(*pods), catalogue=CATALOGUE, **asked)
    assert [(each.type, each.count) for each in found.nodes] == [(want, 1)]
    assert found.cost == found.lower_bound == cost


def test_a_row_for_a_zone_replaces_the_row_for_every_zone() -> None:
    rows = [row("small", 2, 3), row("small", 2, 1, zone="south")]
    found = plan(Cluster(*pending("2"), make_node("n", zone="north", cpu="1")), catalogue=rows, zones=["north"])
    assert (bought(found), found.cost) == ({"small north": 1}, 3)
    assert bought(plan(Cluster(*pending("2")), catalogue=rows)) == {"small south": 1}


def test_a_plan_with_nodes_of_two_architectures_reports_it() -> None:
    found = plan(
        Cluster(make_node("old", cpu="1", labels={"kubernetes.io/arch": "amd64"}), *pending("2")), catalogue=CATALOGUE
    )
    assert found.notes == ["nodes of amd64 and arm64: a pod that selects no kubernetes.io/arch may run on each"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(
            {"catalogue": CATALOGUE, "types": types(small=(1, 2))}, "types and a catalogue both", id="types as well"
        ),
        pytest.param({"spot": True}, "expected a catalogue", id="spot nodes of no catalogue"),
        pytest.param({"zones": ["north"]}, "expected a catalogue", id="zones of no catalogue"),
        pytest.param(
            {"catalogue": CATALOGUE[3:], "zones": ["east"]},
            "no type in zone 'east'; the zones are north",
            id="a zone that no type has",
        ),
        pytest.param({"catalogue": "nowhere.csv"}, "nowhere.csv: no such file", id="no file"),
    ],
)
def test_mistakes_about_a_catalogue(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(Cluster(make_node("a")), **asked)


# ---- against brute force and a simulation --------------------------------------------------------------------------

MAX_EACH = 3


def cheapest(cluster: Cluster, offers: dict[str, Any]) -> float | None:
    """The price of the cheapest nodes with which all pods can be placed, of all that there are to try."""
    session = Scheduler(cluster).session.fork()
    variants = read_types(offers, session.state)
    search = Adding(session, waiting_pods(cluster, session), variants)
    tries = [
        (sum(count * variant.price for count, variant in zip(counts, variants, strict=True)), counts)
        for counts in product(range(MAX_EACH + 1), repeat=len(variants))
    ]
    works = (cost for cost, counts in sorted(tries) if not search.prove(Counter(dict(enumerate(counts)))).refused)
    return next(works, None)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    old=st.lists(st.integers(1, 4), max_size=3),
    cpus=st.lists(st.sampled_from([500, 1000, 1500, 2000]), min_size=1, max_size=8),
    small=st.tuples(st.integers(1, 4), st.integers(2, 3)),
    large=st.tuples(st.integers(2, 9), st.integers(4, 6)),
    daemon=st.booleans(),
    apart=st.booleans(),
)
def test_a_plan_is_between_its_bound_and_what_brute_force_finds_and_it_works(
    old: list[int], cpus: list[int], small: tuple[int, int], large: tuple[int, int], daemon: bool, apart: bool
) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    anti = (
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}} if apart else {}
    )
    nodes: list[Object] = [make_node(f"o{i}", cpu=cores) for i, cores in enumerate(old)]
    if daemon and old:
        nodes.append(owned("logs", "DaemonSet", node="o0", cpu="500m"))
    pods = pending(*(f"{cpu}m" for cpu in cpus), labels={"app": "web"}, spec=anti)
    cluster, offers = Cluster(*nodes, *pods), types(small=(*small, MAX_EACH), large=(*large, MAX_EACH))
    found = plan(cluster, offers)
    best = cheapest(cluster, offers)
    if best is None:
        assert not found.is_complete
        return
    assert found.is_complete
    assert found.lower_bound <= best + 1e-6 <= found.cost + 2e-6
    outcome = simulate([*nodes, *found.new_nodes], [Arrival(0, pod) for pod in pods], until=60)
    assert set(outcome.placements) >= {pod.key for pod in pods} and not outcome.pending and not outcome.evicted


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    old=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["north", "south", ""])), max_size=3),
    running=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=3),
    cpus=st.lists(st.sampled_from([500, 1000, 1500]), min_size=1, max_size=6),
    prices=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    skew=st.integers(1, 2),
    is_one_group=st.booleans(),
)
def test_the_bound_holds_where_pods_are_spread(
    old: list[tuple[int, str]],
    running: list[tuple[int, bool]],
    cpus: list[int],
    prices: tuple[int, int],
    skew: int,
    is_one_group: bool,
) -> None:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    objects: list[Object] = [make_node(f"o{i}", cpu=cores, zone=zone) for i, (cores, zone) in enumerate(old)]
    for i, (node, is_alike) in enumerate(running if old else ()):
        labels = {"app": "web"} if is_alike else {}
        objects.append(make_pod(f"r{i}", node=f"o{node % len(old)}", cpu="500m", labels=labels))
    sizes = [cpus[0]] * len(cpus) if is_one_group else cpus
    pods = pending(*(f"{cpu}m" for cpu in sizes), labels={"app": "web"}, spec={"topologySpreadConstraints": [rule]})
    offers = {
        "types": [
            {"name": zone, "price": price, "max": MAX_EACH, "allocatable": {"cpu": "2"}, "zones": [zone]}
            for zone, price in zip(("north", "south"), prices, strict=True)
        ]
    }
    cluster = Cluster(*objects, *pods)
    found, best = plan(cluster, offers), cheapest(cluster, offers)
    if best is not None:
        assert found.is_complete
        assert found.lower_bound <= best + 1e-6 <= found.cost + 2e-6


# ---- nodes to remove -----------------------------------------------------------------------------------------------

A, B = make_node("a", cpu="4"), make_node("b", cpu="4")


def volume(**kind: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **kind}]}


@pytest.mark.parametrize(
    ("objects", "nodes", "moves"),
    [
        pytest.param([A, B, owned("x", node="a", cpu="1")], ["b"], [], id="an empty node goes without a move"),
        pytest.param(
            [A, B, owned("x", node="a", cpu="1"), owned("y", node="b", cpu="2")],
            ["a"],
            [("default/x", "a", "b")],
            id="the emptier node goes, and its pods move",
        ),
        pytest.param(
            [A, B, owned("x", node="a", cpu="3"), owned("y", node="b", cpu="2")], [], [], id="there is no room for them"
        ),
        pytest.param(
            [A, B, owned("logs", "DaemonSet", node="a", cpu="1"), owned("y", node="b", cpu="4")],
            ["a"],
            [],
            id="a DaemonSet's pod goes with its node",
        ),
        pytest.param(
            [A, B, make_node("c", cpu="4"), *(owned(f"x{n}", node=n, cpu="1") for n in "abc")],
            ["a", "b"],
            [("default/xa", "a", "c"), ("default/xb", "b", "c")],
            id="no pod moves to a node that goes as well",
        ),
    ],
)
def test_nodes_that_can_go(objects: list[Object], nodes: list[str], moves: list[tuple[str, str, str]]) -> None:
    found = consolidate(Cluster(*objects))
    assert found.nodes == nodes
    assert [(move.pod, move.source, move.target) for move in found.moves] == moves
    assert len(nodes) <= found.at_most
    assert set(found.kept) == {node.name for node in objects if type(node).__name__ == "Node"} - set(nodes)


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        pytest.param(make_pod("x", node="a"), "default/x has no controller to recreate it", id="a bare pod"),
        pytest.param(
            owned("x", node="a", spec=volume(hostPath={"path": "/"})), "default/x uses a hostPath", id="hostPath"
        ),
        pytest.param(
            owned("x", node="a", spec=volume(emptyDir={})),
            "default/x has data in an emptyDir (--delete-emptydir-data lets them go)",
            id="emptyDir",
        ),
        pytest.param(
            owned("x", node="a", labels={"app": "kept"}),
            "the budget default/keep allows no disruption of default/x",
            id="a budget",
        ),
    ],
)
def test_pods_that_hold_their_node(pod: Pod, why: str) -> None:
    budget = make_object("PodDisruptionBudget", "keep", "default", spec={"selector": {"matchLabels": {"app": "kept"}}})
    full = owned("full", node="b", cpu="1")
    found = consolidate(Cluster(A, B, pod, full, budget))
    assert found.kept["a"].why == why


def test_emptydir_data_can_be_given_up() -> None:
    cluster = Cluster(A, B, owned("x", node="a", spec=volume(emptyDir={})), owned("y", node="b", cpu="1"))
    assert consolidate(cluster, delete_emptydir_data=True).nodes == ["a"]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cores=st.lists(st.integers(2, 5), min_size=2, max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), min_size=1, max_size=6),
)
def test_the_moves_can_be_made_and_end_where_the_plan_says(cores: list[int], pods: list[tuple[int, int, bool]]) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    anti = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    nodes: list[Object] = [make_node(f"n{i}", cpu=each) for i, each in enumerate(cores)]
    running = []
    for i, (node, halves, apart) in enumerate(pods):
        more: dict[str, Any] = {"labels": {"app": "web"}, "spec": anti} if apart else {}
        running.append(owned(f"r{i}", node=f"n{node % len(cores)}", cpu=f"{halves * 500}m", **more))
    found = consolidate(Cluster(*nodes, *running))
    ends: list[str] = []

    async def story(world: EmbeddedWorld) -> None:
        by_name = {pod.key: manifest(pod) for pod in running}
        for name in found.nodes:
            await world.cluster.cordon(name)
        for i, move in enumerate(found.moves):
            await world.cluster.delete(f"pod/{by_name[move.pod]['metadata']['name']}", grace_period_s=0)
            await asyncio.sleep(1)
            again = by_name[move.pod]
            again["metadata"]["name"] = f"again-{i}"
            del again["spec"]["nodeName"]
            await world.cluster.backend.create(again)
            ends.append((await settled(world, f"again-{i}"))[0])

    played([*nodes, *running], story)
    assert ends == [move.target for move in found.moves]
    assert len(found.nodes) <= found.at_most
    assert not set(ends) & set(found.nodes)


# ---- how it looks --------------------------------------------------------------------------------------------------


def first(found: object) -> str:
    return repr(found).splitlines()[0]


def test_plans_print_as_the_command_does() -> None:
    offers = types(small=(1, 2))
    assert first(plan(Cluster(*pending("1", "2")), offers)) == "Add 2 nodes for 2: then there is room for 2 pods"
    assert first(plan(Cluster(A, *pending("1")), offers)) == "No node is needed: there is room for 1 pod"
    assert first(plan(Cluster(A), offers)) == "No pods need a place"
    assert "No pods need a place" in plan(Cluster(A), offers)._repr_html_()
    assert first(plan(Cluster(A, *pending("1", "9")), offers)) == "1 of 2 pods have no place, and no new node helps"
    assert first(plan(Cluster(*pending("1", "9")), offers)) == "Add 1 node for 1: 1 of 2 pods have no place even then"
    removal = consolidate(Cluster(A, B, owned("x", node="a", cpu="1"), owned("y", node="b", cpu="2")))
    assert first(removal) == "1 node can be removed with 1 move. No plan removes more."
    assert first(consolidate(Cluster(A, make_pod("x", node="a")))) == "No node can be removed"


def test_the_front_door_has_them() -> None:
    assert isinstance(mooring.plan(Cluster(A)), mooring.Plan)
    assert isinstance(mooring.consolidate(Cluster(A, B)), mooring.Consolidation)
