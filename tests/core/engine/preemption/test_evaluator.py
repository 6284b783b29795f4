"""Which pods may preempt, and the messages of refused preemptions."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.testing import Scheduler, make_node, make_pod

TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def going(*, reason: str = "PreemptionByScheduler", status: str = "True", priority: int = 0) -> Any:
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    return make_pod(
        "going", node="a", cpu="4", priority=priority, metadata=TERMINATING, status={"conditions": [condition]}
    )


def refusal(running: Any, **pod: Any) -> str:
    scheduler = Scheduler(make_node("a"), running)
    decision = scheduler.decide(make_pod("new", cpu="4", priority=10, **pod))
    assert not decision.node
    return decision.message.partition("preemption: ")[2]


@pytest.mark.parametrize(
    ("running", "pod", "wanted"),
    [
        pytest.param(
            make_pod("p", node="a", cpu="4"),
            {"spec": {"preemptionPolicy": "Never"}},
            "not eligible due to preemptionPolicy=Never.",
            id="its policy forbids it",
        ),
        pytest.param(
            going(),
            {"status": {"nominatedNodeName": "a"}},
            "not eligible due to a terminating pod on the nominated node.",
            id="its victims are still going",
        ),
        pytest.param(
            make_pod("p", node="a", cpu="4", priority=10),
            {},
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="all others are as important",
        ),
    ],
)
def test_why_no_pod_is_evicted(running: Any, pod: dict[str, Any], wanted: str) -> None:
    assert refusal(running, **pod) == wanted


@pytest.mark.parametrize(
    "running",
    [
        pytest.param(going(reason="EvictionByEvictionAPI"), id="evicted by another client"),
        pytest.param(going(status="False"), id="no longer a target"),
        pytest.param(make_pod("going", node="a", cpu="4", metadata=TERMINATING), id="deleted for another reason"),
    ],
)
def test_pods_that_go_for_other_reasons_are_not_waited_for(running: Any) -> None:
    assert refusal(running, status={"nominatedNodeName": "a"}) == ""


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_random_numbers_and_messages_do_not_depend_on_lower_priority_pods_elsewhere(is_elsewhere: bool) -> None:
    """If no pod of the cluster has a lower priority, no node is examined."""
    nodes = [make_node(name) for name in ("a", "b")]
    running = [make_pod(f"on-{node.metadata.name}", node=node.metadata.name, cpu="4", priority=10) for node in nodes]
    cordoned = make_node("cordoned", unschedulable=True)
    other = make_pod("other", node="cordoned", priority=0 if is_elsewhere else 10)
    scheduler = Scheduler(*nodes, cordoned, *running, other)
    drawn: list[int] = []

    def pick(number: int) -> int:
        drawn.append(number)
        return 0

    for profile in scheduler.profiles.values():
        profile.plugins["DefaultPreemption"].plugin._handle.pick = pick
    message = scheduler.decide(make_pod("new", cpu="4", priority=10)).message
    assert message.partition("preemption: ")[2] == (
        "0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )
    assert drawn == [2]
