"""A gated pod that is nominated: whether it holds its place, by version."""

from __future__ import annotations

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.profile import QueueProfile
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue
from tests.core.queue.conftest import Gate, make_info


@pytest.mark.parametrize(
    ("holds", "gated", "named"),
    [
        pytest.param(False, True, [], id="until 1.36 a gated pod holds nothing"),
        pytest.param(True, True, ["p"], id="since 1.37 it does"),
        pytest.param(False, False, ["p"], id="a pod that is not gated always does"),
        pytest.param(True, False, ["p"], id="and is not counted twice"),
    ],
)
def test_a_nomination_before_the_gates(holds: bool, gated: bool, named: list[str]) -> None:
    pod = make_info("p", nominated="a")
    door = Gate("Door", {"p"} if gated else set())
    nominator = QueueNominator(known={pod.pod.key: pod.pod}.get)
    profile = QueueProfile("default-scheduler", pre_enqueue=(door,))  # type: ignore[arg-type]
    options = QueueOptions(gated_hold_nomination=holds)
    queue = SchedulingQueue([profile], VirtualClock(0), options=options, nominator=nominator)
    queue.add(pod)
    assert [each.pod.metadata.name for each in nominator.nominated_pods("a")] == named
