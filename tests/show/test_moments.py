"""Moments that lie near each other are those that the record gives, in whatever order they are asked for."""

from __future__ import annotations

import pytest

from mooring.api.errors import InputError
from mooring.show import source as moments
from mooring.show.source import Moments


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6, 7, 8), (8, 7, 6, 1, 5, 3), (4, 8, 4, 1)])
@pytest.mark.parametrize("sizes", [(64, 1000, 128, 8192), (1, 2, 2, 4)], ids=["one opening", "many openings"])
def test_any_order_gives_the_same_moments(story, order, sizes, monkeypatch: pytest.MonkeyPatch):
    for name, size in zip(("BEFORE", "AHEAD", "EVERY", "MOST"), sizes, strict=True):
        monkeypatch.setattr(moments, name, size)
    opener = story("zone-spread").source.opener()
    near = Moments(opener)
    for number in order:
        found, wanted = near.at(number), opener().attempt(number)
        assert (found.time, found.attempt) == (wanted.time, wanted.attempt)
        assert found.queue == wanted.queue
        assert found.explain().to_dict() == wanted.explain().to_dict()


def test_an_attempt_that_is_not_there_is_refused(story):
    with pytest.raises(InputError, match="there is no attempt"):
        Moments(story("zone-spread").source.opener()).at(99)


def test_the_end_is_the_moment_after_everything(story):
    opener = story("zone-spread").source.opener()
    near = Moments(opener)
    near.at(2)
    for found in (near.at_end(), near.at_end()):  # also when everything was played already
        wanted = opener().moment(opener().last_time)
        assert (found.time, found.attempt, found.queue) == (wanted.time, None, wanted.queue)
        assert found.cluster.table().rows == wanted.cluster.table().rows
    assert near.at(3).attempt == opener().attempt(3).attempt
