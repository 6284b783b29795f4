"""What DynamicResources remembers of one attempt."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.core import ContainerExtendedResourceRequest, NodeSelector
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Status
from mooring.core.plugins.devices.allocator import (
    KEY,
    ClaimAttempt,
    NodeTask,
    attempt_of,
    binding_problem,
    chosen_devices,
)
from mooring.core.plugins.devices.search import NodeSolution
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_selector import CompiledNodeSelector, compile_node_selector
from mooring.testing import make_node

from .builders import allocation, claim, exactly

NO = Status.unresolvable("no")
BROKEN = Status.error("broken")


def only_on(name: str) -> CompiledNodeSelector:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return compile_node_selector(msgspec.convert({"nodeSelectorTerms": [{"matchFields": [field]}]}, NodeSelector))


def test_verdicts_are_numbered_by_reason() -> None:
    attempt = ClaimAttempt()
    assert [attempt.number_of(status) for status in (None, NO, BROKEN, NO)] == [0, 1, 2, 1]
    assert (list(attempt.reasons), attempt.errors) == ([NO, BROKEN], {2})


@pytest.mark.parametrize(
    ("available_on", "stuck", "want"),
    [
        pytest.param([None], set(), {}, id="a claim without allocation"),
        pytest.param([only_on("a")], set(), {0: ["b", "c"]}, id="a claim of one node"),
        pytest.param([None, only_on("a"), only_on("b")], set(), {1: ["b", "c"], 2: ["a", "c"]}, id="two claims"),
        pytest.param([None], {0}, {0: ["a", "b", "c"]}, id="a claim whose devices do not become ready"),
    ],
)
def test_where_allocated_claims_cannot_be_used(
    available_on: list[CompiledNodeSelector | None], stuck: set[int], want: dict[int, list[str]]
) -> None:
    cluster = ClusterState()
    for name in "abc":
        cluster.put(make_node(name))
    nodes = cluster.snapshot()
    found = ClaimAttempt(available_on=available_on, stuck=stuck).blocked(nodes)
    names = [info.name for info in nodes.infos]
    assert {index: [n for n, hit in zip(names, mask, strict=True) if hit] for index, mask in found} == want


def test_claims_without_allocation_are_to_be_allocated() -> None:
    held, new = claim(exactly(), name="held"), claim(exactly(), name="new")
    held.status.allocation = allocation()
    attempt = ClaimAttempt(claims=[held, new])
    assert [(i, each.name) for i, each in attempt.to_allocate()] == [(1, "new")]


@pytest.mark.parametrize(
    ("task", "text"),
    [
        pytest.param(None, "", id="a node that was not searched"),
        pytest.param(NodeTask(None, [], None), "", id="no claim for extended resources"),
        pytest.param(
            NodeTask(claim(), [ContainerExtendedResourceRequest("m", "x", "r")], None), "", id="a claim with users"
        ),
        pytest.param(
            NodeTask(claim(), [], None),
            "nil or empty request mappings, no update of pod ns/p ExtendedResourceClaimStatus",
            id="a claim that no container uses",
        ),
    ],
)
def test_what_binding_would_fail_with(task: NodeTask | None, text: str) -> None:
    attempt = ClaimAttempt()
    if task is not None:
        attempt.node_allocations["n"] = (NodeSolution(None, "n", []), task)  # type: ignore[arg-type]
    state = CycleState()
    state.write(KEY, attempt)
    assert binding_problem(state, "ns/p", "n") == text


def test_without_an_attempt_there_is_nothing_to_say() -> None:
    state = CycleState()
    assert (attempt_of(state), binding_problem(state, "ns/p", "n"), chosen_devices(state, "p", "n")) == (None, "", {})
