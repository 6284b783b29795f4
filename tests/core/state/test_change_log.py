"""A log and its cursors: a follower gets every change, or learns that it must look at everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import ObjectMeta
from mooring.api.storage import CSIDriver, CSINode
from mooring.core.state import sharing as change_log
from mooring.core.state.cluster import Objects
from mooring.core.state.sharing import EVERYTHING, ChangeLog


def test_a_new_cursor_has_to_look_at_everything() -> None:
    log: ChangeLog[str] = ChangeLog()
    cursor = log.cursor()
    assert cursor.is_behind()
    assert cursor.take() is EVERYTHING
    assert not cursor.is_behind()
    assert cursor.take() == ()


def test_each_cursor_takes_what_it_has_not_seen() -> None:
    log: ChangeLog[str] = ChangeLog()
    early = log.cursor()
    early.take()
    log.note("a")
    late = log.cursor()
    late.take()
    log.note("b")
    assert early.take() == ["a", "b"]
    assert late.take() == ["b"]


def test_followers_in_step_share_one_set_of_what_changed() -> None:
    log: ChangeLog[str] = ChangeLog()
    one, other, late = log.cursor(), log.cursor(), log.cursor()
    assert one.take_distinct() is EVERYTHING
    other.take()
    for entry in ("a", "b", "a"):
        log.note(entry)
    found = one.take_distinct()
    assert found == {"a", "b"}
    assert other.take_distinct() is found
    assert late.take_distinct() is EVERYTHING
    assert one.take_distinct() == frozenset()
    log.note("a")
    assert one.take_distinct() == {"a"}
    assert other.take_distinct() == {"a"}
    log.restart()
    assert one.take_distinct() is EVERYTHING


def test_after_a_restart_everything_may_have_changed() -> None:
    log: ChangeLog[str] = ChangeLog()
    cursor = log.cursor()
    cursor.take()
    log.note("a")
    log.restart()
    log.note("b")
    assert cursor.take() is EVERYTHING
    log.note("c")
    assert cursor.take() == ["c"]


def test_a_long_log_forgets_its_older_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MAX_ENTRIES", 4)
    log: ChangeLog[int] = ChangeLog()
    cursor, slow = log.cursor(), log.cursor()
    slow.take()
    for number in range(4):
        log.note(number)
    cursor.take()
    log.note(4)
    assert slow.take() is EVERYTHING
    assert cursor.take() == [4]


@given(st.lists(st.sampled_from(["note", "restart", "take"])), st.integers(1, 5))
def test_a_follower_misses_nothing(actions: list[str], size: int) -> None:
    log: ChangeLog[int] = ChangeLog()
    cursor, number, unseen = log.cursor(), 0, set[int]()
    assert cursor.take() is EVERYTHING
    was_restarted = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_log, "MAX_ENTRIES", size)
        for action in [*actions, "take"]:
            if action == "note":
                number += 1
                log.note(number)
                unseen.add(number)
            elif action == "restart":
                log.restart()
                was_restarted = True
            else:
                changes: Any = cursor.take()
                if changes is not EVERYTHING:
                    assert not was_restarted
                    assert set(changes) == unseen
                unseen.clear()
                was_restarted = False


def node(name: str) -> CSINode:
    return CSINode(metadata=ObjectMeta(name=name))


def test_objects_log_what_came_changed_or_went_by_kind() -> None:
    objects = Objects()
    objects.put(node("a"))
    seen = objects.version(CSINode)
    objects.put(node("b"))
    objects.put(node("a"))
    objects.remove(CSINode, "b")
    objects.remove(CSINode, "never-there")
    objects.put(CSIDriver(metadata=ObjectMeta(name="another kind")))
    assert objects.log(CSINode).since(seen) == ["b", "a", "b"]
    assert objects.log(CSINode).since(objects.version(CSINode)) == ()
