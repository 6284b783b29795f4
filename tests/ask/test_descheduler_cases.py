"""What the real descheduler evicts from random clusters by random policies, and what ``deschedule`` says of the same.

Recorded from the dry run of descheduler 0.36, with plugins, limits and arguments of the DefaultEvictor at random.
Where upstream iterates over maps (which of equal pods leaves), owners are compared instead of names.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mooring
from mooring.ask.deschedule import deschedule

CASES = [
    msgspec.json.decode(line)
    for line in gzip.decompress((Path(__file__).parent / "descheduler_cases.jsonl.gz").read_bytes()).splitlines()
]
EQUALS_LEAVE_AT_RANDOM = {"RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint"}
BY_PLUGIN: dict[str, list[Any]] = defaultdict(list)
for case in CASES:
    BY_PLUGIN[" and ".join(each["name"] for each in case["policy"]["profiles"][0]["pluginConfig"][1:])].append(case)


def owners(case: Any) -> dict[str, str]:
    pods = [each["metadata"] for each in case["objects"] if each["kind"] == "Pod"]
    return {f"{pod['namespace']}/{pod['name']}": pod.get("ownerReferences", [{"name": ""}])[0]["name"] for pod in pods}


def named(case: Any, evicted: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    enabled = {each["name"] for each in case["policy"]["profiles"][0]["pluginConfig"]}
    names = owners(case) if enabled & EQUALS_LEAVE_AT_RANDOM else {}
    return sorted((names.get(pod, pod), plugin, node) for pod, plugin, node in evicted)


@pytest.mark.parametrize("plugins", sorted(BY_PLUGIN))
def test_the_same_pods_leave(plugins: str) -> None:
    for case in BY_PLUGIN[plugins]:
        cluster = mooring.load({"apiVersion": "v1", "kind": "List", "items": case["objects"]})
        found = deschedule(cluster, case["policy"], now=case["now"])
        mine = [(move.pod, move.plugin, move.source) for move in found.moves]
        assert named(case, mine) == named(case, case["evicted"]), case["name"]


def test_every_plugin_evicts_somewhere() -> None:
    assert len({plugin for case in CASES for _, plugin, _ in case["evicted"]}) == 8
    assert sum(bool(case["evicted"]) for case in CASES) > 150
