"""Calling plugins after the decision: whatever they raise becomes the pod's status, never the process's end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mooring.api.core import Pod
from mooring.core.engine.cycle import release
from mooring.core.framework.cycle_state import CycleError, CycleState, PluginTimer, problem_of
from mooring.core.framework.extender import ExtenderError
from mooring.core.framework.handle import CycleObserver
from mooring.core.framework.interfaces import PreFlight
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, SKIP, SUCCESS, Code, Status
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.attempt import PodPlacement
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics

log = get_logger("mooring.live")
T = TypeVar("T")

READY = PreFlight(SUCCESS)


def reserve(placement: PodPlacement) -> Status:
    """Run Reserve; the caller undoes a failure."""
    started = start(placement)
    try:
        status = placement.profile.run_reserve(placement.state, placement.pod, placement.node_name)
    except CycleError as error:
        status = error.status
    if started is not None:
        timed("Reserve", placement, status, started)
    return status


def take_back(cluster: ClusterState, placement: PodPlacement) -> None:
    """Undo what was reserved, whichever plugin fails, and what was assumed."""
    started = start(placement)
    for problem in release(cluster, placement.profile, placement.state, placement.pod):
        log.error(problem.message, "Unreserve failed", plugin=problem.plugin, pod=placement.info.key)
    if started is not None:
        timed("Unreserve", placement, SUCCESS, started)


def permit(placement: PodPlacement) -> tuple[Status, dict[str, float]]:
    """Ask all; a refusal or failure stops. The second value says for which plugins to wait, and how long."""
    if not placement.profile.permit:
        if placement.profile.observer is not None:
            nothing_done("Permit", placement.profile.observer)
        return SUCCESS, {}
    started = start(placement)
    status, waits = _permit(placement)
    if started is not None:
        timed("Permit", placement, Status(Code.WAIT) if waits else status, started)
    return status, waits


def _permit(placement: PodPlacement) -> tuple[Status, dict[str, float]]:
    waits: dict[str, float] = {}
    for plugin in placement.profile.permit:
        text = f'running Permit plugin "{plugin.name}": '
        try:
            status, seconds = _call(plugin.name, plugin.permit, placement)
        except Exception as error:
            return Status(Code.ERROR, (text + problem_of(error, plugin.permit),), plugin.name), {}
        if status.is_success:
            continue
        if status.is_rejected:
            return status.by(plugin.name), {}
        if status.code is not Code.WAIT:
            return Status(Code.ERROR, (text + status.message,), plugin.name), {}
        waits[plugin.name] = seconds
    return SUCCESS, waits


def pods_to_activate(placement: PodPlacement) -> list[Pod]:
    """Take out the pods that plugins want to be tried at once."""
    asked = placement.to_activate
    pods = [pod for pod in asked.values() if isinstance(pod, Pod)]
    if len(pods) != len(asked):
        log.error(None, "A plugin asked to activate something that is not a Pod", pod=placement.info.key)
    asked.clear()
    return pods


def pre_flights(placement: PodPlacement) -> tuple[Status, list[list[ResolvedPlugin]]]:
    """Ask which plugins have something to do before binding; those that may run side by side stand in one group."""
    if placement.profile.observer is None:
        return _pre_flights(placement)
    started = placement.clock.monotonic()
    status, groups = _pre_flights(placement)
    timed("PreBindPreFlight", placement, status, started)
    return status, groups


def _pre_flights(placement: PodPlacement) -> tuple[Status, list[list[ResolvedPlugin]]]:
    groups: list[list[ResolvedPlugin]] = []
    joinable = False
    state, pod, node_name, timer = placement.state, placement.pod, placement.node_name, placement.state.timer
    for plugin in placement.profile.pre_bind:
        ask = plugin.pre_bind_pre_flight
        try:
            if ask is None:
                flight = READY
            elif timer is None:
                flight = ask(state, pod, node_name)
            else:
                flight = _call(plugin.name, ask, placement)
        except Exception as error:
            problem = problem_of(error, ask or plugin.pre_bind)
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {problem}',), plugin.name), []
        status = flight.status
        if status is SKIP:  # nearly always
            joinable &= flight.allow_parallel
        elif status.is_success:
            if flight.allow_parallel and joinable:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
            joinable = flight.allow_parallel
        elif status.code is Code.ERROR:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {status.message}',), plugin.name), []
        elif not status.is_skip:
            name = CODE_NAMES[status.code]
            text = (
                f'PreBindPreFlight {plugin.name} returned "{name}", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            )
            return Status(Code.ERROR, (text,), plugin.name), []
        else:
            joinable &= flight.allow_parallel  # also one that is skipped separates its neighbours
    return SUCCESS, groups


async def pre_bind(plugin: ResolvedPlugin, placement: PodPlacement) -> Status:
    text = f'running PreBind plugin "{plugin.name}": '
    try:
        status = await _wait_for(plugin.name, plugin.pre_bind, placement)
    except Exception as error:
        return Status(Code.ERROR, (text + problem_of(error, plugin.pre_bind),), plugin.name)
    if status.is_success or status.is_rejected:
        return status.by(plugin.name)
    return Status(Code.ERROR, (text + status.message,), plugin.name)


def bind(placement: PodPlacement) -> Awaitable[Status]:
    """Let the first extender bind that does so for this pod, or else the first Bind plugin that does not skip it."""
    work = _bind(placement) if placement.extenders else _bind_by_plugin(placement)
    return work if placement.profile.observer is None else _timed_bind(placement, work)


async def _timed_bind(placement: PodPlacement, work: Awaitable[Status]) -> Status:
    started = placement.clock.monotonic()
    status = await work
    timed("Bind", placement, status, started)
    return status


async def _bind(placement: PodPlacement) -> Status:
    for extender in placement.extenders:
        if extender.is_binder and extender.is_interested(placement.pod):
            try:
                await asyncio.to_thread(extender.bind, placement.pod, placement.node_name)
                return SUCCESS
            except ExtenderError as error:
                if not extender.is_ignorable:
                    return Status.error(str(error))
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=str(error),
                )
    return await _bind_by_plugin(placement)


async def _bind_by_plugin(placement: PodPlacement) -> Status:
    for plugin in placement.profile.bind:
        try:
            status = await _wait_for(plugin.name, plugin.bind, placement)
        except Exception as error:
            problem = problem_of(error, plugin.bind)
        else:
            if status is SUCCESS:
                return status
            if status.is_skip:
                continue
            if status.is_success or status.is_rejected:
                return status.by(plugin.name)
            problem = status.message
        return Status(Code.ERROR, (f'running Bind plugin "{plugin.name}": {problem}',), plugin.name)
    if not placement.profile.bind:
        return Status.error(f"no Bind plugin in the profile {placement.profile.scheduler_name}")
    return Status.error("all Bind plugins skipped the pod")


def post_bind(placement: PodPlacement) -> None:
    """Run PostBind, whichever plugin fails."""
    if not placement.profile.post_bind:
        if placement.profile.observer is not None:
            nothing_done("PostBind", placement.profile.observer)
        return
    started = start(placement)
    for plugin in placement.profile.post_bind:
        try:
            _call(plugin.name, plugin.post_bind, placement)
        except Exception as error:
            problem = problem_of(error, plugin.post_bind)
            log.error(problem, "PostBind failed", plugin=plugin.name, pod=placement.info.key)
    if started is not None:
        timed("PostBind", placement, SUCCESS, started)


def after_failure(profile: Profile, state: CycleState, pod: PodInfo) -> list[tuple[str, Coroutine[Any, Any, None]]]:
    """Tell plugins that an attempt has failed; returns what they have left to do, by plugin."""
    left = []
    for plugin in profile.told_of_failures:
        assert plugin.after_failure is not None
        try:
            work = plugin.after_failure(state, pod)
        except Exception as error:
            problem = problem_of(error, plugin.after_failure)
            log.error(problem, "AfterFailure failed", plugin=plugin.name, pod=pod.pod.key)
            continue
        if work is not None:
            left.append((plugin.name, work))
    return left


def start(placement: PodPlacement) -> float | None:
    """When an extension point begins; None if nobody wants to know."""
    return None if placement.profile.observer is None else placement.clock.monotonic()


def timed(point: str, placement: PodPlacement, status: Status, started: float) -> None:
    """Tell the profile's observer how long an extension point took."""
    observer = placement.profile.observer
    if observer is not None:
        observer.extension_point(point, CODE_NAMES[status.code], placement.clock.monotonic() - started)


