"""The lines of a watch: cutting them out, and reading them."""

from __future__ import annotations

import msgspec
import pytest

from mooring.net.errors import Gone, ServerError
from mooring.net.watch_events import (
    BookmarkMeta,
    EventReader,
    Garbled,
    LineSplitter,
    ResourceKind,
    TypedEvent,
    typed_kind,
)


class Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct):
    metadata: Meta
    size: int = 0


SHARED: list[Thing] = []
_decode_thing = msgspec.json.Decoder(TypedEvent[Thing]).decode


def decode_and_share(line: bytes) -> TypedEvent[Thing]:
    event = _decode_thing(line)
    SHARED.append(event.object)
    return event


QUICK = typed_kind("things", "v1", Thing, share=SHARED.append, decode_event=decode_and_share)
SLOW = ResourceKind("things", "v1", msgspec.json.Decoder(Thing).decode, share=SHARED.append)
DEEP = b'{"metadata":{"name":"a"},"size":3,"opaque":' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.mark.parametrize(
    ("chunks", "want"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="whole lines"),
        pytest.param([b"a", b"b", b"c\nd"], [b"abc"], id="a line in pieces, and an unfinished one"),
        pytest.param([b"a\n", b"\n\n", b"b\n"], [b"a", b"b"], id="empty lines are nothing"),
        pytest.param([b"", b"a\nb", b"\nc\n"], [b"a", b"b", b"c"], id="cut at the newline"),
    ],
)
def test_line_splitter(chunks, want):
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == want


@pytest.fixture(params=[pytest.param(QUICK, id="in one pass"), pytest.param(SLOW, id="split first")])
def reader(request) -> EventReader[Thing]:
    SHARED.clear()
    return EventReader(request.param)


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change(reader, type_):
    line = b'{"type":"%s","object":{"metadata":{"name":"a"},"size":3}}' % type_.encode()
    found, item, mark = reader.read(line)
    assert (found, item.metadata.name, item.size, mark) == (type_, "a", 3, None)
    assert [item] == SHARED, "its parts may be shared"


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED"])
def test_a_change_of_an_object_that_is_nested_thousands_of_levels_deep(type_):
    _, item, _ = EventReader(QUICK).read(b'{"type":"%s","object":%s}' % (type_.encode(), DEEP))
    assert (item.metadata.name, item.size) == ("a", 3)


def test_a_bookmark(reader):
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"a":"b"}}}}'
    assert reader.read(line) == ("BOOKMARK", None, BookmarkMeta("7", {"a": "b"}))


def test_an_object_that_cannot_be_read_is_left_out_with_a_line(reader, caplog):
    assert reader.read(b'{"type":"ADDED","object":{"metadata":{"name":"a"},"size":"big"}}') == ("ADDED", None, None)
    assert "things: an object that cannot be read is left out (ADDED)" in caplog.text


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param(b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"old"}}', Gone, id="410"),
        pytest.param(b'{"type":"ERROR","object":{"reason":"Gone"}}', Gone, id="410 by its reason alone"),
        pytest.param(b'{"type":"ERROR","object":{"code":500,"message":"x"}}', ServerError, id="500"),
        pytest.param(b'{"type":"ERROR","object":[]}', ServerError, id="an error without a Status"),
        pytest.param(b'{"type":"RENAMED","object":{}}', Garbled, id="a type that does not exist"),
        pytest.param(b'{"type":"BOOKMARK","object":{}}', Garbled, id="a bookmark without metadata"),
        pytest.param(b'{"object":{}}', Garbled, id="no type"),
        pytest.param(b"404 page not found", Garbled, id="no JSON"),
        pytest.param(b"", Garbled, id="nothing"),
    ],
)
def test_what_is_no_change(reader, line, error):
    with pytest.raises(error):
        reader.read(line)
