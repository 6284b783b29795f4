"""The lowest priority that makes room, found among those of the running pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.config.load import default_config
from mooring.core.explain.remedies import WhatIf, lowest_priority
from mooring.core.session import open_session
from mooring.testing import make_cluster, make_node, make_pod


def found(pod: Any, *objects: Any) -> tuple[str, float] | None:
    what_if = WhatIf(open_session(default_config(), make_cluster(*objects)), "default-scheduler", pod)
    suggestion = lowest_priority(what_if)
    return None if suggestion is None else (suggestion.text, suggestion.cost)


NODE = make_node("n", cpu=4)
PODS = [make_pod(f"p{i}", node="n", cpu="1", priority=10 * i) for i in range(4)]  # all of the node


@pytest.mark.parametrize(
    ("cpu", "priority", "want"),
    [
        pytest.param("1", -5, ("priority 1: evicts default/p0 from n", 6.0), id="above the least important pod"),
        pytest.param(
            "2", 0, ("priority 11: evicts default/p1, default/p0 from n", 7.0), id="above as many as are in the way"
        ),
        pytest.param(
            "4",
            0,
            ("priority 31: evicts default/p3, default/p2, default/p1 and 1 more from n", 9.0),
            id="above all of them",
        ),
        pytest.param("5", 0, None, id="no priority makes a node larger"),
    ],
)
def test_lowest_priority(cpu: str, priority: int, want: tuple[str, float] | None) -> None:
    assert found(make_pod("web", cpu=cpu, priority=priority), NODE, *PODS) == want


def test_a_pod_that_never_preempts_must_change_its_policy() -> None:
    pod = make_pod("web", cpu="1", priority=100, spec={"preemptionPolicy": "Never"})
    assert found(pod, NODE, *PODS) == (
        "priority 100 and preemptionPolicy PreemptLowerPriority: evicts default/p0 from n",
        6.0,
    )


def test_without_running_pods_there_are_no_victims() -> None:
    assert found(make_pod("web", cpu="5"), NODE) is None
