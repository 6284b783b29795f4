"""Admission cycles of the real Kueue (v0.19.2) on random queues and workloads.

Its scheduler ran on a fake API with its own cache and queues. After each cycle its assignments and the workloads that
it had preempted, with their reasons, were written down.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.controlplane.quotas.reading import queues_of

FILE = Path(__file__).with_name("recorded.jsonl.gz")
CASES = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


@pytest.mark.parametrize("part", range(0, len(CASES), 50))
def test_cycles_admit_and_preempt_as_kueue_does(part: int) -> None:
    for number, case in enumerate(CASES[part : part + 50], part):
        assert cycles(case) == case["cycles"], f"case {number}"


def cycles(case: dict[str, Any]) -> list[dict[str, Any]]:
    quotas = queues_of(case["objects"]).quotas
    quotas.is_fair = case["fair"]
    preempted: dict[str, str] = {}
    found = []
    for _ in case["cycles"]:
        done = quotas.cycle(now=1_767_268_800.0)
        for _, victim in done.preempted:
            preempted[victim.workload.key.removeprefix("default/")] = victim.reason
        admitted = {
            workload.key.removeprefix("default/"): [dict(flavors) or None for flavors in workload.assignment.flavors]
            for queue in quotas.queues.values()
            for workload in queue.admitted.values()
            if workload.assignment is not None
        }
        found.append({"admitted": admitted, "preempted": dict(preempted)})
    return found
