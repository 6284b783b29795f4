"""Questions about masks that are asked for every pod."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def holds_somewhere(mask: NDArray[np.bool_]) -> bool:
    """Report whether one of the values is true. Looking through the bytes is many times quicker than ``any``."""
    return 1 in mask.tobytes()
