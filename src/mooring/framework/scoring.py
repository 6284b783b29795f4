"""Arithmetic that score plugins share."""

from __future__ import annotations

import numpy as np

from mooring.framework.interfaces import MAX_NODE_SCORE, Scores


def default_normalize(scores: Scores, *, reverse: bool) -> Scores:
    """Scale so that the largest becomes 100; reversed, so that it becomes 0."""
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled
