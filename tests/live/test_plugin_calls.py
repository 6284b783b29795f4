"""Calling plugins after the decision: which calls run concurrently, and what is left to do after a failure."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extender import ExtenderError
from mooring.core.framework.interfaces import PreFlight
from mooring.core.framework.registry import resolve
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, SKIP, SUCCESS, Code, Status
from mooring.core.state.cluster import ClusterState
from mooring.live import failure, schedule_one
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
    pod = make_cluster().info(make_pod("web"))
    told = [plugin for plugin in plugins if plugin.after_failure is not None]
    profile = SimpleNamespace(pre_bind=plugins, told_of_failures=told, observer=None)
    return SimpleNamespace(
        profile=profile, state=CycleState(), pod=pod, node_name="a", clock=VirtualClock(), info=pod.pod
    )


BESIDE, ALONE = PreFlight(SUCCESS, allow_parallel=True), PreFlight(SUCCESS)
IDLE_BESIDE, IDLE_ALONE = PreFlight(SKIP, allow_parallel=True), PreFlight(SKIP)


@pytest.mark.parametrize(
    ("flights", "groups"),
    [
        pytest.param([], [], id="none"),
        pytest.param([ALONE, ALONE], ["A", "B"], id="one after another"),
        pytest.param([BESIDE, BESIDE], ["AB"], id="side by side"),
        pytest.param([None, BESIDE], ["A", "B"], id="without a pre-flight a plugin runs alone"),
        pytest.param([BESIDE, ALONE, BESIDE, BESIDE], ["A", "B", "CD"], id="one in between separates"),
        pytest.param([IDLE_ALONE, IDLE_BESIDE], [], id="nothing to do"),
        pytest.param([BESIDE, IDLE_BESIDE, BESIDE], ["AC"], id="one that has nothing to do does not separate"),
        pytest.param([BESIDE, IDLE_ALONE, BESIDE], ["A", "C"], id="unless it wants to be alone, as upstream has it"),
    ],
)
def test_which_pre_bind_plugins_run_in_parallel(flights: list[Any], groups: list[str]) -> None:
    plugins = [pre_binder(name, flight) for name, flight in zip("ABCD", flights, strict=False)]
    status, found = schedule_one.pre_flights(placement(*plugins))
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
    status, groups = schedule_one.pre_flights(placement(pre_binder("A", flight), pre_binder("B", BESIDE)))
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
    ((plugin, left),) = failure.after_failure(at.profile, at.state, at.pod)
    assert plugin == "Busy" and done == []
    await left
    assert done == ["web in CycleState"]
    (record,) = caplog.records
    assert record.getMessage() == "AfterFailure failed"
    assert (record.values["plugin"], record.values["pod"]) == ("Broken", "default/web")


# ---- one after another -------------------------------------------------------------------------------------------


def plugin(name: str, **methods: Any) -> Any:
    """A plugin whose methods give these answers, or raise them."""

    def answer(value: Any, is_async: bool) -> Any:
        def call(self: Any, state: CycleState, pod: Any, node_name: str) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        async def wait(self: Any, state: CycleState, pod: Any, node_name: str) -> Any:
            return call(self, state, pod, node_name)

        return wait if is_async else call

    made = {method: answer(value, method in ("bind", "pre_bind")) for method, value in methods.items()}
    return resolve(type(name, (), {"name": name, **made})())


class Points:
    """A profile's observer that writes down which extension points ended how."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def extension_point(self, point: str, status: str, seconds: float) -> None:
        self.ended.append((point, status))


def placed(**points: Any) -> Any:
    at = placement()
    for point, plugins in points.items():
        setattr(at.profile, point, plugins)
    at.profile.run_unreserve = partial(Profile.run_unreserve, at.profile)
    at.profile.observer = Points()
    at.profile.scheduler_name = "default-scheduler"
    at.extenders, at.info = (), SimpleNamespace(key="default/web")
    return at


def told(status: Status) -> str:
    return re.sub(r" \(test_plugin_calls\.py:\d+\)$", "", status.message)


NO, BROKEN, WAIT = Status.unschedulable("no"), Status.error("broken"), Status(Code.WAIT)


@pytest.mark.parametrize(
    ("answers", "code", "message", "waits", "ends"),
    [
        pytest.param([], Code.SUCCESS, "", {}, "Success", id="no plugin is asked"),
        pytest.param([(SUCCESS, 0.0)], Code.SUCCESS, "", {}, "Success", id="all allow"),
        pytest.param([(WAIT, 5.0), (SUCCESS, 0.0)], Code.SUCCESS, "", {"A": 5.0}, "Wait", id="one lets it wait"),
        pytest.param([(WAIT, 5.0), (WAIT, 9.0)], Code.SUCCESS, "", {"A": 5.0, "B": 9.0}, "Wait", id="two let it wait"),
        pytest.param([(WAIT, 5.0), (NO, 0.0)], Code.UNSCHEDULABLE, "no", {}, "Unschedulable", id="a refusal counts"),
        pytest.param(
            [(BROKEN, 0.0)], Code.ERROR, 'running Permit plugin "A": broken', {}, "Error", id="an error ends it"
        ),
        pytest.param(
            [ValueError("odd")], Code.ERROR, 'running Permit plugin "A": ValueError: odd', {}, "Error", id="it raises"
        ),
    ],
)
def test_permit(answers: Any, code: Code, message: str, waits: Any, ends: str) -> None:
    at = placed(permit=[plugin(name, permit=answer) for name, answer in zip("AB", answers, strict=False)])
    status, found = schedule_one.permit(at)
    assert (status.code, told(status), found) == (code, message, waits)
    assert at.profile.observer.ended == [("Permit", ends)]


