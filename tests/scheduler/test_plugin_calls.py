"""Calling plugins after the decision: who runs beside whom, and what is left to do after a failure."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.clock import VirtualClock
from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import PreFlight
from mooring.framework.resolved import resolve
from mooring.framework.status import SKIP, SUCCESS, Code, Status
from mooring.scheduler import plugin_calls
from mooring.testing import make_cluster, make_pod


def pre_binder(name: str, flight: Any = None) -> Any:
    async def pre_bind(self: Any, state: Any, pod: Any, node_name: str) -> Status:
        return SUCCESS

    def pre_bind_pre_flight(self: Any, state: Any, pod: Any, node_name: str) -> Any:
        if isinstance(flight, Exception):
            raise flight
        return flight

    methods: dict[str, Any] = {"pre_bind": pre_bind}
    if flight is not None:
        methods["pre_bind_pre_flight"] = pre_bind_pre_flight
    return resolve(type(name, (), {"name": name, **methods})())


def placement(*plugins: Any) -> Any:
    decision = SimpleNamespace(state=CycleState(), pod=make_cluster().info(make_pod("web")))
    profile = SimpleNamespace(pre_bind=plugins, plugins={plugin.name: plugin for plugin in plugins}, observer=None)
    return SimpleNamespace(
        profile=profile, decision=decision, pod=decision.pod, node_name="a", clock=VirtualClock(), info=decision.pod.pod
    )


BESIDE, ALONE = PreFlight(SUCCESS, allow_parallel=True), PreFlight(SUCCESS)
IDLE_BESIDE, IDLE_ALONE = PreFlight(SKIP, allow_parallel=True), PreFlight(SKIP)


@pytest.mark.parametrize(
    ("flights", "groups"),
    [
        pytest.param([], [], id="nobody"),
        pytest.param([ALONE, ALONE], ["A", "B"], id="one after another"),
        pytest.param([BESIDE, BESIDE], ["AB"], id="side by side"),
        pytest.param([None, BESIDE], ["A", "B"], id="without a pre-flight a plugin runs alone"),
        pytest.param([BESIDE, ALONE, BESIDE, BESIDE], ["A", "B", "CD"], id="one in between separates"),
        pytest.param([IDLE_ALONE, IDLE_BESIDE], [], id="nothing to do"),
        pytest.param([BESIDE, IDLE_BESIDE, BESIDE], ["AC"], id="one that has nothing to do does not separate"),
        pytest.param([BESIDE, IDLE_ALONE, BESIDE], ["A", "C"], id="unless it wants to be alone, as upstream has it"),
    ],
)
def test_who_runs_beside_whom_before_binding(flights: list[Any], groups: list[str]) -> None:
    plugins = [pre_binder(name, flight) for name, flight in zip("ABCD", flights, strict=False)]
    status, found = plugin_calls.pre_flights(placement(*plugins))
    assert status.is_success
    assert ["".join(plugin.name for plugin in group) for group in found] == groups


@pytest.mark.parametrize(
    ("flight", "message"),
    [
        pytest.param(PreFlight(Status.error("broken")), 'running PreBindPreFlight "A": broken', id="an error"),
        pytest.param(ValueError("odd"), 'running PreBindPreFlight "A": ValueError: odd', id="an exception"),
        pytest.param(
            PreFlight(Status.unschedulable("no")),
            'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
            id="a rejection, which comes too late here",
        ),
    ],
)
def test_a_pre_flight_that_ends_the_binding(flight: Any, message: str) -> None:
    status, groups = plugin_calls.pre_flights(placement(pre_binder("A", flight), pre_binder("B", BESIDE)))
    told = re.sub(r" \(test_plugin_calls\.py:\d+\)$", "", status.message)
    assert (status.code, told, status.plugin, groups) == (Code.ERROR, message, "A", [])


async def test_after_a_failure_plugins_say_what_is_left_to_do(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def gives_back(name: str, answer: Any) -> Any:
        def after_failure(self: Any, state: CycleState, pod: Any) -> Any:
            return answer(state, pod) if callable(answer) else answer

        return resolve(type(name, (), {"name": name, "after_failure": after_failure})())

    async def work(state: CycleState, pod: Any) -> None:
        done.append(f"{pod.pod.name} in {type(state).__name__}")

    def broken(state: CycleState, pod: Any) -> None:
        raise ValueError("odd")

    at = placement(
        gives_back("Idle", None), gives_back("Broken", broken), gives_back("Busy", work), pre_binder("Other", ALONE)
    )
    ((plugin, left),) = plugin_calls.after_failure(at.profile, at.decision)
    assert plugin == "Busy" and done == []
    await left
    assert done == ["web in CycleState"]
    (record,) = caplog.records
    assert record.getMessage() == "AfterFailure failed"
    assert (record.values["plugin"], record.values["pod"]) == ("Broken", "default/web")
