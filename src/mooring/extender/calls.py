"""What a verb's handler is: bytes in, bytes out, and a few facts for the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mooring.extender.requests import Body


class HandlerError(Exception):
    """A handler did what no handler may; the text goes into the answer."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an access log says about a call."""

    pod: str = ""
    nodes: int = 0
    kept: int = -1


Answerer = Callable[[Body], tuple[bytes, Facts]]
"""Makes a verb's answer of a request."""
