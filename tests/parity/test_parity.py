"""mooring decides every recorded step as kube-scheduler v1.36.4 did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import parity_corpus as corpus
import pytest

from mooring.engine.batching import Ranking
from mooring.engine.tie_break import heap_winner

CHUNK = 24  # cases per test: small enough that two workers finish together

pytestmark = pytest.mark.parity

REPLAYED = [family for family in corpus.families() if family not in corpus.NOT_REPLAYED]


def chunks() -> list[Any]:
    found = []
    for family in REPLAYED:
        size = len(corpus.case_lines(family))
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            found.append(pytest.param(family, slice(start, end), id=f"{family} {start + 1} to {end}"))
    return found


@pytest.mark.parametrize(("family", "chunk"), chunks())
def test_every_recorded_step_is_decided_as_it_was(
    family: str, chunk: slice, record_property: Callable[[str, object], None]
) -> None:
    tally = corpus.compare.Tally(show=20)
    surprises = []
    for case in corpus.cases(family, chunk):
        decided = corpus.replayed(case)
        tally.add(case, decided, zero_is_absent=False)
        surprises += [
            f"{case['id']} step {step} {field}: {text}"
            for step, field, text in corpus.differences(case, decided)
            if not corpus.is_known_race(case, step, field)
        ]
    record_property("parity", (family, tally.cases, tally.steps, tally.exact))
    assert not surprises, "\n".join(surprises)


def test_no_family_is_left_out() -> None:
    assert corpus.NOT_REPLAYED == {}


def test_corpus_is_whole() -> None:
    """The numbers are those that the corpus's README gives."""
    n_cases = sum(len(corpus.case_lines(family)) for family in corpus.families())
    n_steps = sum(len(case["steps"]) for family in corpus.families() for case in corpus.cases(family))
    assert (len(corpus.families()), n_cases, n_steps) == (16, 1726, 6495)


def test_verdicts_are_not_handed_in() -> None:
    case = next(case for case in corpus.cases("preemption") if any("then" in step for step in case["steps"]))
    stripped = corpus.without_verdicts(case)
    assert all("expect" not in step for step in stripped["steps"])
    waiting = corpus.without_verdicts(next(corpus.cases("requeue")))
    assert any("await" in step for step in waiting["steps"])
    assert all("expect" not in step.get("await", step) for step in waiting["steps"])
    assert all(step.get("then", {}) == {} for step in stripped["steps"])
    assert len(stripped["steps"]) == len(case["steps"])


# ---- the tie-break, given the recorded order -------------------------------------------------------------------


@pytest.mark.parametrize("family", corpus.families())
def test_heap_picks_the_recorded_node_from_the_recorded_order(family: str) -> None:
    seen = 0
    for case, step, verdict in corpus.recorded_rankings(family):
        names, totals = list(verdict["totals"]), np.array(list(verdict["totals"].values()))
        assert names[heap_winner(totals)] == verdict["node"], f"{case['id']} step {step}"
        seen += 1
    assert seen


def hinted_series() -> list[Any]:
    """Every recorded run of hints, with the ranking that they were popped from."""
    found = []
    for case in corpus.cases("batching"):
        ranking: tuple[int, dict[str, int]] | None = None
        taken: list[str] = []
        for i, step in enumerate(case["steps"]):
            verdict = step["expect"]
            if verdict.get("hint") and ranking is not None:
                taken.append(verdict["hint"])
            else:
                if taken and ranking is not None:
                    found.append(pytest.param(ranking[1], taken, id=f"{case['id']} from step {ranking[0]}"))
                taken = []
                ranking = (i, verdict["totals"]) if verdict.get("totals") else None
        if taken and ranking is not None:
            found.append(pytest.param(ranking[1], taken, id=f"{case['id']} from step {ranking[0]}"))
    return found


@pytest.mark.parametrize(("totals", "hints"), hinted_series())
def test_hints_are_the_next_pops_of_the_recorded_heap(totals: dict[str, int], hints: list[str]) -> None:
    names, values = list(totals), np.array(list(totals.values()))
    ranking = Ranking(np.arange(len(names)), values, heap_winner(values))
    assert [names[ranking.pop()] for _ in hints] == hints


@pytest.mark.parametrize(("case_id", "step"), list(corpus.KNOWN_RACES))
def test_known_races_are_races_and_still_needed(case_id: str, step: int) -> None:
    """The recorded node equals ours in everything but the order; with the recorded order we would take it, too."""
    case = next(case for case in corpus.cases(case_id.rpartition("-")[0]) if case["id"] == case_id)
    decided = corpus.replayed(case)
    assert [(i, field) for i, field, _ in corpus.differences(case, decided)] == [(step, "node")]
    verdict = case["steps"][step]["expect"]
    ranked = next(s["expect"]["totals"] for s in reversed(case["steps"][:step]) if s["expect"]["totals"])
    assert ranked[decided["steps"][step]["node"]] == ranked[verdict["node"]]
    names, values = list(ranked), np.array(list(ranked.values()))
    ranking = Ranking(np.arange(len(names)), values, heap_winner(values))
    pops = [names[ranking.pop()] for _ in range(step)]
    assert pops[-1] == verdict["node"]


def test_page_lists_every_known_race_and_every_family() -> None:
    """docs/parity.md is written by `make parity`; run it again when this fails."""
    page = (corpus.GOLDEN.parents[2] / "docs" / "parity.md").read_text(encoding="utf-8")
    assert all(f"- `{case_id}` step {step}: {why}" in page for (case_id, step), why in corpus.KNOWN_RACES.items())
    for family in REPLAYED:
        n_steps = sum(corpus.n_verdicts(case) for case in corpus.cases(family))
        assert f"| {family} | {len(corpus.case_lines(family))} | {n_steps} |" in page
    assert "not explained" not in page
