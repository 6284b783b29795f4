"""Calling a plugin so that whatever it raises costs one pod its attempt, and nothing else."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from mooring.framework.status import Code, Status
from mooring.framework.traces import place_of

log = logging.getLogger("mooring.framework")
TRACEBACKS = logging.INFO - 2  # shown with ``-v 2``
T = TypeVar("T")


class CycleError(Exception):
    """Something broke in a cycle: the attempt fails, the pod is tried again later."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def guarded(name: str, text: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin; what it raises becomes this pod's error. ``text`` has places for the plugin and the problem."""
    try:
        return function(*arguments)
    except CycleError:
        raise
    except Exception as error:
        raise broken(name, text, function, error) from error


def broken(name: str, text: str, function: Callable[..., Any], error: Exception) -> CycleError:
    """What ends the attempt when a plugin raises; for loops that run for every pod and cannot afford ``guarded``."""
    return CycleError(Status(Code.ERROR, (text.format(name, problem_of(error, function)),), name))


def problem_of(error: Exception, function: Callable[..., Any]) -> str:
    """What a plugin's method raised, and in which line of the plugin's own file; the traceback goes to the log."""
    owner = getattr(inspect.unwrap(function), "__self__", None)
    module = function.__module__ if owner is None else type(owner).__module__
    text = f"{type(error).__name__}: {error}{place_of(error, {module})}"
    log.log(TRACEBACKS, "A plugin failed: %s", text, exc_info=error)
    return text
