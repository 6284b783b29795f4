"""SchedulingGates (spec 2.2)."""

from __future__ import annotations

import pytest

from mooring.core.framework.status import Code
from mooring.core.plugins.scheduling_gates import SchedulingGates
from mooring.testing import make_cluster, make_handle, make_pod


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        pytest.param([], "", id="no gates"),
        pytest.param(["a"], "waiting for scheduling gates: [a]", id="one gate"),
        pytest.param(["b", "a"], "waiting for scheduling gates: [b a]", id="gates in their order"),
    ],
)
def test_gates_hold_a_pod_back(gates: list[str], message: str) -> None:
    pod = make_pod(spec={"schedulingGates": [{"name": name} for name in gates]})
    status = SchedulingGates(None, make_handle(make_cluster())).pre_enqueue(pod)
    assert status.message == message
    assert status.code is (Code.UNSCHEDULABLE_AND_UNRESOLVABLE if gates else Code.SUCCESS)
