"""The exception tree; a verdict about a pod is a Status, never one of these.

MooringError
├── UsageError        bad command line or file name: exit code 2
│   └── InputError    a file that does not say what it should: where, what was found, what would be right
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
    """Anything mooring raises on purpose; its text is one line fit to be shown to a person."""

    place = ""

    def blame(self, place: str) -> None:
        """Say where the cause is. The first place counts: what has gone wrong beside a story shows in a later step."""
        if place and not self.place:
            self.place = place
            self.args = (f"{place}: {self}",)


class UsageError(MooringError):
    """The request itself is wrong: bad flags, a missing file."""


class InputError(UsageError):
    """A document that was read but does not say what it should."""


class ConfigError(InputError):
    """A KubeSchedulerConfiguration that cannot be used; ``problems`` has every mistake found."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]")


class ParseError(MooringError, ValueError):
    """A small text (quantity, selector, duration) that does not parse."""


class PluginError(MooringError):
    """A plugin that does not keep its contract."""


class ApiError(MooringError):
    """An API server's refusal, with the HTTP status and the Status object's reason."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class OtherScheduler(UserWarning):
    """A pod asks for a scheduler that has no profile, and the first profile answers in its place."""


def warn(notes: Iterable[str]) -> None:
    """Warn the caller: fields without effect, plugins that do nothing."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=4)
