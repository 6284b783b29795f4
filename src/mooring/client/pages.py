"""The answer to a list request: some objects, not yet decoded, and what to ask for the rest."""

from __future__ import annotations

import msgspec

from mooring.api.nesting import flattened


class Garbled(Exception):
    """The server says something that is not a list, or not a watch event."""


class PageMeta(msgspec.Struct, rename="camel"):
    """The version of the list, and the token for the next page; empty on the last one."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: PageMeta = msgspec.field(default_factory=PageMeta)
    items: list[msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(Page)


def read_page(body: bytes) -> Page:
    """Split a list into its objects."""
    try:
        try:
            return _decoder.decode(body)
        except RecursionError:
            return _decoder.decode(flattened(body))
    except msgspec.DecodeError as error:
        raise Garbled(f"the answer is not a list: {error}") from None
