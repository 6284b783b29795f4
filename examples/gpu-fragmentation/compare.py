"""Compare the runs of the table with the published ones, seed by seed and percent by percent.

    python compare.py table.results analysis_allo_discrete.csv

The first is the folder of results of ``mooring sweep run table.yaml``; the second is in the study's repository,
hkust-adsl/kubernetes-scheduler-simulator, folder experiments/analysis/expected_results.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

Run = tuple[str, str, str]  # trace, policy, seed
HALF_A_HUNDREDTH = 0.011  # a mean that falls on half a hundredth may be rounded either way


def published(path: Path) -> dict[Run, dict[str, str]]:
    with path.open(newline="") as file:
        return {(row["workload"], row["sc_policy"].split("-", 1)[1], row["seed"]): row for row in csv.DictReader(file)}


def main(results: Path, table: Path) -> None:
    want = published(table)
    found: dict[tuple[str, str], list[tuple[float, float, bool]]] = defaultdict(list)
    for path in sorted(results.glob("*.json")):
        row = json.loads(path.read_text())
        values = row["values"]
        trace, policy = Path(values["pods"]).stem, values["policy"]
        theirs = want.get((trace, policy, str(values["seed"])))
        if theirs is None or row["exitCode"]:
            continue
        ours = {percent: each for percent, each in row["result"]["gpuAllocationPercent"].items() if theirs.get(percent)}
        is_same = all(abs(each - float(theirs[percent])) < HALF_A_HUNDREDTH for percent, each in ours.items())
        found[trace, policy].append((ours["130"], float(theirs["130"]), is_same))
    print(f"{'trace':<28}{'policy':<15}{'ours':>7}{'published':>11}{'runs':>6}{'the same curve':>16}")
    for (trace, policy), runs in sorted(found.items()):
        ours, theirs = (sum(run[i] for run in runs) / len(runs) for i in (0, 1))
        same = sum(run[2] for run in runs)
        print(f"{trace:<28}{policy:<15}{ours:7.2f}{theirs:11.2f}{len(runs):6}{same:16}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("expected two arguments: the folder of results and analysis_allo_discrete.csv")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
