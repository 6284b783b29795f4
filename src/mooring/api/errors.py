"""The exception tree; a verdict about a pod is a Status, never one of these.

MooringError
├── UsageError        bad command line or file name: exit code 2
│   └── InputError    a file that does not say what it should: where, what was found, what was expected
│       └── ConfigError   a KubeSchedulerConfiguration that cannot be used
├── ParseError        a quantity, selector or other small text that does not parse
├── PluginError       a plugin that breaks its contract, found at registration
└── ApiError          an answer of the API server that is not a success
    ├── NotFound, Conflict, Gone, Forbidden, TooManyRequests …   by status code, in client
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class MooringError(Exception):
    """Base class of everything that mooring raises on purpose; the text is one line for users."""

    place = ""

    def blame(self, place: str) -> None:
        """Prefix the place of the cause, once: an error caused by one step of a story may appear in a later one."""
        if place and not self.place:
            self.place = place
            self.args = (f"{place}: {self}",)


class UsageError(MooringError):
    """The request itself is wrong: invalid flags, a missing file."""


class InputError(UsageError):
    """A document was read, but its content is invalid."""


class ConfigError(InputError):
    """A KubeSchedulerConfiguration is invalid; ``problems`` has every mistake."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")


class ParseError(MooringError, ValueError):
    """A small text (quantity, selector, duration) is invalid."""


class PluginError(MooringError):
    """A plugin breaks its contract."""


class ApiError(MooringError):
    """An unsuccessful response of the API server, with the HTTP status and the Status object's reason."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class OtherScheduler(UserWarning):
    """A pod asks for a scheduler without a profile, and the first profile decides instead."""


def warn(notes: Iterable[str]) -> None:
    """Warn the caller: fields without effect, plugins that do nothing."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)
