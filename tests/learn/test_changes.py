"""The explained difference of two lessons: every change has a sentence, every sentence a change."""

from __future__ import annotations

import pytest

from mooring.learn.changes import EXPLANATIONS, explained, hunks
from mooring.learn.course import lesson


@pytest.mark.parametrize("number", range(2, 8), ids=lambda n: f"from {n - 1} to {n}")
def test_every_hunk_is_explained_once_and_in_the_order_of_the_lesson(number: int) -> None:
    old, new = lesson(number - 1), lesson(number)
    changes = explained(old, new)
    assert [change.says for change in changes] == [says for says, _ in EXPLANATIONS[number]]
    shown = [lines for change in changes for lines in change.hunks]
    assert sorted(shown) == sorted(hunks(old, new))


@pytest.mark.parametrize("number", range(2, 8), ids=lambda n: f"from {n - 1} to {n}")
def test_the_hunks_hold_every_new_line(number: int) -> None:
    old, new = (
        one.source.read_text(encoding="utf-8").split("from __future__")[1] for one in map(lesson, (number - 1, number))
    )
    added = {line for lines in hunks(lesson(number - 1), lesson(number)) for line in lines if line.startswith("+ ")}
    wanted = {f"+ {line}" for line in set(new.splitlines()) - set(old.splitlines()) if line}
    assert wanted <= added
