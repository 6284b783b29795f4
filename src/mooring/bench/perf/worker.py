"""A workload in its own process, so that its memory and garbage are its own.

``python -m mooring.bench.perf.worker`` reads a request from standard input and writes a JSON value per line: progress
while it runs, results at the end. ``run_isolated`` is the caller's side.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mooring.api.errors import MooringError
from mooring.bench.own_process import own_process
from mooring.bench.perf import runner
from mooring.bench.perf.definitions import PerfWorkload, load
from mooring.bench.perf.report import PerfResult, blank
from mooring.bench.perf.runner import BenchProgress, RunOptions


def run_isolated(
    directory: Path,
    workload: PerfWorkload,
    options: RunOptions,
    on_progress: Callable[[BenchProgress], None] | None = None,
) -> list[PerfResult]:
    """Run a workload in another process."""
    request = {
        "directory": str(directory),
        "case": workload.case,
        "workload": workload.name,
        "options": asdict(options),
    }
    with own_process("mooring.bench.perf.worker", request) as process:
        for answer in process.answers():
            if "results" in answer:
                return [PerfResult.from_dict(item) for item in answer["results"]]
            if on_progress is not None:
                on_progress(BenchProgress(**answer))
    failed = blank(workload)
    failed.error = f"its process ended with exit code {process.exit_code}"
    return [failed]


def work(request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Run the workload of a request."""
    found = load(Path(request["directory"])).workloads
    workload = next(w for w in found if (w.case, w.name) == (request["case"], request["workload"]))
    options = RunOptions(**request["options"])

    def on_progress(progress: BenchProgress) -> None:
        say(asdict(progress))

    results = runner.run(workload, options, on_progress=on_progress)
    say({"results": [result.to_dict() for result in results]})


def main() -> int:
    def say(value: dict[str, Any]) -> None:
        print(json.dumps(value), flush=True)

    # Rejections are part of some workloads; results count them, and the log leaves them out.
    logging.basicConfig(level=logging.CRITICAL, stream=sys.stderr)
    try:
        work(json.load(sys.stdin), say)
    except MooringError as error:
        print(f"mooring: {error}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
