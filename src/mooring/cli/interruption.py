"""Ending a command early: Ctrl-C, SIGTERM and a reader who has gone end it alike, and everything is cleaned up."""

from __future__ import annotations

import signal
from types import FrameType


def interrupt() -> None:
    """Do what Ctrl-C does: cancel the main task of a running event loop, or raise KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in: nohup mooring … &
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


class Termination:
    """Takes SIGTERM as Ctrl-C, so that what was started is stopped and temporary files are removed."""

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        interrupt()
