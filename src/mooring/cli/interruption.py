"""Ending a command early: Ctrl-C, SIGTERM and a reader who has gone end it alike, and everything is cleaned up."""

from __future__ import annotations

import signal
from types import FrameType


def interrupt() -> None:
    """Do what Ctrl-C does: cancel the main task of a running event loop, or raise KeyboardInterrupt."""
    if signal.SIGINT in signal.sigpending():  # others have sent it in vain; with ours it would come twice
        signal.sigwait({signal.SIGINT})
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Termination:
    """Takes SIGTERM as Ctrl-C, so that what was started is stopped and temporary files are removed."""

    def __init__(self) -> None:
        self.has_come = False
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in: nohup mooring … &
            # Event loops cancel their main task only where Ctrl-C has its usual handler. Blocked, it stays without
            # effect when others send it.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        interrupt()
