"""Calling a plugin so that whatever it raises costs one pod its attempt, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mooring.framework.status import Code, Status

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
        raise CycleError(Status(Code.ERROR, (text.format(name, f"{type(error).__name__}: {error}"),), name)) from error
