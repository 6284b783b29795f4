"""Better placements: as good as trying everything, and reached by steps that every filter allows."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mooring
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.ask.moves import BIND, EVICT, Move, MoveReplay
from mooring.ask.optimise import (
    COST,
    NODES,
    OBJECTIVES,
    PENDING,
    SPREAD,
    Optimisation,
    PlacementSearch,
    measures,
    optimise,
)
from mooring.ask.optimise import _holds as holds_at_the_end
from mooring.ask.placement_program import Program
from mooring.core.cluster import Cluster
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo
from mooring.testing import make_node, make_object, make_pod

OWNER = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]
}


def pod(name: str, app: str = "web", node: str = "", **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": app}, metadata=OWNER, **more)


def apart(key: str, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def even(key: str, app: str = "web", skew: int = 1) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


# ---- as good as trying everything ----------------------------------------------------------------------------------


def brute_force(
    session: Session, movable: list[PodInfo], waiting: list[PodInfo], search: PlacementSearch
) -> tuple[Any, ...]:
    """The rank of the best placement that can be reached, by trying all of them, the best first."""
    nodes = [info.name for info in session.state.nodes().infos]
    choices = [nodes] * len(movable) + [["", *nodes]] * len(waiting)
    best: tuple[Any, ...] | None = None
    for places in product(*choices):
        moves = [
            Move(pod, pod.pod.spec.node_name, target)
            for pod, target in zip([*movable, *waiting], places, strict=True)
            if target and target != pod.pod.spec.node_name
        ]
        after = session.fork()
        left = [pod for pod, target in zip(waiting, places[len(movable) :], strict=True) if not target]
        for move in moves:
            if move.source:
                after.state.remove_pod(move.pod.uid)
            twin = move.pod.pod.__copy__()
            twin.metadata, twin.spec = twin.metadata.__copy__(), twin.spec.__copy__()
            twin.metadata.uid, twin.spec.node_name = f"{move.pod.uid}:there", move.target
            after.state.set_pod(twin)
        rank = search._rank(measures(after, left, lambda name: 1.0), 2 * sum(bool(m.source) for m in moves))
        if best is not None and rank <= best:
            continue
        replay = MoveReplay(session.fork())
        if replay.run(moves) and holds_at_the_end(replay.session, moves):
            best = rank
    assert best is not None, "everything can stay"
    return best


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [
        make_node(
            f"n{i}",
            zone="ab"[draw(st.integers(0, 1))],
            cpu=draw(st.sampled_from([2, 4])),
            labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))},
            taints=["dedicated=db:NoSchedule"] if draw(st.integers(0, 5)) == 0 else [],
        )
        for i in range(draw(st.integers(2, 3)))
    ]
    specs: list[dict[str, Any]] = [
        {},
        apart(HOST),
        apart(ZONE, "db"),
        near(ZONE, "db"),
        near(HOST, "web"),
        even(ZONE),
        even(HOST),
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"operator": "Exists"}]},
    ]
    kinds = [
        (
            draw(st.sampled_from(["web", "db"])),
            draw(st.sampled_from([1, 1, 2])),
            draw(st.sampled_from([0, 0, 10])),
            draw(st.sampled_from(specs)),
            draw(st.sampled_from([(), (), (80,)])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    cluster = Cluster(*nodes)
    for i in range(draw(st.integers(1, 5))):
        app, cpu, priority, spec, ports = kinds[draw(st.integers(0, len(kinds) - 1))]
        node = draw(st.sampled_from(["", *(node.name for node in nodes)]))
        new = pod(f"{app}-{i}", app, node, cpu=cpu, priority=priority, spec=spec, host_ports=ports)
        cluster.add(new)
    if draw(st.booleans()):
        budget = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        allowed = {"disruptionsAllowed": draw(st.integers(0, 2))}
        cluster.add(make_object("PodDisruptionBudget", "web", "default", spec=budget, status=allowed))
    return cluster


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cluster=clusters(), objective=st.sampled_from([NODES, PENDING, SPREAD]))
def test_no_placement_is_better_than_the_one_that_is_found(cluster: Cluster, objective: str) -> None:
    from mooring.ask.moves import movable_pods
    from mooring.ask.wanted import in_queue_order, waiting_pods

    session = mooring.Scheduler(cluster).session.fork()
    movable, _ = movable_pods(session)
    waiting = in_queue_order(session, waiting_pods(cluster, session))
    found = optimise(cluster, objective, time_limit_s=600)
    search = PlacementSearch(session, objective, lambda name: 1.0)
    steps = 2 * sum(bool(source) for _, source, _ in found.moves)
    assert found.is_optimal
    assert search._rank(found.after, steps) == brute_force(session, movable, waiting, search)


# ---- single rules --------------------------------------------------------------------------------------------------


def test_pods_of_half_empty_nodes_come_together() -> None:
    cluster = Cluster(
        *(make_node(f"n{i}", cpu=4) for i in range(3)), *(pod(f"p{i}", node=f"n{i}", cpu=1) for i in range(3))
    )
    found = optimise(cluster)
    assert (found.before.nodes, found.after.nodes, found.bound, found.is_optimal) == (3, 1, 1.0, True)
    assert [step.action for step in found.steps] == [EVICT, BIND] * 2


def test_a_pod_that_waits_gets_room_by_moving_another() -> None:
    cluster = Cluster(
        make_node("small", cpu=2),
        make_node("large", cpu=4, labels={"disk": "ssd"}),
        pod("guest", "guest", "large", cpu=2),
        pod("big", "big", cpu=4, spec={"nodeSelector": {"disk": "ssd"}}),
    )
    found = optimise(cluster, PENDING)
    assert found.moves == [("default/guest", "large", "small"), ("default/big", "", "large")]


def test_two_pods_change_places_while_one_of_them_waits() -> None:
    """Only the small pod can be on the small node, and both nodes are full until one pod has left."""
    cluster = Cluster(
        make_node("small", cpu=1),
        make_node("large", cpu=4, labels={"disk": "ssd"}),
        pod("tiny", "tiny", "large", cpu=1),
        pod("other", "other", "small", cpu=1, spec={"nodeSelector": {"size": "any"}}),  # runs, but may go nowhere else
        pod("new", "new", cpu=4, spec={"nodeSelector": {"disk": "ssd"}}),
    )
    assert not optimise(cluster, PENDING).is_better  # the small node is taken for good
    cluster.add(pod("other", "other", "small", cpu=1))  # now it could leave, but only for the large node
    assert not optimise(cluster, PENDING).is_better
    cluster.remove("pod/default/other")
    assert optimise(cluster, PENDING).moves == [("default/tiny", "large", "small"), ("default/new", "", "large")]


def test_full_nodes_exchange_pods() -> None:
    """Each pod may only be on the other's node, which is full: one must be evicted before its new node has room."""
    cluster = Cluster(make_node("a", cpu=2, labels={"disk": "ssd"}), make_node("b", cpu=2, labels={"gpu": "yes"}))
    cluster.add(pod("wants-gpu", "x", "a", cpu=2), pod("wants-ssd", "y", "b", cpu=2))
    session = mooring.Scheduler(cluster).session.fork()
    x, y = (session.state.pod(f"uid-default-{name}") for name in ("wants-gpu", "wants-ssd"))
    assert x is not None and y is not None
    replay = MoveReplay(session)
    assert replay.run([Move(x, "a", "b"), Move(y, "b", "a")])
    assert [step.action for step in replay.steps] == [EVICT, EVICT, BIND, BIND]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param({"metadata": {}}, "no controller", id="without a controller"),
        pytest.param(
            {"metadata": {**OWNER, "annotations": {"karpenter.sh/do-not-disrupt": "true"}}},
            "karpenter.sh/do-not-disrupt",
            id="with an annotation that forbids it",
        ),
        pytest.param({"spec": {"volumes": [{"name": "d", "emptyDir": {}}]}}, "emptyDir", id="with data in an emptyDir"),
        pytest.param(
            {"spec": {"volumes": [{"name": "d", "hostPath": {"path": "/d"}}]}}, "hostPath", id="with a hostPath"
        ),
    ],
)
def test_pods_that_must_stay(more: dict[str, Any], why: str) -> None:
    fields = {"metadata": OWNER, "labels": {"app": "x"}, **more}
    cluster = Cluster(
        make_node("a"), make_node("b"), make_pod("x", node="a", cpu=1, **fields), pod("y", "y", "b", cpu=1)
    )
    found = optimise(cluster)
    assert why in found.stay["default/x"]
    assert [move[0] for move in found.moves] == ["default/y"]


