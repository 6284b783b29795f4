"""The usual normalisation, in whole numbers as upstream's DefaultNormalizeScore."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.framework.interfaces import default_normalize


@pytest.mark.parametrize(
    ("scores", "plain", "reverse"),
    [
        pytest.param([0, 0], [0, 0], [100, 100], id="no node has any"),
        pytest.param([0, 1, 2, 3], [0, 33, 66, 100], [100, 67, 34, 0], id="rounded down, then turned round"),
        pytest.param([5], [100], [0], id="one node is the best"),
        pytest.param([1, 3], [33, 100], [67, 0], id="two nodes"),
        pytest.param([], [], [], id="no nodes"),
        pytest.param([100, 50], [100, 50], [0, 50], id="in range already"),
        pytest.param([2**40, 2**39], [100, 50], [0, 50], id="large numbers"),
    ],
)
def test_default_normalize(scores: list[int], plain: list[int], reverse: list[int]) -> None:
    given = np.array(scores, np.int64)
    assert default_normalize(given, reverse=False).tolist() == plain
    assert default_normalize(given, reverse=True).tolist() == reverse
    assert given.tolist() == scores, "what was given stays as it was"