def nothing_done(point: str, observer: CycleObserver) -> None:
    """Tell of an extension point that has nothing to do, which takes no time."""
    observer.extension_point(point, "Success", 0.0)


def _call(name: str, method: Callable[..., T], placement: PodPlacement) -> T:
    """Call a plugin's method about a placement, with a look at the clock in attempts that are timed."""
    state, timer = placement.state, placement.state.timer
    if timer is None:
        return method(state, placement.pod, placement.node_name)
    started = timer.now()
    try:
        answer = method(state, placement.pod, placement.node_name)
    except Exception as error:
        timer.tell(name, method, error, started)
        raise
    timer.tell(name, method, answer, started)
    return answer


def _wait_for(name: str, method: Callable[..., Awaitable[Status]], placement: PodPlacement) -> Awaitable[Status]:
    """The same for a method that waits."""
    timer = placement.state.timer
    if timer is None:
        return method(placement.state, placement.pod, placement.node_name)
    return _time_wait(name, method, placement, timer)


async def _time_wait(
    name: str, method: Callable[..., Awaitable[Status]], placement: PodPlacement, timer: PluginTimer
) -> Status:
    started = timer.now()
    try:
        status = await method(placement.state, placement.pod, placement.node_name)
    except Exception as error:
        timer.tell(name, method, error, started)
        raise
    timer.tell(name, method, status, started)
    return status


# --------------------------------------------------------------------------------------------------------------------
# What calls to extenders cost and how they end: metrics, and a log line when one is left alone.


class ExtenderCalls:
    """Hears of every call, from whatever thread makes it."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._lock = threading.Lock()
        self._metrics = metrics

    def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
        with self._lock:
            self._metrics.extender_calls.labels(extender, verb, "ok" if error is None else "error").inc()
            self._metrics.extender_call_duration.labels(extender, verb).observe(seconds)

    def on_breaker(self, extender: str, is_open: bool, why: str) -> None:
        with self._lock:
            self._metrics.extender_breaker_open.labels(extender).set(float(is_open))
        if is_open:
            log.error(why, "Extender does not answer and is left alone for a while", extender=extender)
        else:
            log.info("Extender answers again", extender=extender)
