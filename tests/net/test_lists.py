"""Lists of any size: cut into items as they come, decoded, and the text forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.net import lists
from mooring.net.lists import ItemSplitter, ListReader, read_page
from mooring.net.watch_events import EventReader, Garbled, typed_kind

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


# ---- cutting ---------------------------------------------------------------------------------------------------------


def cut(body: bytes, step: int) -> tuple[list[bytes], lists.PageMeta]:
    splitter, items = ItemSplitter(), []
    for start in range(0, len(body), step):
        items += splitter.feed(body[start : start + step])
    return [item.strip() for item in items], splitter.end()


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("body", "items", "version"),
    [
        pytest.param(
            b'{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":[{}]}]}', 2, "7", id="as Go writes it"
        ),
        pytest.param(b'{"items":[{"a":1}],"kind":"L","metadata":{"resourceVersion":"7"}}', 1, "7", id="items first"),
        pytest.param(b' {\n "items" : [ {"a": 1} ,\n {} ] , "metadata": {} }\n', 2, "", id="pretty"),
        pytest.param(b'{"items":[null,5,"a,b]",[{}],true,{}]}', 6, "", id="items that are no objects"),
        pytest.param(b'{"metadata":{"items":[1]},"items":[{"items":[{}]}]}', 1, "", id="the word elsewhere"),
        pytest.param(b'{"a":"\\"items\\":[","items":[{"b":"}]\\\\"}]}', 1, "", id="brackets in texts"),
        pytest.param(b'{"items":[{"a":},{"b":1}]}', 2, "", id="an item that is no JSON"),
        pytest.param(b'{"items":[' + DEEP + b',{"b":1}]}', 2, "", id="an item of thousands of levels"),
        pytest.param(b'{"items":[]}', 0, "", id="no items"),
        pytest.param(b'{"items":null}', 0, "", id="nothing at all"),
    ],
)
def test_a_list_is_cut_into_its_items(body, items, version, step):
    step = max(step, len(body) // 200)  # a deep item byte by byte takes its time
    found, meta = cut(body, step)
    assert (len(found), meta.resource_version) == (items, version)
    assert all(item in body for item in found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["items", "]}", '\\"', "[{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.lists(VALUES, max_size=6),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.integers(1, 40),
    st.booleans(),
)
def test_any_list_comes_out_as_it_went_in(items, around, step, items_first):
    around = {"x" + key: value for key, value in around.items()}
    meta = {"metadata": {"resourceVersion": "7"}}
    page = {"items": items, **around, **meta} if items_first else {**around, **meta, "items": items}
    found, read = cut(json.dumps(page).encode(), step)
    assert [json.loads(item) for item in found] == items
    assert read.resource_version == "7"


@given(st.binary(max_size=60) | st.text('{}[]",:itemsnul\\ ', max_size=40).map(str.encode), st.integers(1, 9))
def test_any_bytes_are_items_or_no_list(body, step):
    with contextlib.suppress(Garbled):
        cut(b'{"items":[' + body, step)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"items":[{"a":1},{"b":', id="cut off in an item"),
        pytest.param(b'{"items":[{"a":1}', id="cut off between items"),
        pytest.param(b'{"items":[{"a":1}]', id="cut off behind them"),
        pytest.param(b"<html>" + b" " * 50 + b"</html>", id="a page for people"),
        pytest.param(b'{"items":[{"a":1}]}{"items":[]}', id="something behind it"),
    ],
)
def test_what_is_no_list_in_parts(body):
    with pytest.raises(Garbled, match="the answer is not a list"):
        cut(body, 5)


def test_what_is_held_is_bounded(monkeypatch):
    monkeypatch.setattr(lists, "MAX_OBJECT_BYTES", 1000)
    monkeypatch.setattr(lists, "MAX_FRAME_BYTES", 500)
    with pytest.raises(Garbled, match="an item is larger than 1,000 bytes"):
        cut(b'{"items":[{"a":"' + b"x" * 2000, 100)
    with pytest.raises(Garbled, match="too much besides its items"):
        cut(b"<html>" + b"x" * 2000, 100)
    with pytest.raises(Garbled, match="too much besides its items"):
        cut(b'{"items":[],"more":"' + b"x" * 2000, 100)


# ---- reading ---------------------------------------------------------------------------------------------------------


class Meta(msgspec.Struct):
    name: str = ""


class Thing(msgspec.Struct):
    metadata: Meta
    size: int = 0


THINGS = typed_kind("things", "v1", Thing)


async def read(body: bytes, step: int = 64 << 10) -> tuple[list[str], lists.PageMeta]:
    page = ListReader(EventReader(THINGS))
    page.begin()
    for start in range(0, len(body), step):
        await page.feed(body[start : start + step])
    meta = await page.end()
    return [item.metadata.name for item in page.objects], meta


def listed(*items: bytes, around: bytes = b'"metadata":{"resourceVersion":"7","continue":"t"}') -> bytes:
    return b"{" + around + b',"items":[' + b",".join(items) + b"]}"


def thing(name: str, padding: int = 0) -> bytes:
    return b'{"metadata":{"name":"%b"},"more":"%b"}' % (name.encode(), b"x" * padding)


@pytest.mark.parametrize("whole", [1 << 20, 10], ids=["at once", "in parts"])
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"null", id="null"),
        pytest.param(b"5", id="a number"),
        pytest.param(b'{"metadata":5}', id="another type"),
        pytest.param(b'{"metadata":{"name":"x"},"size":"big"}', id="a field of another type"),
        pytest.param(b'{"metadata":{"name":"x"},"size":}', id="no JSON"),
        pytest.param(b'{"metadata":{"name":"x\xff"}}', id="no UTF-8"),
    ],
)
async def test_an_item_that_cannot_be_read_costs_one_object_and_one_line(monkeypatch, caplog, bad, whole):
    monkeypatch.setattr(lists, "WHOLE_BYTES", whole)
    reader = EventReader(THINGS)
    for _ in range(3):
        page = ListReader(reader)
        await page.feed(listed(thing("a"), bad, thing("b")))
        meta = await page.end()
        assert [item.metadata.name for item in page.objects] == ["a", "b"]
        assert meta == lists.PageMeta("7", "t")
    assert len(caplog.records) == 1 and "is left out" in caplog.text


async def test_a_page_that_was_cut_off_is_read_again_and_earlier_pages_stay():
    page = ListReader(EventReader(THINGS))
    page.begin()
    await page.feed(listed(thing("a")))
    await page.end()
    page.begin()
    await page.feed(listed(thing("b"))[:-20])
    page.begin()
    await page.feed(listed(thing("b"), thing("c")))
    await page.end()
    assert [item.metadata.name for item in page.objects] == ["a", "b", "c"]
    page.restart()
    await page.feed(listed(thing("d")))
    await page.end()
    assert [item.metadata.name for item in page.objects] == ["d"]


async def test_a_large_list_is_never_in_memory_as_a_whole_and_others_get_their_turn():
    """40 MB of 16 kB items, of which nothing stays but a name."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    page = ListReader(EventReader(THINGS))
    beside = asyncio.create_task(others())
    chunk = b",".join(thing(f"t{number}", 16_000) for number in range(64))
    tracemalloc.start()
    try:
        page.begin()
        await page.feed(b'{"metadata":{},"items":[')
        for number in range(40):
            await page.feed(chunk + (b"," if number < 39 else b"]}"))
        await page.end()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        beside.cancel()
    assert len(page.objects) == 40 * 64
    assert peak < 4 * lists.WHOLE_BYTES
    assert turns > 100
