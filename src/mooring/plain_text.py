"""Text that a terminal shows and does not obey."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace control characters, except ends of lines and tabs: names and messages of a cluster are anybody's."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
