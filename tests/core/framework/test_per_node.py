"""Methods that look at one node at a time, called with the engine's values: what they are given, what becomes of it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from mooring.api.errors import PluginError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extension_points import METHODS
from mooring.core.framework.per_node import NodeView, NodeViews, Preemption, in_columns
from mooring.core.framework.status import SUCCESS, NodeStatuses, Status
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_cluster, make_node, make_pod

NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never")
STATE = CycleState()


@pytest.fixture
def cluster() -> ClusterState:
    running = make_pod("running", node="b", cpu="1")
    return make_cluster(make_node("a"), make_node("b"), make_node("c"), running)


def pod(cluster: ClusterState) -> Any:
    return cluster.info(make_pod("web"))


# ---- Filter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "statuses"),
    [
        pytest.param({"a": NO, "b": SUCCESS, "c": NEVER}, [NO, SUCCESS, NEVER], id="a status per node"),
        pytest.param({"a": NO, "b": NO, "c": Status.unschedulable("no")}, [NO, NO, NO], id="equal statuses"),
    ],
)
def test_statuses_become_a_verdict(cluster: ClusterState, answers: dict[str, Status], statuses: list[Status]) -> None:
    judge = in_columns("filter", lambda state, pod, node: answers[node.name])
    verdict = judge(STATE, pod(cluster), cluster.snapshot())
    assert [verdict.status_of(int(number)) for number in verdict.ids] == statuses
    assert len(set(verdict.ids.tolist()) - {0}) == len(set(statuses) - {SUCCESS}), "equal statuses share a number"


def test_where_all_nodes_pass_there_is_no_verdict(cluster: ClusterState) -> None:
    assert in_columns("filter", lambda *_: SUCCESS)(STATE, pod(cluster), cluster.snapshot()) is None


def test_a_filter_is_given_the_state_the_plain_pod_and_each_node(cluster: ClusterState) -> None:
    given: list[Any] = []

    def look(*arguments: Any) -> Status:
        given.append(arguments)
        return SUCCESS

    asked = pod(cluster)
    in_columns("filter", look)(STATE, asked, cluster.snapshot())
    assert [(state, plain, node.name) for state, plain, node in given] == [(STATE, asked.pod, n) for n in "abc"]
    assert all(isinstance(node, NodeView) for _, _, node in given)


@pytest.mark.parametrize("answer", [None, True, "no", 3], ids=repr)
def test_a_filter_that_answers_with_something_else(cluster: ClusterState, answer: Any) -> None:
    with pytest.raises(PluginError) as caught:
        in_columns("filter", lambda *_: answer)(STATE, pod(cluster), cluster.snapshot())
    assert str(caught.value) == f"filter returned {answer!r}, expected a Status such as sdk.SUCCESS"


# ---- Score -------------------------------------------------------------------------------------------------------


def test_numbers_become_a_column(cluster: ClusterState) -> None:
    score = in_columns("score", lambda state, pod, node: ord(node.name) if node.name != "b" else np.int64(7))
    scores = score(STATE, pod(cluster), cluster.snapshot())
    assert scores.dtype == np.int64 and scores.tolist() == [97, 7, 99]


@pytest.mark.parametrize("answer", [None, True, 1.5, "much"], ids=repr)
def test_a_score_that_is_no_whole_number(cluster: ClusterState, answer: Any) -> None:
    with pytest.raises(PluginError) as caught:
        in_columns("score", lambda *_: answer)(STATE, pod(cluster), cluster.snapshot())
    assert str(caught.value) == f"score returned {answer!r} for a, expected a whole number"


def test_scores_are_normalised_by_node_name(cluster: ClusterState) -> None:
    given: list[Any] = []

    def halve(state: CycleState, pod: Any, scores: dict[str, int]) -> dict[str, int]:
        given.append((pod.name, scores))
        return {name: score // 2 for name, score in reversed(scores.items())}

    normalize = in_columns("normalize", halve)
    scores = normalize(STATE, pod(cluster), np.array([10, 20, 30]), cluster.snapshot())
    assert given == [("web", {"a": 10, "b": 20, "c": 30})]
    assert scores.tolist() == [5, 10, 15], "names, not their order, say whose score it is"


def test_a_normalisation_that_forgets_a_node(cluster: ClusterState) -> None:
    normalize = in_columns("normalize", lambda state, pod, scores: {"a": 1, "c": 3})
    with pytest.raises(PluginError, match="normalize returned no score for b"):
        normalize(STATE, pod(cluster), np.array([1, 2, 3]), cluster.snapshot())


# ---- PostFilter --------------------------------------------------------------------------------------------------


def post_filtered(cluster: ClusterState, answer: Any) -> Any:
    nodes = cluster.snapshot()
    statuses = NodeStatuses.everywhere(nodes.table, NO)
    return in_columns("post_filter", lambda *_: answer)(STATE, pod(cluster), nodes, statuses)


def test_a_post_filter_status_nominates_no_pod(cluster: ClusterState) -> None:
    result = post_filtered(cluster, NO)
    assert (result.status, result.nominated_node, result.victims) == (NO, None, ())


@pytest.mark.parametrize(
    ("victims", "want"),
    [pytest.param((), [], id="no victims"), pytest.param(("running",), ["running"], id="one has to go")],
)
def test_room_is_made_on_a_node(cluster: ClusterState, victims: tuple[str, ...], want: list[str]) -> None:
    result = post_filtered(cluster, Preemption("b", tuple(make_pod(name, node="b") for name in victims)))
    assert (result.status, result.nominated_node) == (SUCCESS, "b")
    assert [victim.pod.name for victim in result.victims] == want
    assert all(victim is cluster.pod(victim.uid) for victim in result.victims), "the engine's own values"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(None, "post_filter returned None, expected a Status or an sdk.Preemption", id="nothing"),
        pytest.param("b", "post_filter returned 'b', expected a Status or an sdk.Preemption", id="a name"),
        pytest.param(Preemption("z"), "post_filter nominated 'z', which is not a node", id="an unknown node"),
        pytest.param(
            Preemption("a", (make_pod("running", node="b"),)),
            "post_filter names default/running as a victim, which is not on node a",
            id="a victim elsewhere",
        ),
    ],
)
def test_a_post_filter_that_answers_with_something_else(cluster: ClusterState, answer: Any, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        post_filtered(cluster, answer)
    assert str(caught.value) == message


def test_a_post_filter_sees_nodes_and_why_they_were_refused(cluster: ClusterState) -> None:
    nodes = cluster.snapshot()
    statuses = NodeStatuses.everywhere(nodes.table, NEVER)

    def look(state: CycleState, pod: Any, views: NodeViews, found: NodeStatuses) -> Status:
        assert pod.name == "web" and [view.name for view in views] == ["a", "b", "c"]
        return found.get("b")

    assert in_columns("post_filter", look)(STATE, pod(cluster), nodes, statuses).status == NEVER


# ---- all others --------------------------------------------------------------------------------------------------

PLAIN = [
    method
    for method in METHODS.values()
    if method.per_node is None and method.name != "post_filter" and not method.is_class_method
]


@pytest.mark.parametrize("method", [m for m in PLAIN if not m.is_async], ids=lambda method: method.name)
def test_other_methods_get_plain_pods_and_views(cluster: ClusterState, method: Any) -> None:
    given: list[Any] = []
    asked, nodes = pod(cluster), cluster.snapshot()
    values = {"state": STATE, "pod": asked, "nodes": nodes, "node_name": "a", "added": asked, "removed": asked}
    arguments = [values.get(name, name) for name in method.arguments]
    assert in_columns(method.name, lambda *a: given.extend(a) or "answer")(*arguments) == "answer"
    for name, value in zip(method.arguments, given, strict=True):
        if name in ("pod", "added", "removed"):
            assert value is asked.pod
        elif name == "nodes":
            assert isinstance(value, NodeViews) and [view.name for view in value] == ["a", "b", "c"]
        else:
            assert value is values.get(name, name)


@pytest.mark.parametrize("name", [m.name for m in PLAIN if m.is_async])
async def test_methods_that_wait_still_do(cluster: ClusterState, name: str) -> None:
    async def binds(state: CycleState, pod: Any, node_name: str) -> str:
        return f"{pod.name} to {node_name}"

    method = in_columns(name, binds)
    assert inspect.iscoroutinefunction(method)
    assert await method(STATE, pod(cluster), "a") == "web to a"


def test_a_method_keeps_its_name_and_words(cluster: ClusterState) -> None:
    def filter(state: CycleState, pod: Any, node: NodeView) -> Status:
        """Say no."""
        return NO

    found = in_columns("filter", filter)
    assert (found.__name__, found.__doc__) == ("filter", "Say no.")
