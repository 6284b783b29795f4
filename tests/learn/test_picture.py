"""Pictures of lessons are drawn from what their schedulers do, and those on the site are up to date."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mooring.learn.course import LESSONS, Lesson, lesson
from tools.draw_lessons import FOLDER, svg, watch


@pytest.mark.parametrize("one", LESSONS, ids=lambda one: f"lesson {one.number}")
def test_the_picture_on_the_site_is_that_of_the_code(one: Lesson) -> None:
    """If not: python -m tools.draw_lessons."""
    drawn = svg(one)
    ElementTree.fromstring(drawn)
    assert (FOLDER / f"lesson-{one.number}.svg").read_text(encoding="utf-8") == drawn


def test_a_picture_shows_waiting_waking_refusals_and_scores() -> None:
    found, scores = watch(lesson(5))
    seen = [(box.pod, box.kind, box.text) for box in found]
    assert ("pod7", "waits", "… 7 s") in seen
    assert seen.index(("pod7", "waits", "… 7 s")) < seen.index(("pod7", "bound", "✓ node7"))
    assert scores[0][0] == "pod7"
    assert max(scores[0][1], key=scores[0][1].__getitem__) == "node7"
    assert [box.text for box in watch(lesson(7))[0] if box.kind == "woken"] == ["NodeAdd", "NodeAdd", "NodeUpdate"]
    assert [box.text for box in watch(lesson(6))[0] if box.kind == "refused"] == ["✗ 0/9", "✗ error"]
