"""Costs of simulations: identical pods, a week of arrivals and departures, the openb trace. All in CPU time.

Each is a story, run as ``mooring simulate`` runs it. As a program this reads one request from its standard input, as
JSON, and prints one answer, so that each part is measured in its own process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WEEK_S = 7 * 86400


def like(pods: int, nodes: int) -> dict[str, Any]:
    """A run of identical pods that all wait from the start."""
    return {"steps": [_nodes(nodes), {"workload": {"count": pods, "name": "p-{i}", **_POD}}]}


def week(pods: int, nodes: int) -> dict[str, Any]:
    """Return a story: this many pods arrive in a week, at random times, and run for an hour on average."""
    coming = {"rate": pods / WEEK_S, "count": pods, "run": {"exponential": "1h"}, "name": "p-{i}"}
    sizes = [{**_POD, "cpu": cpu} for cpu in ("100m", "250m", "500m", "1")]
    return {"steps": [_nodes(nodes), {"workload": {**coming, "templates": sizes}}]}


_POD = {"cpu": "100m", "memory": "100Mi"}


def _nodes(count: int) -> dict[str, Any]:
    return {"nodes": {"count": count, "cpu": "32", "memory": "128Gi", "zones": ["a", "b", "c"]}}


def measure(
    story: Mapping[str, Any] | str, parameters: Mapping[str, Any], seed: int, *, is_recorded: bool = False
) -> dict[str, Any]:
    """Simulate and return the cost: with reading the file and building the cluster, without importing mooring.

    With ``is_recorded``, also return the size of the record and the cost of opening a moment of it.
    """
    from mooring.record.recorder import Recorder
    from mooring.sim.library import find
    from mooring.sim.scenario_file import scenario_of
    from mooring.sim.simulate import run_scenario

    folder = tempfile.TemporaryDirectory(prefix="mooring-bench-")
    path = Path(folder.name) / "record"
    begun = time.process_time()
    if isinstance(story, str):
        scenario = find(story, parameters)
    else:
        scenario = scenario_of(story, source="bench", folder=Path(), name="bench", given=parameters)
    recorders = [Recorder.to_file(path, source="simulation")] if is_recorded else []
    result = run_scenario(scenario, seed=seed, observers=recorders)
    for recorder in recorders:
        recorder.close()
    cpu_s = time.process_time() - begun
    record = {"record": _opened(path, result.attempts)} if is_recorded else {}
    folder.cleanup()
    return {
        "cpuSeconds": round(cpu_s, 3),
        "arrived": result.arrived,
        "placed": result.placed,
        "attempts": result.attempts,
        "nodes": result.nodes,
        "simulatedSeconds": round(result.ended_at_s, 3),
        "podsPerCpuSecond": round(result.arrived / cpu_s) if cpu_s else 0,
        "peakMiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **record,
    }


def _opened(path: Path, attempts: int) -> dict[str, float]:
    """Return the size of a record, and the CPU time to open the most expensive of some of its moments."""
    from mooring.record.reader import Record

    taken = []
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        begun = time.process_time()
        with Record.open(path) as record:
            record.moment(record.first_time + part * (record.last_time - record.first_time))
        taken.append(time.process_time() - begun)
    size = path.stat().st_size
    return {"bytes": size, "bytesPerAttempt": round(size / max(attempts, 1), 1), "openCpuSeconds": round(max(taken), 3)}


def main() -> None:
    request = json.loads(sys.stdin.readline())
    found = measure(request["story"], request["parameters"], request["seed"], is_recorded=request["isRecorded"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
