"""How long a failed container waits before its kubelet starts it again: at once, then 10 s, 20 s … 5 min.

A container that has run for ten minutes counts as well: its next failure is a first one.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S, MOST_S = 10.0, 300.0
WELL_AFTER_S = 2 * MOST_S


@dataclass(slots=True)
class _Loop:
    uid: str
    wait_s: float = 0.0  # after the next failure
    started_at: float = float("-inf")  # when the container was last started again
    due_at: float = float("-inf")  # when it may be started again; it is not waiting if that is over


class CrashLoops:
    """The pods whose containers have failed, by ``namespace/name``. Times are the clock's."""

    def __init__(self) -> None:
        self._loops: dict[str, _Loop] = {}

    def failed(self, key: str, uid: str, now: float) -> float:
        """The containers of a pod have failed; returns how long they wait."""
        loop = self._loops.get(key)
        if loop is None or loop.uid != uid or now - loop.started_at > WELL_AFTER_S:
            loop = self._loops[key] = _Loop(uid)
        loop.due_at = now + loop.wait_s
        return loop.wait_s

    def restarted(self, key: str, now: float) -> None:
        """They run again; the next failure will make them wait twice as long."""
        loop = self._loops.get(key)
        if loop is not None:
            loop.wait_s = min(2 * loop.wait_s, MOST_S) if loop.wait_s else FIRST_S
            loop.started_at = now

    def left_s(self, key: str, now: float) -> float:
        """How long they still wait."""
        loop = self._loops.get(key)
        return 0.0 if loop is None else max(0.0, loop.due_at - now)

    def forget(self, key: str) -> None:
        """The pod has ended, or is gone."""
        self._loops.pop(key, None)
