"""The recorded corpora: where they are, how they are replayed, and which recorded steps cannot be repeated.

Used by the parity tests and by ``scripts/parity.py``, which writes ``docs/parity.md``.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mooring.core.config.versions import V1_34, V1_35, V1_36, V1_37, KubernetesVersion
from mooring.sim.replay import replay_case

HERE = Path(__file__).parent
Case = dict[str, Any]


def _load_compare() -> Any:
    spec = importlib.util.spec_from_file_location("golden_compare", HERE / "golden" / "compare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compare = _load_compare()


@cache
def _lines(path: Path) -> tuple[str, ...]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(line for line in lines if line.strip())


@dataclass(frozen=True)
class Corpus:
    """What one version of kube-scheduler did."""

    version: KubernetesVersion
    folder: str
    size: tuple[int, int, int]  # families, cases, steps, as its README says
    known_races: Mapping[tuple[str, int], str]
    """Steps whose recorded node, volume or device depends on something inside kube-scheduler that no case tells."""
    draws_ties: bool = False  # whether it takes any of the nodes with the highest total, by lot

    def __str__(self) -> str:
        return str(self.version)

    def families(self) -> list[str]:
        return sorted(path.name.split(".")[0] for path in (HERE / self.folder).glob("*.jsonl.gz"))

    def case_lines(self, family: str) -> tuple[str, ...]:
        """One JSON text per case."""
        return _lines(HERE / self.folder / f"{family}.jsonl.gz")

    def cases(self, family: str, chunk: slice = slice(None)) -> Iterator[Case]:
        for line in self.case_lines(family)[chunk]:
            yield json.loads(line)

    def is_known_race(self, case: Case, step: int, field: str) -> bool:
        return field in ("node", "volumes", "devices") and (case["id"], step) in self.known_races

    def recorded_rankings(self, family: str) -> Iterator[tuple[Case, int, dict[str, Any]]]:
        """(case, step, verdict) for every recorded verdict with totals."""
        for case in self.cases(family):
            for i, step in enumerate(case["steps"]):
                for verdict in (step.get("expect"), step.get("then"), step.get("await", {}).get("expect")):
                    if verdict and verdict.get("totals"):
                        yield case, i, verdict


EQUAL_VOLUMES = (
    "Two volumes that the claim could have are of the same size. kube-scheduler takes the one that it meets first in a "
    "Go map, whose order is random; mooring takes the first by name."
)
POOL_ORDER = (
    "The claim's devices come from one of several pools. Until 1.35 kube-scheduler searches them in the order of a Go "
    "map, which is random; mooring searches them by name, as later versions do."
)

CORPORA = (
    Corpus(V1_34, "golden-1.34", (16, 829, 3082), {("dra-33", 1): POOL_ORDER}, draws_ties=True),
    Corpus(
        V1_35,
        "golden-1.35",
        (16, 682, 2407),
        {
            **dict.fromkeys((("volumes-7001", 0), ("volumes-7012", 1)), EQUAL_VOLUMES),
            **dict.fromkeys((("dra-0", 1), ("dra-26", 3), ("dra-308", 0), ("dra-322", 1), ("dra-2015", 3)), POOL_ORDER),
        },
    ),
    Corpus(
        V1_36,
        "golden",
        (16, 1726, 6495),
        {
            ("batching-26", 2): (
                "The node comes from the ranking of the pod before it, in which node-03 and node-05 have the same "
                "total (463). Which of equals is popped first depends on the order in which the search returned the "
                "nodes; kube-scheduler's began at node-01, because its filters run in parallel and its starting point "
                "outlives a case. Given the recorded order, mooring takes the recorded node."
            ),
        },
    ),
    Corpus(
        V1_37,
        "golden-1.37",
        (16, 756, 2787),
        {
            ("batching-2052", 2): (
                "The node comes from the ranking of two pods before it, in which node-01 and node-05 have the same "
                "total (426). Which of equals is popped first depends on the order in which the search returned the "
                "nodes; kube-scheduler's began at node-05. Given the recorded order, mooring takes the recorded node."
            ),
        },
    ),
)


def without_verdicts(case: Case) -> Case:
    """The case as a stranger would hand it in: no ``expect``, and ``then`` says only that a second attempt follows."""
    steps = []
    for step in case["steps"]:
        kept = {key: value for key, value in step.items() if key != "expect"}
        if "then" in kept:
            kept["then"] = {}
        if "await" in kept:
            kept["await"] = {key: value for key, value in kept["await"].items() if key != "expect"}
        steps.append(kept)
    return {**case, "steps": steps}


def differences(case: Case, decided: Case) -> list[tuple[int, str, str]]:
    """(step, field, what differs) for everything that is not as recorded, known races included."""
    found = []
    for i, (step, got) in enumerate(zip(case["steps"], decided["steps"], strict=True)):
        if "action" in step:
            continue
        parts = [("", step.get("await", step)["expect"], got)]
        if "then" in step:
            parts.append(("then ", step["then"], got.get("then") or {}))
        for label, want, have in parts:
            for field, equal, a, b in compare.check(want, have, False):
                if not equal:
                    found.append((i, label + field, compare.difference(a, b)))
    return found


def n_verdicts(case: Case) -> int:
    """The steps that end in a verdict: all but actions."""
    return sum("action" not in step for step in case["steps"])


def replayed(case: Case) -> Case:
    """Decide a case without telling what was recorded."""
    result: Case = json.loads(json.dumps(replay_case(without_verdicts(case))))
    return result
