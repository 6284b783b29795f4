"""State of one attempt at one pod: data of plugins, time, and calls of plugins."""

from __future__ import annotations

import inspect
import logging
import os
import traceback
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import numpy as np

from mooring.core.framework.status import Code, Status, Verdict

T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
BINDING_ANNOTATIONS = "mooring/binding-annotations"
"""Key for a dict of annotations that Bind writes to the pod; plugins fill it in Reserve."""


class OutOfTime(BaseException):
    """The attempt has timed out. Not an Exception: no plugin can swallow it by accident."""


class Budget:
    """Time limit of one attempt. The watching thread sets ``is_spent``; the attempt only reads it."""

    __slots__ = ("is_spent",)

    def __init__(self) -> None:
        self.is_spent = False


UNLIMITED = Budget()


class CycleState:
    """A keyed store for one attempt. Keys are plugin names or ``plugin/what``."""

    __slots__ = ("_data", "asks_all", "budget", "group_cycle", "skip_filter", "skip_score", "timer")

    def __init__(self) -> None:
        self._data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.timer: PluginTimer | None = None  # calls the plugins of a timed attempt; not copied
        self.asks_all = False  # whether plugins that have answered for the template run again; not copied
        self.budget = UNLIMITED
        self.group_cycle: object | None = None  # the same object for all pods of a group that are tried together

    def check_time(self) -> None:
        """Raise OutOfTime if the attempt has timed out. Long searches call this in their loops."""
        if self.budget.is_spent:
            raise OutOfTime

    def write(self, key: str, value: Any) -> None:
        self._data[key] = value

    def read(self, key: str) -> Any:
        """Return the value of the key, or None."""
        return self._data.get(key)

    def again(self) -> CycleState:
        """Return the state of a fresh start of the same attempt."""
        fresh = CycleState()
        fresh.timer, fresh.asks_all, fresh.budget = self.timer, self.asks_all, self.budget
        fresh.group_cycle = self.group_cycle
        return fresh

    def clone(self) -> CycleState:
        """Return a copy for a dry run: values that have ``clone`` are cloned, others are shared."""
        copy = CycleState()
        copy._data = {k: v.clone() if hasattr(v, "clone") else v for k, v in self._data.items()}
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.budget = self.budget
        copy.group_cycle = self.group_cycle
        return copy


# ---- calls of plugins: an exception costs one pod its attempt, and nothing else --------------------------------------

log = logging.getLogger("mooring.core.framework")
TRACEBACKS = logging.INFO - 2  # shown with ``-v 2``


class CycleError(Exception):
    """An error in a cycle: the attempt fails, and the pod is retried later."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def guarded(name: str, text: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin; an exception becomes this pod's error. ``text`` has places for the plugin and the problem."""
    try:
        return function(*arguments)
    except CycleError:
        raise
    except Exception as error:
        raise broken(name, text, function, error) from error


def broken(name: str, text: str, function: Callable[..., Any], error: Exception) -> CycleError:
    """Return the error for a plugin's exception; for hot loops that cannot afford ``guarded``."""
    return CycleError(Status(Code.ERROR, (text.format(name, problem_of(error, function)),), name))


def problem_of(error: Exception, function: Callable[..., Any]) -> str:
    """Describe a plugin's exception with the line in the plugin's own file; the traceback is logged."""
    owner = getattr(inspect.unwrap(function), "__self__", None)
    module = function.__module__ if owner is None else type(owner).__module__
    text = f"{type(error).__name__}: {error}{place_of(error, {module})}"
    log.log(TRACEBACKS, "A plugin failed: %s", text, exc_info=error)
    return text


def place_of(error: BaseException, modules: Collection[str]) -> str:
    """Return `` (quiet_hours.py:27)``: the last executed line in one of these modules or in an in-tree plugin.

    Empty if no such line was running.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        if module in modules or module.startswith("mooring.core.plugins."):
            return f" ({os.path.basename(frame.f_code.co_filename)}:{line})"
    return ""


Tell = Callable[[str, str, Code, float], None]  # plugin, method, result code, seconds
_SUCCESS = Code.SUCCESS


class PluginTimer:
    """Calls plugins as ``guarded`` does, and reports the duration and result of each call.

    Only a sample of the attempts is timed, because reading the clock twice costs more than most calls. Such an attempt
    has a timer in its state, and its plugins are called through it. One call is one observation, however many nodes it
    covers: kube-scheduler calls a plugin for one node at a time, here it answers for all of them.
    """

    __slots__ = ("_tell", "now")

    def __init__(self, now: Callable[[], float], tell: Tell) -> None:
        self.now = now
        self._tell = tell

    def __call__(self, name: str, text: str, function: Callable[..., T], *arguments: Any) -> T:
        started = self.now()
        try:
            answer = guarded(name, text, function, *arguments)
        except CycleError as error:
            self.tell(name, function, error.status, started)
            raise
        self.tell(name, function, answer, started)
        return answer

    def tell(self, name: str, function: Callable[..., Any], answer: object, started: float) -> None:
        """Report a call that began at ``started`` and returned this answer, or an exception."""
        seconds = self.now() - started
        code = answer.code if type(answer) is Status else _SUCCESS if answer is None else _code_of(answer)
        self._tell(name, getattr(function, "__name__", "unnamed"), code, seconds)


def _code_of(answer: object) -> Code:
    """Return the code of an answer; for many nodes, success if one of them passes."""
    if isinstance(answer, np.ndarray):  # scores
        return _SUCCESS
    if isinstance(answer, Exception):
        return Code.ERROR
    if isinstance(answer, tuple) and answer:  # Permit's: a status, and a timeout
        answer = answer[0]
    if isinstance(answer, Verdict):
        if not len(answer.ids) or not answer.ids.all():
            return Code.SUCCESS
        return answer.status_of(int(answer.ids[0])).code
    status = getattr(answer, "status", answer)
    return status.code if isinstance(status, Status) else Code.SUCCESS
