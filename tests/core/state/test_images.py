"""Images: sizes as first reported, and on how many nodes as of each node's last change."""

from __future__ import annotations

from mooring.core.state.columns import ImageStates
from mooring.testing import make_node

SIZE = 10


def states(*nodes: str) -> ImageStates:
    images = ImageStates()
    for name in nodes:
        images.set_node(make_node(name, images={"img": SIZE}))
        images.refresh()
    return images


def on_how_many(images: ImageStates) -> dict[str, int]:
    return {name: number for name, _, number in images.holders("img")}


def test_a_node_keeps_its_number_until_it_changes_itself() -> None:
    images = states("a", "b")
    assert on_how_many(images) == {"a": 1, "b": 2}
    images.touch("a")
    assert images.is_stale
    images.refresh()
    assert on_how_many(images) == {"a": 2, "b": 2} and not images.is_stale


def test_the_version_changes_only_with_the_numbers() -> None:
    images = states("a")
    before = images.version
    images.touch("a")
    images.refresh()
    assert images.version == before
    images.set_node(make_node("b", images={"img": SIZE}))
    assert images.version != before


def test_a_removed_node_or_image_is_no_longer_counted() -> None:
    images = states("a", "b", "c")
    images.remove_node("a")
    images.set_node(make_node("b"))
    images.refresh()
    assert list(on_how_many(images)) == ["c"]
    assert images.has("c") and not images.has("b") and not images.has("a")
    images.remove_node("never-there")
    images.remove_node("c")
    assert images.holders("img") == []


def test_the_first_report_gives_the_size() -> None:
    images = states("a")
    images.set_node(make_node("b", images={"img": 99}))
    images.refresh()
    assert {size for _, size, _ in images.holders("img")} == {SIZE}


def test_copies_change_apart() -> None:
    images = states("a", "b")
    copy = images.copy()
    copy.remove_node("a")
    images.set_node(make_node("c", images={"img": SIZE}))
    for each in (images, copy):
        each.refresh()
    assert (sorted(on_how_many(images)), sorted(on_how_many(copy))) == (["a", "b", "c"], ["b"])
