"""Failures: what people read, and what the queue needs to know."""

from __future__ import annotations

import pytest

from mooring.core.framework.status import Code, Status
from mooring.live.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from mooring.testing import decide, make_node, make_pod


def test_a_refusal_by_all_nodes_names_the_plugins_that_refused():
    failure = Failure.of_decision(decide(make_pod("big", cpu="9"), make_node("a")))
    assert (failure.reason, failure.is_rejection, failure.is_fit_error) == (UNSCHEDULABLE, True, True)
    assert failure.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert failure.unschedulable_plugins == {"NodeResourcesFit"}
    assert failure.nominated_node == "", "a promise is taken back"


def test_a_failed_decision_is_an_error_without_plugins():
    broken = make_pod("broken", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]})
    failure = Failure.of_decision(decide(broken, make_node("a")))
    assert (failure.reason, failure.is_rejection) == (SCHEDULER_ERROR, False)
    assert failure.unschedulable_plugins == failure.pending_plugins == frozenset()


@pytest.mark.parametrize(
    ("status", "on_node", "want"),
    [
        pytest.param(
            Status(Code.UNSCHEDULABLE, ("full",), "Fit"),
            True,
            Failure(UNSCHEDULABLE, "0/1 nodes are available: 1 full.", frozenset({"Fit"}), is_fit_error=True),
            id="a refusal of the chosen node reads like one of many nodes",
        ),
        pytest.param(
            Status(Code.PENDING, ("later",), "Gate"),
            True,
            Failure(
                UNSCHEDULABLE, "0/1 nodes are available: 1 later.", frozenset(), frozenset({"Gate"}), is_fit_error=True
            ),
            id="one that waits for something is pending",
        ),
        pytest.param(
            Status(Code.UNSCHEDULABLE, (), "Fit"),
            True,
            Failure(UNSCHEDULABLE, "0/1 nodes are available:", frozenset({"Fit"}), is_fit_error=True),
            id="a refusal without a word",
        ),
        pytest.param(
            Status(Code.UNSCHEDULABLE, ("b", "a", "b"), "Fit"),
            True,
            Failure(UNSCHEDULABLE, "0/1 nodes are available: 1 a, 2 b.", frozenset({"Fit"}), is_fit_error=True),
            id="reasons are counted and sorted",
        ),
        pytest.param(
            Status(Code.UNSCHEDULABLE, ("gone",), "PreBinder"),
            False,
            Failure(UNSCHEDULABLE, "gone"),
            id="a refusal while binding wakes by time alone",
        ),
        pytest.param(
            Status.error("no answer"), True, Failure(SCHEDULER_ERROR, "no answer"), id="an error is an error anywhere"
        ),
    ],
)
def test_a_failure_after_the_decision(status, on_node, want):
    assert Failure.of_status(status, on_node=on_node) == want


def test_a_mistake_of_our_own_names_its_type():
    failure = Failure.of_error(KeyError("web"))
    assert (failure.reason, failure.message) == (SCHEDULER_ERROR, "KeyError: 'web'")