def test_a_budget_is_never_exceeded_on_the_way() -> None:
    cluster = Cluster(*(make_node(f"n{i}", cpu=4) for i in range(4)))
    cluster.add(*(pod(f"p{i}", node=f"n{i}", cpu=1) for i in range(4)))
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    cluster.add(make_object("PodDisruptionBudget", "web", "default", spec=spec, status={"disruptionsAllowed": 1}))
    found = optimise(cluster)
    down: set[str] = set()
    for step in found.steps:
        (down.add if step.action == EVICT else down.discard)(step.pod)
        assert len(down) <= 1
    assert found.after.nodes == 1


def test_less_important_pods_lose_their_place_only_if_asked() -> None:
    cluster = Cluster(
        make_node("a", cpu=2), pod("low", "low", "a", cpu=2, priority=0), pod("high", "high", cpu=2, priority=10)
    )
    assert not optimise(cluster, PENDING).is_better
    found = optimise(cluster, PENDING, preempt=True)
    assert (found.evicted, found.moves) == (["default/low"], [("default/high", "", "a")])


def test_the_cheaper_nodes_are_kept() -> None:
    cluster = Cluster(make_node("dear"), make_node("cheap"), pod("p", node="dear", cpu=1))
    found = optimise(cluster, COST, prices={"dear": 3, "cheap": 1})
    assert (found.before.cost, found.after.cost, found.bound) == (3, 1, 1)


