"""A short story instead of a long one: steps are left out as long as the run still goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mooring.bench.virtual.plan import Plan

MAX_RUNS = 400
Fails = Callable[[Plan], list[str]]
"""Plays a plan and returns its problems."""


def shrink(
    plan: Plan, fails: Fails, told: Callable[[int, Plan], None] = lambda runs, plan: None, max_runs: int = MAX_RUNS
) -> Plan:
    """The shortest plan found that still fails: first the end is cut off, then parts are left out, large ones first.

    Any failure will do: what a shorter story shows is easier to understand, even if it shows something else.
    """
    runs = 0

    def still_fails(candidate: Plan) -> bool:
        nonlocal runs
        runs += 1
        return bool(fails(candidate))

    size = max(1, len(plan.steps) // 2)
    while runs < max_runs:
        start, is_shorter = len(plan.steps), False
        while start > 0 and runs < max_runs:
            start = max(0, start - size)
            part = set(range(start, min(start + size, len(plan.steps))))
            if not part:
                continue
            candidate = plan.without(part)
            if still_fails(candidate):
                plan, is_shorter = candidate, True
                told(runs, plan)
        if size == 1 and not is_shorter:
            break
        size = max(1, size // 2) if not is_shorter or size > 1 else 1
    last_s = max((step.at_s + step.for_s for step in plan.steps), default=0.0)
    shorter = replace(plan, seconds=min(plan.seconds, round(last_s + 1.0, 3)))
    return shorter if runs < max_runs and still_fails(shorter) else plan
