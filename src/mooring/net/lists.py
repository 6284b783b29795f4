"""The response to a list request: objects of one kind, of any number, decoded as they arrive.

A page of 500 pods is 3 MB, and decoding it in one step is the fastest way. But some servers ignore ``limit`` when they
answer from their cache, and 75,000 pods are 300 MB. So a response that has grown beyond ``WHOLE_BYTES`` is split into
objects while it arrives, each is decoded, and its text is dropped. Other tasks and threads run after every chunk. An
unreadable object is left out of the list.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from mooring.api.codec import flattened
from mooring.net.watch_events import MAX_OBJECT_BYTES, ApiObject, EventReader, Garbled

WHOLE_BYTES = 4 << 20
"""A response up to this size is decoded in one step."""
MAX_FRAME_BYTES = 1 << 20
"""Maximum size of a list without its objects."""
STEP_BYTES = 256 << 10
"""How much is split and decoded before other tasks run: about two milliseconds of work."""

T = TypeVar("T", bound=ApiObject)


class PageMeta(msgspec.Struct, rename="camel"):
    """The version of the list, and the token for the next page; empty on the last one."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct):
    """One page of a list; its objects are not decoded yet."""

    metadata: PageMeta = msgspec.field(default_factory=PageMeta)
    items: list[msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(ListPage)


def read_page(body: bytes) -> ListPage:
    """Split a list into its objects."""
    try:
        try:
            return _decoder.decode(body)
        except RecursionError:
            return _decoder.decode(flattened(body))
    except msgspec.DecodeError as error:
        raise Garbled(f"the answer is not a list: {error}") from None


class ListReader(Generic[T]):
    """Reads the body of a response, chunk by chunk; ``end`` returns the page's metadata.

    ``begin`` drops an interrupted read, which is repeated from its beginning. ``objects`` includes earlier pages.
    """

    def __init__(self, reader: EventReader[T]) -> None:
        self.objects: list[T] = []
        self.size = 0
        self._reader = reader
        self._kept = 0  # objects of earlier pages
        self._whole: bytearray | None = bytearray()  # None: too large, so the splitter is used
        self._splitter = ItemSplitter()

    def begin(self) -> None:
        """Begin a page, or begin it again."""
        del self.objects[self._kept :]
        self.size = 0
        self._whole, self._splitter = bytearray(), ItemSplitter()

    def restart(self) -> None:
        """Drop the earlier pages."""
        self._kept = 0
        self.begin()

    async def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self._whole is not None:
            self._whole += chunk
            if len(self._whole) <= WHOLE_BYTES:
                return
            chunk, self._whole = bytes(self._whole), None
        await self._split(chunk)

    async def end(self) -> PageMeta:
        """End the page and return its metadata."""
        if self._whole is not None:
            body = bytes(self._whole)
            self._whole = bytearray()
            try:
                page = read_page(body)
            except Garbled:
                await self._split(body)  # the whole-page decoder fails on one invalid object
            else:
                await self._decode(page.items or ())
                self._kept = len(self.objects)
                return page.metadata
        meta = self._splitter.end()
        self._kept = len(self.objects)
        return meta

    async def _split(self, chunk: bytes) -> None:
        for start in range(0, len(chunk), STEP_BYTES):
            await self._decode(self._splitter.feed(chunk[start : start + STEP_BYTES]))
            await asyncio.sleep(0)

    async def _decode(self, items: Iterator[bytes] | list[msgspec.Raw] | tuple[()]) -> None:
        for number, raw in enumerate(items, 1):
            item = self._reader.decode("ADDED", raw)
            if item is not None:
                self.objects.append(item)
            if number % 200 == 0:
                await asyncio.sleep(0)


_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
"""The next bracket outside a string. Possessive quantifiers (``++``, ``*+``) make it linear for any input."""
_ITEMS = re.compile(rb'"items"\s*:\s*\Z')
_BETWEEN = re.compile(rb"[\s,]*+")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_skip_value = msgspec.json.Decoder(msgspec.Raw).decode


class ItemSplitter:
    """Splits the text of a list into its items, whatever they are.

    The text around the items, the frame, is kept and read at the end: ``metadata`` may precede or follow them.
    """

    def __init__(self) -> None:
        self._rest = b""  # unprocessed: the frame up to the items, or an incomplete item
        self._frame = b""
        self._has_begun = self._has_ended = False  # of the list of items

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Feed text, and yield complete items."""
        text, at = self._rest + chunk, 0
        if not self._has_begun and (at := _start_of_items(text)):
            self._frame, self._has_begun = text[:at], True
        while self._has_begun and not self._has_ended:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
            self._has_ended = text.startswith(b"]", at)
            if self._has_ended or not (end := _end_of_value(text, at)):
                break
            yield text[at:end]
            at = end
        if self._has_ended:
            self._frame, at = self._frame + text[at:], len(text)
        self._rest = text[at:]
        if len(self._frame) > MAX_FRAME_BYTES or (not self._has_begun and len(self._rest) > MAX_FRAME_BYTES):
            raise Garbled("the answer is not a list: it says too much besides its items")
        if len(self._rest) > MAX_OBJECT_BYTES:
            raise Garbled(f"the answer is not a list: an item is larger than {MAX_OBJECT_BYTES:,} bytes")

    def end(self) -> PageMeta:
        """End the text and return the metadata."""
        if self._has_begun and not self._has_ended:
            raise Garbled("the answer is not a list: it is cut off")
        return read_page(self._frame or self._rest).metadata


def _start_of_items(text: bytes) -> int:
    """Find the position of the first item; 0 if missing. Objects in the frame may have lists of that name."""
    depth = at = 0
    while (bracket := _BRACKET.match(text, at)) is not None:
        at = bracket.end()
        depth += 1 if bracket[1] in b"{[" else -1
        if depth == 2 and bracket[1] == b"[" and _ITEMS.search(text, max(0, at - 64), at - 1):
            return at
    return 0


def _end_of_value(text: bytes, at: int) -> int:
    """Return the end of a value; 0 if it has not arrived.

    msgspec skips a value 20 times as fast as a regular expression, and reports the position of data after it. Brackets
    are counted where it does not: in invalid JSON, and in a value that is nested too deeply.
    """
    try:
        _skip_value(memoryview(text)[at:])
    except RecursionError:
        return _end_by_brackets(text, at)
    except msgspec.DecodeError as error:
        if trailing := _TRAILING.search(str(error)):
            return at + int(trailing[1]) - 1
        return 0 if "truncated" in str(error) else _end_by_brackets(text, at)
    return 0  # the list continues after an item, or at least ends there


def _end_by_brackets(text: bytes, at: int) -> int:
    depth = 0
    while (bracket := _BRACKET.match(text, at)) is not None:
        at = bracket.end()
        depth += 1 if bracket[1] in b"{[" else -1
        if depth <= 0:
            return at
    return 0
