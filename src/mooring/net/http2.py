"""HTTP/2 (RFC 9113) for a client: frames, and header fields (HPACK, RFC 7541) without a dynamic table.

We announce a header table of size zero, so that every field block can be decoded by itself, and only the blocks that
are needed are. Our own fields are literals. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 3, 4, 5
REFUSED_STREAM, CANCEL = 7, 8

FRAME_BYTES = 16_384
"""Default maximum frame size of a peer, and ours."""
WINDOW = 65_535
"""Default flow control window of a peer."""
MOST_WINDOW = (1 << 31) - 1

HEAD = Struct(">HBBBL")  # of a frame: its length in two parts, its type, its flags, its stream
_SETTING = Struct(">HL")
_NUMBER = Struct(">L")
number_of = _NUMBER.unpack_from


class BadFrame(Exception):
    """The bytes are not HTTP/2, or frames are out of order."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in values))


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    if len(payload) % 6:
        raise BadFrame("a SETTINGS frame is cut off")
    return _SETTING.iter_unpack(payload)


def window_update(stream: int, more: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(more))


def reset(stream: int, why: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(why))


def without_padding(payload: bytes, flags: int) -> bytes:
    """Return the data or fields of a frame, without padding and priorities."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload or payload[0] >= end:
            raise BadFrame("a frame has more padding than it is long")
        start, end = 1, end - payload[0]
    if flags & PRIORITY:
        start += 5
    if start > end:
        raise BadFrame("a frame is too short")
    return payload[start:end]


# ---- header fields -------------------------------------------------------------------------------------------------

_STATIC_NAMES = tuple(
    """
    :authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status
    accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow
    authorization cache-control content-disposition content-encoding content-language content-length
    content-location content-range content-type cookie date etag expect expires from host if-match if-modified-since
    if-none-match if-range if-unmodified-since last-modified link location max-forwards proxy-authenticate
    proxy-authorization range referer refresh retry-after server set-cookie strict-transport-security
    transfer-encoding user-agent vary via www-authenticate
    """.split()  # noqa: SIM905
)
_STATIC_VALUES = {2: "GET", 3: "POST", 4: "/", 5: "/index.html", 6: "http", 7: "https", 16: "gzip, deflate"} | dict(
    zip(range(8, 15), ["200", "204", "206", "304", "400", "404", "500"], strict=True)
)
_INDEX_OF = {name: index for index, name in reversed(list(enumerate(_STATIC_NAMES, 1)))}
_EXACT = {(_STATIC_NAMES[index - 1], value): index for index, value in _STATIC_VALUES.items()}
_SECRET = frozenset(("authorization", "cookie", "proxy-authorization"))


def encode_field(name: str, value: str) -> bytes:
    """Encode a field: its index in the static table if it has one, else a literal that is not indexed."""
    index = _EXACT.get((name, value))
    if index is not None:
        return _integer(index, 7, 0x80)
    index = _INDEX_OF.get(name, 0)
    start = _integer(index, 4, 0x10 if name in _SECRET else 0)
    return start + (b"" if index else string(name.encode())) + string(value.encode())


def string(data: bytes) -> bytes:
    """Encode a text with its length, without Huffman coding."""
    size = len(data)
    return (size.to_bytes(1) if size < 0x7F else _integer(size, 7, 0)) + data


def _integer(value: int, bits: int, first: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    out = bytearray((first | most,))
    value -= most
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_fields(block: bytes) -> Iterator[tuple[str, str]]:
    """Decode the fields of a block."""
    at, end = 0, len(block)
    while at < end:
        first = block[at]
        if first & 0x80:
            index, at = _read_integer(block, at, 7)
            yield _static_name(index), _STATIC_VALUES.get(index, "")
            continue
        if first & 0xE0 == 0x20:  # the size of the empty table
            _, at = _read_integer(block, at, 5)
            continue
        index, at = _read_integer(block, at, 6 if first & 0x40 else 4)
        if index:
            name = _static_name(index)
        else:
            name, at = _read_string(block, at)
        value, at = _read_string(block, at)
        yield name, value


def _static_name(index: int) -> str:
    if not 1 <= index <= len(_STATIC_NAMES):
        raise BadFrame("a header field is one of a table that we have not asked for")
    return _STATIC_NAMES[index - 1]


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in range(0, 35, 7):
        if at >= len(block):
            break
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise BadFrame("a number in a header field has no end")


def _read_string(block: bytes, at: int) -> tuple[str, int]:
    if at >= len(block):
        raise BadFrame("a header field is cut off")
    is_packed = block[at] & 0x80
    size, at = _read_integer(block, at, 7)
    data = block[at : at + size]
    if len(data) < size:
        raise BadFrame("a header field is cut off")
    return (_unpacked(data) if is_packed else data).decode("latin-1"), at + size


# Number of bits of each byte in the code of RFC 7541, in base 31; codes of one length are consecutive.
_BITS = (
    "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6ca"
    "d67777777777777777777777878djde6f56565666577666567655677777fbeds"
    "kmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn"
    "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq"
)


def _unpacked(data: bytes) -> bytes:
    """Decode Huffman coding bit by bit, which is fast enough: only fields of errors are ever decoded."""
    out, code, bits = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            symbol = _SYMBOLS.get((bits, code))
            if symbol is not None:
                out.append(symbol)
                code, bits = 0, 0
    if bits > 7 or code != (1 << bits) - 1:
        raise BadFrame("a header field is not in its code")
    return bytes(out)


def _codes() -> dict[tuple[int, int], int]:
    found, code, length = {}, 0, 0
    lengths = [int(each, 31) for each in _BITS]
    for symbol in sorted(range(256), key=lambda each: (lengths[each], each)):
        code <<= lengths[symbol] - length
        length = lengths[symbol]
        found[length, code] = symbol
        code += 1
    return found


_SYMBOLS = _codes()
