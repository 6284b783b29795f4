"""Better placements: as good as trying everything, and reached by steps that every filter allows."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mooring
from mooring.api.errors import InputError
from mooring.ask.moves import BIND, EVICT, Move, MoveReplay
from mooring.ask.optimise import Optimisation, optimise
from mooring.ask.placement_options import (
    COST,
    FRAGMENTATION,
    NODES,
    OBJECTIVES,
    PENDING,
    SOLVERS,
    SPREAD,
    PlacementGoal,
)
from mooring.ask.placement_program import Program
from mooring.core.cluster import Cluster
from mooring.core.plugins.gpus.requests import COUNT, INDEX, MILLI
from mooring.testing import make_node, make_object, make_pod
from tests.ask.every_placement import OWNER, Better, TooMany, check, pod, random_cluster

# ---- as good as trying everything ----------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_no_placement_is_better_than_the_one_that_is_found(seed: int) -> None:
    with suppress(TooMany):
        assert check(seed, most_nodes=6, most_pods=9) == ""


def test_the_proof_finds_what_is_better_than_nothing() -> None:
    """Half-empty nodes, and the claim that they stay as they are: the search must find the way out."""
    cluster = Cluster(*(make_node(f"n{i}") for i in range(3)), *(pod(f"p{i}", node=f"n{i}", cpu=1) for i in range(3)))
    nothing = optimise(cluster, max_moves=0)
    assert Better(cluster, NODES, nothing).find() is not None
    assert Better(cluster, NODES, optimise(cluster)).find() is None


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_two_solvers_give_the_same_answer(seed: int) -> None:
    pytest.importorskip("ortools", reason="pip install 'mooring[cpsat]'")
    chance = random.Random(seed)
    cluster, objective = random_cluster(chance, 4, 8), chance.choice([NODES, PENDING, SPREAD, FRAGMENTATION])
    goal = PlacementGoal(objective, lambda name: 1.0)
    answers = [optimise(cluster, objective, solver=solver) for solver in SOLVERS]
    ranks = {(*goal.rank(each.after, len(each.steps)), each.is_optimal, each.bound) for each in answers}
    assert len(ranks) == 1


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
    monkeypatch.setattr("mooring.ask.placement_search.MAX_CELLS", 3)
    monkeypatch.setattr("mooring.ask.placement_search.MIN_NODES", 1)
    found = optimise(cluster)
    assert (found.after.nodes, found.bound) == (3, 3.0)
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
    assert set(OBJECTIVES) == {NODES, COST, SPREAD, FRAGMENTATION, PENDING}


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


def test_room_for_a_large_pod_is_made_by_moving_small_ones() -> None:
    cluster = Cluster(*(make_node(f"n{i}", cpu=4) for i in range(3)))
    cluster.add(*(pod(f"small{i}", node=f"n{i}", cpu=1) for i in range(2)), pod("large", "large", "n2", cpu=4))
    found = optimise(cluster, FRAGMENTATION)
    assert (found.before.room, found.after.room, found.bound, found.is_optimal) == (0, 1, 1.0, True)
    assert "makes room for 1 more large pod" in str(found)
    assert optimise(cluster, FRAGMENTATION, room_for="default/small0").after.room == 6


def test_pods_count_by_what_they_request_if_asked() -> None:
    """Two small pods fit, or one large one, which requests more."""
    cluster = Cluster(make_node("a", cpu=4), pod("large", "l", cpu=4), pod("s1", "s", cpu=1), pod("s2", "s", cpu=1))
    assert sorted(pod for pod, _, _ in optimise(cluster, PENDING).moves) == ["default/s1", "default/s2"]
    found = optimise(cluster, PENDING, weigh="cpu")
    assert [pod for pod, _, _ in found.moves] == ["default/large"]
    assert (found.before.weight, found.after.weight) == ({0: 0}, {0: 4000})


def test_pods_without_a_controller_move_only_by_force() -> None:
    cluster = Cluster(*(make_node(name) for name in "ab"), *(make_pod(name, node=name, cpu=1) for name in "ab"))
    assert not optimise(cluster).is_better
    assert optimise(cluster, force=True).after.nodes == 1


def test_shares_of_gpus_are_part_of_the_program() -> None:
    """Three pods with 600 thousandths each ask for 1.8 GPUs, and no two of them share one."""

    def sharing(name: str, milli: int, node: str = "", index: str = "0") -> Any:
        notes = {MILLI: str(milli), **({INDEX: index} if node else {})}
        return make_pod(name, node=node, cpu=1, metadata={**OWNER, "annotations": notes})

    gpus = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}}}]}
    nodes = [make_node(name, cpu=8, allocatable={COUNT: "2"}) for name in "ab"]
    cluster = Cluster(*nodes, sharing("p1", 600, "a", "0"), sharing("p2", 600, "a", "1"), sharing("p3", 600, "b"))
    assert not optimise(cluster, config=gpus).is_better
    cluster.add(sharing("whole", 1000), sharing("another", 1000))
    found = optimise(cluster, PENDING, config=gpus)
    assert (found.after.placed, found.is_optimal) == ({0: 4}, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"solver": "glpk"}, "solver: found 'glpk'", id="a solver that is not known"),
        pytest.param({"room_for": "default/p"}, "belongs to the objective fragmentation", id="room without asking"),
        pytest.param({"time_limit": 3}, "no option time_limit; did you mean time_limit_s", id="an unknown option"),
    ],
)
def test_options_that_make_no_sense(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        optimise(Cluster(make_node("a"), pod("p", node="a")), **arguments)
