"""What is done with arrays for every pod, in the ways that take NumPy the least time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def constant(number: int | float) -> NDArray[Any]:
    """A number as an array. An operation on a few nodes takes half as long with it as with a number of Python's."""
    return np.array(number)


def holds_somewhere(mask: NDArray[np.bool_]) -> bool:
    """Report whether one of the values is true. Looking through the bytes is many times quicker than ``any``."""
    return 1 in mask.tobytes()


def holds_everywhere(mask: NDArray[np.bool_]) -> bool:
    """Report whether all values are true, in the same way."""
    return 0 not in mask.tobytes()
