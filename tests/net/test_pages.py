"""Pages of a list."""

from __future__ import annotations

import pytest

from mooring.net.watch_events import Garbled, read_page

DEEP = b'{"a":' * 3000 + b"1" + b"}" * 3000


@pytest.mark.parametrize(
    ("body", "version", "token", "items"),
    [
        pytest.param(
            b'{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"a":1},2]}', "7", "t", 2, id="a page of many"
        ),
        pytest.param(b'{"metadata":{"resourceVersion":"7"},"items":[]}', "7", "", 0, id="the last page"),
        pytest.param(b'{"metadata":{},"items":null}', "", "", 0, id="nothing at all, as Go writes it"),
        pytest.param(b'{"items":[' + DEEP + b",{}]}", "", "", 2, id="an object of thousands of levels"),
    ],
)
def test_a_page(body, version, token, items):
    page = read_page(body)
    assert (page.metadata.resource_version, page.metadata.continue_, len(page.items or ())) == (version, token, items)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>", id="a page for people"),
        pytest.param(b"[]", id="a bare list"),
        pytest.param(b'{"items":{}}', id="items that are no list"),
        pytest.param(DEEP[:-1], id="deep, and cut off"),
    ],
)
def test_what_is_no_page(body):
    with pytest.raises(Garbled, match="the answer is not a list"):
        read_page(body)
