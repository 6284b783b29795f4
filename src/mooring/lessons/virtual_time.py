"""An event loop on which waiting takes no time: when nobody has anything to do, the clock jumps to the next timer.

Everything in a classroom, the API server and its clients included, runs in one loop of one process. So "nobody has
anything to do" can be seen: no callback is ready and no socket has anything to read. Time stands still while people
work; a lesson that waits five minutes is over at once and prints the same seconds every time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_S = 0.003
"""Real seconds the kernel gets to carry bytes from one socket to another before time jumps."""
PATIENCE_S = 0.05
"""Real seconds between two looks when there is no timer at all: somebody waits for a thread."""


class _Selector(selectors.BaseSelector):
    """Asks the real selector, and moves the clock instead of sleeping."""

    def __init__(self, moved: Callable[[float], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._moved = moved

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        ready = self._real.select(PATIENCE_S if timeout is None else GRACE_S)
        if not ready and timeout is not None:
            self._moved(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An ordinary loop whose seconds pass only when everybody waits."""

    def __init__(self) -> None:
        self._virtual_s = 0.0
        super().__init__(_Selector(self._move))

    def time(self) -> float:
        return self._virtual_s

    def _move(self, seconds: float) -> None:
        self._virtual_s += seconds


class LoopClock:
    """The running loop's seconds as a Clock, from a fixed day on: for whoever writes timestamps in a classroom."""

    def __init__(self, epoch_s: float) -> None:
        self._epoch_s = epoch_s

    def now(self) -> float:
        return self._epoch_s + self.monotonic()

    def monotonic(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:  # before the loop runs it is time zero
            return 0.0


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
