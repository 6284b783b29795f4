"""Moments that lie near each other are those that the record gives, in whatever order they are asked for."""

from __future__ import annotations

import pytest

from mooring.api.errors import InputError
from mooring.show import source as moments
from mooring.show.source import Moments


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6, 7, 8), (8, 7, 6, 1, 5, 3), (4, 8, 4, 1)])
@pytest.mark.parametrize("sizes", [(64, 1000, 32, 2048), (1, 2, 2, 4)], ids=["one opening", "many openings"])
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
