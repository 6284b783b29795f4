"""A table per family at the end of a run: how many recorded steps were decided as kube-scheduler decided them."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Add up what the tests of each family noted; with xdist the notes come from all workers."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "parity" and getattr(report, "when", "") == "call":
                    version, family, *numbers = value
                    key = version, family
                    sums[key] = [a + b for a, b in zip(sums[key], numbers, strict=True)]
    for version in sorted({version for version, _ in sums}):
        rows = {family: numbers for (of, family), numbers in sums.items() if of == version}
        terminalreporter.section(f"agreement with kube-scheduler {version}")
        terminalreporter.line(f"{'family':<14}{'cases':>7}{'steps':>8}{'exact':>8}")
        for family, (n_cases, steps, exact) in sorted(rows.items()):
            terminalreporter.line(f"{family:<14}{n_cases:>7}{steps:>8}{exact:>8}")
        total = [sum(column) for column in zip(*rows.values(), strict=True)]
        terminalreporter.line(f"{'total':<14}{total[0]:>7}{total[1]:>8}{total[2]:>8}")