@pytest.mark.parametrize(
    ("answers", "code", "message"),
    [
        pytest.param([SUCCESS], Code.SUCCESS, "", id="the first binds"),
        pytest.param([SKIP, SUCCESS], Code.SUCCESS, "", id="the second binds what the first skips"),
        pytest.param([NO, SUCCESS], Code.UNSCHEDULABLE, "no", id="a refusal is the end"),
        pytest.param([BROKEN], Code.ERROR, 'running Bind plugin "A": broken', id="an error is the end"),
        pytest.param([ValueError("odd")], Code.ERROR, 'running Bind plugin "A": ValueError: odd', id="it raises"),
        pytest.param([SKIP, SKIP], Code.ERROR, "all Bind plugins skipped the pod", id="no observer wants it"),
        pytest.param([], Code.ERROR, "no Bind plugin in the profile default-scheduler", id="there is none"),
    ],
)
async def test_bind(answers: Any, code: Code, message: str) -> None:
    at = placed(bind=[plugin(name, bind=answer) for name, answer in zip("AB", answers, strict=False)])
    status = await schedule_one.bind(at)
    assert (status.code, told(status)) == (code, message)
    assert at.profile.observer.ended == [("Bind", CODE_NAMES[code])]


class Binder:
    """An extender that binds, or fails to."""

    name, is_binder = "http://a", True

    def __init__(self, error: str = "", *, ignorable: bool = False, interested: bool = True) -> None:
        self.error, self.is_ignorable, self.interested = error, ignorable, interested
        self.bound: list[str] = []

    def is_interested(self, pod: Any) -> bool:
        return self.interested

    def bind(self, pod: Any, node_name: str) -> None:
        if self.error:
            raise ExtenderError(self.error)
        self.bound.append(node_name)


@pytest.mark.parametrize(
    ("extender", "by_extender", "code"),
    [
        pytest.param(Binder(), True, Code.SUCCESS, id="an extender goes before plugins"),
        pytest.param(Binder(interested=False), False, Code.SUCCESS, id="unless the pod is none of its business"),
        pytest.param(Binder("no answer", ignorable=True), False, Code.SUCCESS, id="or it may fail"),
        pytest.param(Binder("no answer"), False, Code.ERROR, id="one that may not fail ends the binding"),
    ],
)
async def test_an_extender_that_binds(extender: Binder, by_extender: bool, code: Code) -> None:
    at = placed(bind=[plugin("A", bind=SUCCESS)])
    at.extenders = (extender,)
    status = await schedule_one.bind(at)
    assert status.code is code and extender.bound == ["a"] * by_extender
    assert at.profile.observer.ended == [("Bind", CODE_NAMES[code])]


@pytest.mark.parametrize(
    ("answer", "code", "message", "by"),
    [
        pytest.param(SUCCESS, Code.SUCCESS, "", "A", id="done"),
        pytest.param(NO, Code.UNSCHEDULABLE, "no", "A", id="a refusal is signed"),
        pytest.param(BROKEN, Code.ERROR, 'running PreBind plugin "A": broken', "A", id="an error"),
        pytest.param(ValueError("odd"), Code.ERROR, 'running PreBind plugin "A": ValueError: odd', "A", id="it raises"),
    ],
)
async def test_pre_bind(answer: Any, code: Code, message: str, by: str) -> None:
    status = await schedule_one.pre_bind(plugin("A", pre_bind=answer), placed())
    assert (status.code, told(status)) == (code, message)
    assert status.is_success or status.plugin == by


TAKE_BACK = partial(schedule_one.take_back, ClusterState())


@pytest.mark.parametrize(
    ("call", "point", "method", "attribute"),
    [
        pytest.param(
            partial(schedule_one.take_back, ClusterState()), "Unreserve", "unreserve", "reserve", id="Unreserve"
        ),
        pytest.param(schedule_one.post_bind, "PostBind", "post_bind", "post_bind", id="PostBind"),
    ],
)
def test_after_a_failure_without_a_listener_the_others_continue(
    call: Any, point: str, method: str, attribute: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def noting(name: str, *, fails: bool) -> Any:
        def act(self: Any, state: CycleState, pod: Any, node_name: str) -> None:
            asked.append(name)
            if fails:
                raise ValueError("odd")

        methods = {method: act}
        if method == "unreserve":
            methods["reserve"] = act
        return resolve(type(name, (), {"name": name, **methods})())

    at = placed(**{attribute: [noting("A", fails=False), noting("B", fails=True), noting("C", fails=False)]})
    call(at)
    assert asked == (["C", "B", "A"] if method == "unreserve" else ["A", "B", "C"])
    (record,) = caplog.records
    assert record.getMessage() == f"{point} failed"
    assert record.values["err"].startswith("ValueError: odd (test_plugin_calls.py:")
    assert (record.values["plugin"], record.values["pod"]) == ("B", "default/web")
    assert at.profile.observer.ended == [(point, "Success")], "as upstream says"


def test_pods_to_activate_are_taken_out_once() -> None:
    at, wanted = placed(), make_pod("next")
    at.to_activate = {"a": wanted}
    assert schedule_one.pods_to_activate(at) == [wanted]
    assert schedule_one.pods_to_activate(at) == []
