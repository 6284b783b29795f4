"""Timing single plugins: in a sample of the attempts, since looking at the clock twice costs more than most calls.

An attempt that is sampled carries a :class:`PluginTimer` in its state; whoever
calls plugins calls them through it instead of through ``guarded``. One call is
one observation, however many nodes it answers for: where kube-scheduler asks
about one node at a time, a plugin here answers for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mooring.framework.guarded import CycleError, guarded
from mooring.framework.status import Code, Status
from mooring.framework.verdict import Verdict

T = TypeVar("T")
Tell = Callable[[str, str, Code, float], None]  # the plugin, its method, what it said, and how many seconds it took

_SUCCESS = Code.SUCCESS


class PluginTimer:
    """Calls plugins as ``guarded`` does, and tells how long each took and what it said."""

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
        """A call that began then has ended with this answer, or with an exception."""
        seconds = self.now() - started
        code = answer.code if type(answer) is Status else _SUCCESS if answer is None else _code_of(answer)
        self._tell(name, getattr(function, "__name__", "unnamed"), code, seconds)


def _code_of(answer: object) -> Code:
    """What an answer says; about many nodes, success if one of them passes."""
    if isinstance(answer, np.ndarray):  # scores
        return _SUCCESS
    if isinstance(answer, Exception):
        return Code.ERROR
    if isinstance(answer, tuple) and answer:  # Permit's: a status, and how long to wait
        answer = answer[0]
    if isinstance(answer, Verdict):
        if not len(answer.ids) or not answer.ids.all():
            return Code.SUCCESS
        return answer.status_of(int(answer.ids[0])).code
    status = getattr(answer, "status", answer)
    return status.code if isinstance(status, Status) else Code.SUCCESS
