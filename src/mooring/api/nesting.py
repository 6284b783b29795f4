"""JSON that is nested too deeply for a decoder that recurses.

An API server takes 10,000 levels where anything may stand, for example in a ResourceClaim's opaque parameters. Decoders
give up at about 1,000, even on parts that they only skip. Nothing that scheduling reads is so deep.
"""

from __future__ import annotations

import re

MAX_DEPTH = 200
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def flattened(data: bytes) -> bytes:
    """Replace every value that is nested deeper than ``MAX_DEPTH`` by null."""
    pieces: list[bytes] = []
    depth = end = start = 0
    for token in _STRING_OR_BRACKET.finditer(data):
        bracket = token[0]
        if bracket in (b"{", b"["):
            depth += 1
            if depth == MAX_DEPTH + 1:
                start = token.start()
        elif bracket in (b"}", b"]"):
            if depth == MAX_DEPTH + 1:
                pieces += (data[end:start], b"null")
                end = token.end()
            depth -= 1
    return b"".join((*pieces, data[end:]))
