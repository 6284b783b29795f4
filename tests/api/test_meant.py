"""Suggestions: the name that was probably meant."""

from __future__ import annotations

import pytest

from mooring.api.text import MOST_NAMED, hint, nearest

MANY = [f"measure{i}" for i in range(MOST_NAMED + 2)]


@pytest.mark.parametrize(
    ("name", "known", "cutoff", "want"),
    [
        pytest.param("wep", ["web", "db"], 0.6, "web", id="a slip of the pen"),
        pytest.param("wep", {"web": 1}, 0.6, "web", id="keys of a mapping"),
        pytest.param("wep", ["web"], 0.8, "", id="not near enough"),
        pytest.param("x", ["web"], 0.6, "", id="nothing near"),
        pytest.param("x", [], 0.6, "", id="nothing known"),
    ],
)
def test_nearest(name: str, known: list[str], cutoff: float, want: str) -> None:
    assert nearest(name, known, cutoff=cutoff) == want


@pytest.mark.parametrize(
    ("name", "known", "otherwise", "want"),
    [
        pytest.param("wep", ["web", "db"], "", "did you mean web?", id="one is near"),
        pytest.param("wep", ["web", "db"], "see --help", "did you mean web?", id="near goes before anything else"),
        pytest.param("x", ["web", "db"], "", "there are web, db", id="none is near"),
        pytest.param("x", ["web", "db"], "see --help", "see --help", id="none is near, and the caller knows more"),
        pytest.param("x", [], "", "there are none", id="nothing known"),
        pytest.param("x", MANY, "", f"there are {', '.join(MANY[:-2])} and 2 more", id="too many for a line"),
    ],
)
def test_hint(name: str, known: list[str], otherwise: str, want: str) -> None:
    assert hint(name, known, otherwise) == want
