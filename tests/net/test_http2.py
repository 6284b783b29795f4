"""HTTP/2's frames and header fields, with the examples of RFC 7541."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.net import http2
from mooring.net.http2 import BadFrame, decode_fields, encode_field

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300)


@given(st.lists(st.tuples(st.one_of(NAMES, st.sampled_from(http2._STATIC_NAMES)), VALUES), max_size=8))
def test_fields_that_are_written_are_read_back(fields):
    assert list(decode_fields(b"".join(encode_field(*field) for field in fields))) == fields


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        pytest.param("828684410f7777772e6578616d706c652e636f6d", [
            (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")
        ], id="C.3.1"),
        pytest.param("828684418cf1e3c2e5f23a6ba0ab90f4ff", [
            (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")
        ], id="C.4.1, packed"),
        pytest.param("4803333032580770726976617465", [(":status", "302"), ("cache-control", "private")], id="C.5.1"),
        pytest.param(
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            [
                (":status", "302"),
                ("cache-control", "private"),
                ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
                ("location", "https://www.example.com"),
            ],
            id="C.6.1, packed",
        ),
        pytest.param(
            "400a637573746f6d2d6b65790d637573746f6d2d686561646572", [("custom-key", "custom-header")], id="C.2.1"
        ),
        pytest.param("203fe11f88", [(":status", "200")], id="sizes of a table"),
    ],
)  # fmt: skip
def test_fields_of_the_standard_are_understood(block, fields):
    assert list(decode_fields(bytes.fromhex(block))) == fields


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("be", id="a field of a table that there is not"),
        pytest.param("80", id="field number zero"),
        pytest.param("4803", id="a text that is cut off"),
        pytest.param("48", id="no text"),
        pytest.param("0f", id="half a number"),
        pytest.param("0fffffffffffffff7f", id="a number without end"),
        pytest.param("488264fe", id="a code that does not end"),
    ],
)
def test_what_is_no_field_is_refused(block):
    with pytest.raises(BadFrame):
        list(decode_fields(bytes.fromhex(block)))


@given(st.binary(max_size=40))
def test_no_bytes_do_more_than_be_refused(block):
    with contextlib.suppress(BadFrame):
        list(decode_fields(block))


def test_secrets_are_never_to_be_remembered():
    assert encode_field("authorization", "Bearer x")[0] & 0xF0 == 0x10


@pytest.mark.parametrize(
    ("payload", "flags", "found"),
    [
        pytest.param(b"\x02abXX", http2.PADDED, b"ab", id="padded"),
        pytest.param(b"12345ab", http2.PRIORITY, b"ab", id="with a priority"),
        pytest.param(b"\x0112345abX", http2.PADDED | http2.PRIORITY, b"ab", id="both"),
        pytest.param(b"\x05ab", http2.PADDED, None, id="more padding than there is"),
        pytest.param(b"", http2.PADDED, None, id="nothing at all"),
        pytest.param(b"123", http2.PRIORITY, None, id="half a priority"),
    ],
)
def test_padding_is_left_out(payload, flags, found):
    if found is None:
        with pytest.raises(BadFrame):
            http2.without_padding(payload, flags)
    else:
        assert http2.without_padding(payload, flags) == found
