#!/usr/bin/env python3
"""Run the same commands with the sources of two checkouts, and compare to the byte what they print and write.

Usage: scripts/compare_outputs.py OLD NEW [--list]

A restructuring must change nothing that a user sees: text, JSON, exit codes, records, reports. What commands write goes
to a temporary folder. Exit code 1 if anything differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = (
    "explain --cluster examples/02-explain/cluster.yaml --pod examples/02-explain/report.yaml",
    "explain --cluster examples/02-explain/cluster.yaml --pod examples/02-explain/web.yaml -o json",
    "explain podgroup/ml/train-1 --cluster examples/pod-groups/cluster.yaml",
    "capacity --cluster examples/what-if/cluster.yaml --pod examples/02-explain/web.yaml -o json",
    "drill --cluster examples/what-if/cluster.yaml --lose zone",
    "plan --cluster examples/what-if/cluster.yaml --types examples/what-if/types.yaml --pod examples/what-if/more.yaml",
    "diff --cluster examples/what-if/cluster.yaml --version 1.36 1.37 -o json",
    "lint examples/04-lint --cluster examples/what-if/cluster.yaml",
    "decide tests/parity/golden/taints.jsonl.gz",
    "config convert examples/configurations/policy.json",
    "scenario run --virtual-time preemption --record {out}/preemption.mooring",
    "scenario run --virtual-time volumes",
    "simulate examples/05-sweep/day.yaml --record {out}/day.mooring -o json",
    "simulate examples/gpu-fragmentation/openb.yaml --set nodes=examples/gpu-fragmentation/small/nodes.csv "
    "--set pods=examples/gpu-fragmentation/small/pods.csv --set policy=FGD --seed 42 --record {out}/gpus.mooring",
    "replay {out}/day.mooring --open 1",
    "report {out}/day.mooring -o {out}/day.html",
    "learn diff 1 2",
)


def run(source: Path, command: str, out: Path) -> tuple[int, bytes, bytes]:
    """Run a command of one checkout on its own examples."""
    words = command.format(out=out).split()
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "mooring", *words], cwd=source, env=environment, capture_output=True, check=False
    )
    return done.returncode, done.stdout.replace(bytes(out), b"OUT"), done.stderr.replace(bytes(out), b"OUT")


def main() -> int:
    if sys.argv[-1] == "--list":
        print(*COMMANDS, sep="\n")
        return 0
    old, new = (Path(path).resolve() for path in sys.argv[1:3])
    differing = 0
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        folders = Path(first), Path(second)
        for command in COMMANDS:
            before, after = (run(source, command, out) for source, out in zip((old, new), folders, strict=True))
            what = [name for name, a, b in zip(("code", "stdout", "stderr"), before, after, strict=True) if a != b]
            differing += bool(what)
            size = len(after[1]) + len(after[2])
            print(f"{'DIFFERS in ' + ', '.join(what) if what else 'same'}: {size} bytes, exit {after[0]}: {command}")
        for path in sorted(folders[0].iterdir()):
            other = folders[1] / path.name
            same = other.is_file() and path.read_bytes() == other.read_bytes()
            differing += not same
            print(f"{'same' if same else 'DIFFERS'}: {path.stat().st_size} bytes: {path.name}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
