"""Short ways with arrays say what NumPy's own say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.state.sharing import constant, holds_everywhere, holds_somewhere


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=4))
def test_masks(rows: list[list[bool]]) -> None:
    mask = np.array(rows, np.bool_)
    for each in (mask, mask.T, mask[:, ::2] if rows else mask):
        assert (holds_somewhere(each), holds_everywhere(each)) == (bool(each.any()), bool(each.all()))


def test_a_constant_keeps_the_kind_of_its_number() -> None:
    assert (np.array([7, 9]) // constant(2)).tolist() == [3, 4]
    assert (np.array([0.5]) * constant(100.0)).tolist() == [50.0]
