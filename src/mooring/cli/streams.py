"""Standard output and the end of a command: a command that cannot write, is interrupted or terminated cleans up.

This is imported before any command, so it imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TextIO, TypeVar

import click

from mooring.api.errors import OtherScheduler
from mooring.api.text import printable

T = TypeVar("T")


def interrupt() -> None:
    """Act like Ctrl-C: cancel the main task of a running event loop, or raise KeyboardInterrupt."""
    if signal.SIGINT in signal.sigpending():  # a client repeats it without success; with ours it would arrive twice
        signal.sigwait({signal.SIGINT})
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Termination:
    """Handles SIGTERM like Ctrl-C, so that started processes are stopped and temporary files are removed."""

    def __init__(self) -> None:
        self.has_come = False
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in: nohup mooring … &
            # Event loops cancel their main task only where Ctrl-C has its usual handler. While blocked, the signal has
            # no effect when others send it.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        interrupt()


def say(text: str) -> None:
    """Print on standard error, beside the result."""
    click.echo(printable(text), err=True)


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print warnings as lines, each text once."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        text = f"mooring: {message} (see --config)" if category is OtherScheduler else f"warning: {message}"
        if not issubclass(category, UserWarning):
            shown_before(message, category, *place, **more)
        elif text not in said:
            said.add(text)
            say(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        shown_before, warnings.showwarning = warnings.showwarning, show
        yield


class OutputLost(SystemExit):
    """Nothing more can be printed. A SystemExit, so that it passes every ``except Exception``."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))

    @property
    def is_unread(self) -> bool:
        """Report whether the reader left, as ``head`` does, which is not a failure."""
        return self.error.errno == errno.EPIPE


class Output:
    """A text stream. The first failed write ends the command, later writes do nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lost: OSError | None = None

    def write(self, text: str) -> int:
        return self._try(lambda stream: stream.write(text), len(text))

    def flush(self) -> None:
        if self._stream is not None:
            self._try(lambda stream: stream.flush(), None)

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    @property
    def encoding(self) -> str:
        return "utf-8" if self._stream is None else self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def check(self) -> None:
        """Raise OutputLost if a write has failed."""
        if self._lost is not None:
            raise OutputLost(self._lost) from None

    def _try(self, do: Callable[[TextIO], T], otherwise: T) -> T:
        if self._lost is not None:
            return otherwise
        try:
            if self._stream is None:  # it was closed before the program began: mooring … >&-
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return do(self._stream)
        except OSError as error:
            self._lost = error
        self._discard()
        if not _is_in_a_loop():
            self.check()
        # An exception in a task would be logged. Its loop is interrupted instead, and ``check`` raises.
        interrupt()
        return otherwise

    def _discard(self) -> None:
        """Send buffered output to /dev/null; otherwise Python reports the failed write again at exit."""
        with contextlib.suppress(OSError, AttributeError, ValueError):
            assert self._stream is not None
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _is_in_a_loop() -> bool:
    import asyncio  # only here: help is faster without it

    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


@contextlib.contextmanager
def watched_output() -> Iterator[None]:
    """Watch standard output while a command runs; raise OutputLost at its end if something could not be written."""
    before = sys.stdout
    output = Output(before)
    sys.stdout = output
    try:
        yield
        output.flush()
    finally:
        sys.stdout = before
        output.check()


def open_missing_streams() -> None:
    """Give a process that was started without standard input or error (``<&-``, ``2>&-``) empty ones."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
