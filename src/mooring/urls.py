"""URLs as they may be shown: in logs, metrics, events, pages and errors."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(//[^/?#:@]*):[^/?#]*@")


def without_password(url: str) -> str:
    """The URL with ``***`` in place of its password, as Go's HTTP client shows it."""
    return _PASSWORD.sub(r"\1:***@", url, count=1)