def test_max_moves_is_respected() -> None:
    cluster = Cluster(*(make_node(f"n{i}") for i in range(4)), *(pod(f"p{i}", node=f"n{i}", cpu=1) for i in range(4)))
    assert len(optimise(cluster, max_moves=2).moves) == 2


def test_a_cluster_in_parts_has_a_bound_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(*(make_node(f"n{i}") for i in range(6)), *(pod(f"p{i}", node=f"n{i}", cpu=2) for i in range(6)))
    monkeypatch.setattr("mooring.ask.optimise.MAX_CELLS", 3)
    found = optimise(cluster)
    assert (found.after.nodes, found.bound, found.is_optimal) == (4, 3.0, False)
    assert "2 parts" in found.notes[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"objective": "node"}, "did you mean nodes", id="an objective that does not exist"),
        pytest.param({"objective": "cost"}, "cost needs prices", id="cost without prices"),
        pytest.param({"objective": "cost", "prices": {"b": 1}}, "no price for node a", id="a node without a price"),
        pytest.param({"objective": "cost", "prices": {"a": "x"}}, "expected a price", id="a price that is no number"),
        pytest.param({"objective": "cost", "prices": {"a": -1}}, "0 or more", id="a price below zero"),
    ],
)
def test_wrong_questions(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        optimise(Cluster(make_node("a"), pod("p", node="a")), **arguments)


def test_the_cluster_is_unchanged() -> None:
    cluster = Cluster(make_node("a"), make_node("b"), pod("x", node="a", cpu=1), pod("y", node="b", cpu=1))
    found: Optimisation = optimise(cluster)
    assert found.is_better
    assert sorted(each.spec.node_name for each in cluster.pods) == ["a", "b"]


def test_what_is_printed() -> None:
    cluster = Cluster(make_node("a"), make_node("b"), pod("x", node="a", cpu=1), pod("y", node="b", cpu=1))
    text = str(optimise(cluster))
    assert text.splitlines()[0] == "A better placement frees 1 of 2 nodes, with 1 move"
    assert "No placement is better." in text
    assert set(OBJECTIVES) == {NODES, COST, SPREAD, PENDING}


def test_pods_of_a_group_are_not_placed_one_by_one() -> None:
    cluster = Cluster(make_node("a", cpu=2), *(make_pod(f"g{i}", cpu=1, group="train") for i in range(3)))
    found = optimise(cluster, PENDING)
    assert not found.is_better
    assert found.notes == ["3 pending pods of pod groups left out: a group is placed as a whole"]
    assert str(found).splitlines()[:2] == ["No better placement was found", "None exists."]


def test_ctrl_c_while_the_solver_runs_keeps_what_it_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Program._run

    def interrupted(program: Program, solver: Any) -> None:
        run(program, solver)
        program.was_interrupted = True

    monkeypatch.setattr(Program, "_run", interrupted)
    cluster = Cluster(make_node("a"), make_node("b"), pod("x", node="a", cpu=1), pod("y", node="b", cpu=1))
    found = optimise(cluster)
    assert (found.after.nodes, found.is_optimal) == (1, False)
    assert "interrupted" in found.notes[0]
