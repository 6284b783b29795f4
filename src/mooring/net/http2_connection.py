"""One connection that carries many concurrent requests (HTTP/2): each has a stream, and none waits for another.

Requests of one turn share one write, and several responses often share one read. The server limits the number of
requests and of bytes; the rest waits here (a body) or in the pool's queue (a request).

The state of a stream is kept in its request, because a request has one stream at most:

```
send ──▶ in _streams ──HEADERS of the answer──▶ status set ──DATA──▶ got grows ──END_STREAM──▶ answered
              │ the server's window is full: unsent holds the rest of the body until WINDOW_UPDATE or SETTINGS
              ├── RST_STREAM, GOAWAY before it, a lost connection: failed, with whether it may have been carried out
              └── the deadline has passed, or the caller has gone: RST_STREAM is sent, and late frames are ignored
```

A request that is removed from ``_streams`` must have its future settled right there: after that neither a lost
connection nor the pool's alarm knows of it.

Flow control has two windows. ``_window`` is what the server accepts on the whole connection, ``request.window`` what it
accepts on one stream; a body is sent as far as both allow. What the server may send is hardly limited by our window,
which is the largest that HTTP/2 has. Each time that ``_STEP_BYTES`` have come, the window is reopened and the answers
under way are measured.

A server that floods is cut off where its frames would cost more than they do: fields without end, questions whose
answers it does not read, more data than answers have. Everything else ends by the requests' deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from mooring.net import http2
from mooring.net.connect import MAX_ANSWER_BYTES, MAX_HEAD_BYTES, Broken, HttpAnswer, HttpRequest
from mooring.net.errors import Fenced
from mooring.net.http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, BadFrame

_STREAMS = 100
"""Concurrent requests for a server that announces no limit."""
_MOST_STREAMS = 1000
_LAST_STREAM = 1 << 30
"""Stream number at which the connection is replaced: numbers are not reused, and they end at 2³¹."""
_BEGINNINGS = {
    method: http2.encode_field(":method", method) + http2.encode_field(":scheme", "https")
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
}
_OPENING = (
    http2.PREFACE
    + http2.settings(
        (
            (http2.HEADER_TABLE_SIZE, 0),
            (http2.ENABLE_PUSH, 0),
            (http2.INITIAL_WINDOW_SIZE, http2.MOST_WINDOW),
        )
    )
    + http2.window_update(0, http2.MOST_WINDOW - http2.WINDOW)
)
_NAMED_BY_NUMBER = frozenset(bytes((first | number,)) for first in (0x00, 0x10, 0x40) for number in range(8, 15))
"""First bytes of a field with the indexed name :status and a literal value."""
_LAST_FIELDS = END_HEADERS | END_STREAM
_STEP_BYTES = MAX_ANSWER_BYTES
"""Bytes of answers after which our window is reopened."""
_MOST_HELD_BYTES = 2 * MAX_ANSWER_BYTES
"""Maximum bytes of all answers under way, measured at each step."""
_STATUS_BYTES = 5
"""Maximum length of a status field with an indexed name and three digits."""
_KNOWN_BYTES = 64
"""Maximum length of fields that are kept with the status they say."""
_MOST_UNREAD = 10_000
"""Maximum number of replies to PING and SETTINGS while the server does not read."""
_PING_BYTES = 8
_pack_head, _read_head = http2.HEAD.pack, http2.HEAD.unpack_from


class Http2Connection(asyncio.Protocol):
    """A shared connection. ``on_free`` is called when responses have arrived, and when the connection is closed."""

    def __init__(self, on_free: Callable[[Http2Connection], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_open = False
        self.keep_alive = True  # whether it accepts more requests
        self.idle_since = 0.0
        self.heard = 0  # how often data has arrived
        self.quiet_since = 0.0  # when data arrived last, or was sent to a server that owed no answer
        self._on_free = on_free
        self._streams: dict[int, HttpRequest] = {}  # requests under way
        self._next_stream = 1
        self._rest = b""  # beginning of an incomplete frame
        # Stream, flags and the beginning of fields that continue in CONTINUATION frames, which must follow directly.
        self._fields_of: tuple[int, int, bytearray] | None = None
        self._fields_cost = 0  # their bytes and frames' heads
        self._failure = ""
        self._most_streams = _STREAMS
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._has_begun = loop.create_future()
        self._frame_bytes = http2.FRAME_BYTES
        self._window = http2.WINDOW  # bytes that the server accepts now, on all streams together
        self._stream_window = http2.WINDOW  # and on a new stream
        self._taken = 0  # bytes of responses since the last WINDOW_UPDATE
        self._is_full = False  # the server does not read, and what we write is kept here
        self._unread = 0  # replies since then
        self._statuses: dict[bytes, int] = {}  # by their encoded fields

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self.transport.write(_OPENING)

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        self.quiet_since = self._time()
        under_way = len(self._streams)
        try:
            self._read(self._rest + data if self._rest else data)
        except BadFrame as error:
            self._failure = f"not an HTTP/2 answer: {error}"
            self.close()
            return
        if len(self._streams) != under_way:
            self._on_free(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full, self._unread = False, 0
        self._on_free(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        why = self._failure or str(exc or "the server closed the connection")
        streams, self._streams = self._streams, {}
        for request in streams.values():
            request.fail(Broken(why, written=True))
        self._begun()
        self._on_free(self)

    # What the pool calls

    async def begin(self) -> None:
        """Wait for the server's settings, its first frame, which limit the number of requests."""
        await self._has_begun
        if not self.is_open:
            raise ConnectionResetError(self._failure or "the server closed the connection")

    def _begun(self) -> None:
        if not self._has_begun.done():
            self._has_begun.set_result(None)

    @property
    def under_way(self) -> list[HttpRequest]:
        return list(self._streams.values())

    @property
    def load(self) -> int:
        return len(self._streams)

    @property
    def is_usable(self) -> bool:
        transport = self.transport
        return self.is_open and self.keep_alive and transport is not None and not transport.is_closing()

    @property
    def room(self) -> int:
        """Number of further requests that the server accepts now."""
        return 0 if self._window <= 0 or self._is_full else self._most_streams - len(self._streams)

    def send(self, requests: list[HttpRequest]) -> None:
        """Write requests, all in one write."""
        assert self.transport is not None
        if not self._streams:
            self.quiet_since = self._time()
        out: list[bytes] = []
        for request in requests:
            number = self._next_stream
            self._next_stream = number + 2
            request.on_reused = number > 1
            request.mark = self.heard
            self._streams[number] = request
            self._encode(number, request, out)
        if self._next_stream > _LAST_STREAM:
            self.keep_alive = False
        self.transport.write(b"".join(out))

    def _encode(self, number: int, request: HttpRequest, out: list[bytes]) -> None:
        body = request.body
        length = len(body)
        size = b"%d" % length
        parts = _BEGINNINGS[request.method], http2.string(request.target), request.fields.http2, len(size), size
        block = b"%b\x04%b%b\x0f\x0d%c%b" % parts
        head, most = len(block), self._frame_bytes
        if head > most:
            self._encode_in_parts(block, 0 if body else END_STREAM, number, out)
        else:
            out += (_pack_head(head >> 8, head & 0xFF, HEADERS, END_HEADERS if body else _LAST_FIELDS, number), block)
        if not length:
            return
        if length <= self._window and length <= self._stream_window and length <= most:
            self._window -= length
            out += (_pack_head(length >> 8, length & 0xFF, DATA, END_STREAM, number), body)
        else:
            # A view: a server that opens its window byte by byte must not cost a copy of the rest each time.
            request.unsent, request.window = memoryview(body), self._stream_window
            self._send_rest(number, request, out)

    def _encode_in_parts(self, block: bytes, flags: int, number: int, out: list[bytes]) -> None:
        kind, size = HEADERS, self._frame_bytes
        for start in range(0, len(block), size):
            if start + size >= len(block):
                flags |= END_HEADERS
            out.append(http2.frame(kind, flags, number, block[start : start + size]))
            kind, flags = CONTINUATION, 0

    def _send_rest(self, number: int, request: HttpRequest, out: list[bytes]) -> None:
        """Write as much of a body as the windows allow. A request without its whole body is incomplete."""
        if request.unsent and request.is_fenced():
            del self._streams[number]
            request.fail(Fenced())
            out.append(http2.reset(number, http2.CANCEL))
            return
        while request.unsent:
            size = min(len(request.unsent), self._window, request.window, self._frame_bytes)
            if size <= 0:
                return
            part, request.unsent = bytes(request.unsent[:size]), request.unsent[size:]
            self._window -= size
            request.window -= size
            out.append(http2.frame(DATA, 0 if request.unsent else END_STREAM, number, part))

    def give_up(self, late: list[HttpRequest]) -> None:
        """Abandon some responses. A server that has sent nothing since then gets no more requests."""
        if any(request.mark == self.heard for request in late):
            self.close()
        else:
            self.cancel_abandoned()

    def cancel_abandoned(self) -> None:
        """Cancel streams whose callers no longer wait."""
        abandoned = [number for number, request in self._streams.items() if request.answer.done()]
        for number in abandoned:
            del self._streams[number]
        self._write(b"".join([http2.reset(number, http2.CANCEL) for number in abandoned]))
        if abandoned:
            self._on_free(self)

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            self.transport.abort()

    # Frames

    def _read(self, data: bytes) -> None:
        """Process every complete frame."""
        at, end = 0, len(data)
        while end - at >= 9:
            high, low, kind, flags, number = _read_head(data, at)
            start = at + 9
            at = start + (high << 8 | low)
            if at - start > http2.FRAME_BYTES:
                raise BadFrame("a frame is longer than we take")
            if at > end:
                at = start - 9
                break
            if self._fields_of is not None and kind != CONTINUATION:
                raise BadFrame("the fields of an answer are interrupted")
            if kind == DATA:
                self._take_data(number, flags, data[start:at])
            elif kind == HEADERS:
                block = data[start:at]
                self._take_fields(number, flags, http2.without_padding(block, flags) if flags & 0x28 else block)
            else:
                self._take_other(kind, flags, number, data[start:at])
        self._rest = data[at:]

    def _take_fields(self, number: int, flags: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            self._fields_of, self._fields_cost = (number, flags, bytearray(block)), len(block)
            return
        request = self._streams.get(number)
        if request is None:
            return  # abandoned
        if not request.status:
            status = self._statuses.get(block[:_STATUS_BYTES]) or self._status(block)
            if status < 200:
                return  # an interim response
            request.status, request.block = status, block
        if flags & END_STREAM:
            self._answered(number, request)

    def _status(self, block: bytes) -> int:
        """Decode the status, the first field. Equal statuses mostly have equal bytes."""
        first = block[:1]
        if first >= b"\x80":
            says = first
        elif first in _NAMED_BY_NUMBER and len(block) > 1:
            says = block[: 2 + (block[1] & 0x7F)]
        else:
            says = block
        status = self._statuses.get(says)
        if status is None:
            name, value = next(http2.decode_fields(block), ("", ""))
            if name != ":status" or len(value) != 3 or not value.isdecimal():
                raise BadFrame("an answer has no status")
            status = int(value)
        if len(self._statuses) < 100 and len(says) <= _KNOWN_BYTES:
            self._statuses[says] = status
            if len(says) <= _STATUS_BYTES:  # decoded without a parse the next time
                self._statuses[block[:_STATUS_BYTES]] = status
        return status

    def _take_data(self, number: int, flags: int, payload: bytes) -> None:
        taken = self._taken = self._taken + len(payload)
        if taken > _STEP_BYTES:
            self._write(http2.window_update(0, taken))
            self._taken = 0
            if sum(len(request.got) for request in self._streams.values()) > _MOST_HELD_BYTES:
                raise BadFrame(f"answers under way are larger than {_MOST_HELD_BYTES:,} bytes")
        request = self._streams.get(number)
        if request is None:
            return  # abandoned
        part = http2.without_padding(payload, flags & PADDED) if flags & PADDED else payload
        if not request.got:
            request.got = part
        else:
            if isinstance(request.got, bytes):
                request.got = bytearray(request.got)
            request.got += part
        if len(request.got) > MAX_ANSWER_BYTES:
            del self._streams[number]
            request.fail(Broken(f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes", written=True))
            self._write(http2.reset(number, http2.CANCEL))
        elif flags & END_STREAM:
            self._answered(number, request)

    def _answered(self, number: int, request: HttpRequest) -> None:
        # A stream leaves the table only once its response can be delivered. An error before that ends the connection,
        # which fails everything still in the table: no future is left without an owner.
        status = request.status
        if not status:
            raise BadFrame("an answer has no status")
        fields = {} if 200 <= status < 300 else dict(http2.decode_fields(request.block))
        del self._streams[number]
        if request.unsent:  # answered before the whole body was sent
            self._write(http2.reset(number, http2.CANCEL))
        if not request.answer.done():
            got = request.got
            request.answer.set_result(HttpAnswer(status, fields, got if isinstance(got, bytes) else bytes(got)))

    def _take_other(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == CONTINUATION:
            self._on_continuation(number, flags, payload)
        elif kind == http2.WINDOW_UPDATE:
            self._widen(number, payload)
        elif kind == http2.SETTINGS:
            self._on_settings(flags, payload)
        elif kind == http2.PING:
            if len(payload) != _PING_BYTES:
                raise BadFrame("a PING frame has another length than it may")
            if not flags & http2.ACK:
                self._reply(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.RST_STREAM:
            self._refused(number, payload)
        elif kind == http2.GOAWAY:
            self._end(payload)
        elif kind == http2.PUSH_PROMISE:
            raise BadFrame("the server sent an unexpected push")

    def _on_continuation(self, number: int, flags: int, payload: bytes) -> None:
        if self._fields_of is None or self._fields_of[0] != number:
            raise BadFrame("CONTINUATION without HEADERS")
        _, begun, block = self._fields_of
        self._fields_cost += 9 + len(payload)  # empty frames end, too
        if self._fields_cost > MAX_HEAD_BYTES:
            raise BadFrame("an answer has too many fields")
        block += payload
        if flags & END_HEADERS:
            self._fields_of = None
            self._take_fields(number, begun | END_HEADERS, bytes(block))

    def _widen(self, number: int, payload: bytes) -> None:
        more = _number(payload) & http2.MOST_WINDOW
        if not more:
            raise BadFrame("a window is opened by nothing")
        if not number:
            was_full = self._window <= 0  # only then may a request be waiting
            self._window += more
            if self._window > http2.MOST_WINDOW:
                raise BadFrame("a window is larger than there can be")
            if not was_full:
                return
            out: list[bytes] = []
            for each, request in list(self._streams.items()):
                if self._window <= 0:
                    break
                if request.unsent:
                    self._send_rest(each, request, out)
            self._write(b"".join(out))
            self._on_free(self)
        elif (widened := self._streams.get(number)) is not None and widened.unsent:
            out = []
            widened.window += more
            if widened.window > http2.MOST_WINDOW:
                raise BadFrame("a window is larger than there can be")
            self._send_rest(number, widened, out)
            self._write(b"".join(out))

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & http2.ACK:
            return
        out: list[bytes] = []
        window = self._stream_window
        for what, value in http2.read_settings(payload):
            if what == http2.MAX_CONCURRENT_STREAMS:
                self._most_streams = min(value, _MOST_STREAMS)
            elif what == http2.MAX_FRAME_SIZE:
                if not http2.FRAME_BYTES <= value < 1 << 24:  # a frame's length has 24 bits
                    raise BadFrame("a server takes frames of a size that there is not")
                self._frame_bytes = value
            elif what == http2.INITIAL_WINDOW_SIZE:
                window = value
        if window > http2.MOST_WINDOW:
            raise BadFrame("a window is larger than there can be")
        if window != self._stream_window:  # once, however often a frame says it
            more, self._stream_window = window - self._stream_window, window
            for number, request in list(self._streams.items()):
                request.window += more
                self._send_rest(number, request, out)
        self._write(b"".join(out))
        self._reply(http2.frame(http2.SETTINGS, http2.ACK, 0))
        self._begun()
        self._on_free(self)

    def _refused(self, number: int, payload: bytes) -> None:
        why = _number(payload)  # read first: on an error the stream must still be in the table, see ``_answered``
        request = self._streams.pop(number, None)
        if request is not None:
            # A refused stream was not processed; the server may have carried out any other.
            request.fail(
                Broken(f"the server ended the request (HTTP/2 error {why})", written=why != http2.REFUSED_STREAM)
            )

    def _end(self, payload: bytes) -> None:
        """Handle GOAWAY: streams after the last one that it names were not processed."""
        last = _number(payload) & 0x7FFFFFFF
        self.keep_alive = False
        for number in [each for each in self._streams if each > last]:
            self._streams.pop(number).fail(
                Broken("the server closes the connection", written=False, took_others=last > 0)
            )
        self._on_free(self)

    def _reply(self, data: bytes) -> None:
        """Write what the server asked for. One that asks on and on without reading would fill our memory."""
        if self._is_full:
            self._unread += 1
            if self._unread > _MOST_UNREAD:
                raise BadFrame("the server asks and does not read the replies")
        self._write(data)

    def _write(self, data: bytes) -> None:
        if data and self.transport is not None and self.is_open:
            self.transport.write(data)


def _number(payload: bytes) -> int:
    if len(payload) < 4:
        raise BadFrame("a frame is too short")
    return int(http2.number_of(payload)[0])
