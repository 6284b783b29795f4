"""Numbers as options take them."""

from __future__ import annotations

import math
from typing import Any

import click


class Numbers(click.FloatRange):
    """A range of numbers. NaN is none: it is neither too small nor too large, and click lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number
