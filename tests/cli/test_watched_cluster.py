"""Whether a watched cluster answers, and which listeners get its objects."""

from __future__ import annotations

import pytest

from mooring.api.errors import ApiError
from mooring.cli import watched_cluster
from mooring.cli.watched_cluster import WatchReach


class Refusing:
    """Informers without the right to watch."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal

    async def wait_for_sync(self, timeout_s: float) -> bool:
        return False

    def refused(self) -> str:
        return self._refusal

    def missing(self) -> list[str]:
        return ["nodes", "pods"]


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ("nodes, pods: you may not watch nodes", "you may not watch nodes; get, list and watch are needed"),
        ("", "could not list nodes, pods within 0s"),
    ],
)
async def test_a_list_that_will_not_arrive_is_reported(
    refusal: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not refusal:
        monkeypatch.setattr(watched_cluster, "SYNC_S", 0.0)
    with pytest.raises(ApiError, match=said):
        await watched_cluster._first_lists(Refusing(refusal))  # type: ignore[arg-type]


def test_a_restart_is_not_reported_and_a_loss_is_reported_once() -> None:
    reach, told = WatchReach(), {}
    for now, trouble in enumerate(["", "a", "a", "", *["b"] * 10, "", ""]):
        told[now] = reach.look(trouble, float(now))
    assert {now: text for now, text in told.items() if text} == {
        9: "The cluster is out of reach for 5s, and is tried again and again: b",
        14: "The cluster is within reach again.",
    }
    assert reach.lost_s == 1 + 9


def test_a_loss_that_lasts_counts_as_far_as_it_was_seen() -> None:
    reach = WatchReach()
    reach.look("a", 10.0)
    reach.look("a", 13.5)
    assert reach.lost_s == 3.5
