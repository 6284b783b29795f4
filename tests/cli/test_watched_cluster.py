"""Whether a watched cluster is heard of, and who is told."""

from __future__ import annotations

from mooring.cli.watched_cluster import Reach


def test_a_restart_is_not_worth_a_word_and_a_loss_is_told_once() -> None:
    reach, told = Reach(), {}
    for now, trouble in enumerate(["", "a", "a", "", *["b"] * 10, "", ""]):
        told[now] = reach.look(trouble, float(now))
    assert {now: text for now, text in told.items() if text} == {
        9: "The cluster is out of reach for 5s, and is tried again and again: b",
        14: "The cluster is within reach again.",
    }
    assert reach.lost_s == 1 + 9


def test_a_loss_that_lasts_counts_as_far_as_it_was_seen() -> None:
    reach = Reach()
    reach.look("a", 10.0)
    reach.look("a", 13.5)
    assert reach.lost_s == 3.5
