"""Numbers as people read them."""

from __future__ import annotations

import math


def share(value: float) -> str:
    """``46.6 %``; a small share that is not 0 does not look like 0."""
    per_cent = value * 100
    if 0 < per_cent < 0.1:
        return "< 0.1 %"
    return f"{per_cent:.1f} %" if per_cent < 99.95 or per_cent > 100.05 else "100 %"


def count(value: float) -> str:
    """``1,234``, ``12.3``, ``0.05``."""
    if 0 < abs(value) < 0.01:
        return "< 0.01" if value > 0 else "> -0.01"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """``120 ms``, ``4.2 s``, ``3 min 5 s``, ``2 h 10 min``, ``6 d 4 h``: two units at most."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return "0 s" if seconds < 0.0005 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {smaller_name}" if rest else "")
    raise AssertionError(seconds)


def price(value: float) -> str:
    return f"{value:,.2f}"


def nice_step(highest: float, marks: int = 4) -> float:
    """The distance of marks on an axis from 0 to ``highest``: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0
    rough = highest / marks
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def time_step(seconds: float, marks: int = 6) -> float:
    """The distance of marks on an axis of time."""
    rough = seconds / marks
    if rough < 1:
        return nice_step(seconds, marks)
    for step in _TIME_STEPS:
        if step >= rough:
            return float(step)
    return nice_step(seconds / 86400, marks) * 86400
