"""mooring decides every recorded step as kube-scheduler did, version by version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import parity_corpus as corpus
import pytest

from mooring.core.engine.batching import Ranking
from mooring.core.engine.order import heap_winner

CHUNK = 24  # cases per test: small enough that two workers finish together

pytestmark = pytest.mark.parity

FAMILIES = [pytest.param(each, family, id=f"{each} {family}") for each in corpus.CORPORA for family in each.families()]


def chunks() -> list[Any]:
    found = []
    for each in corpus.CORPORA:
        for family in each.families():
            size = len(each.case_lines(family))
            for start in range(0, size, CHUNK):
                end = min(start + CHUNK, size)
                named = f"{each} {family} {start + 1} to {end}"
                found.append(pytest.param(each, family, slice(start, end), id=named))
    return found


@pytest.mark.parametrize(("recorded", "family", "chunk"), chunks())
def test_every_recorded_step_is_decided_as_it_was(
    recorded: corpus.Corpus, family: str, chunk: slice, record_property: Callable[[str, object], None]
) -> None:
    tally = corpus.compare.Tally(show=20)
    surprises = []
    for case in recorded.cases(family, chunk):
        decided = corpus.replayed(case)
        tally.add(case, decided, zero_is_absent=False)
        surprises += [
            f"{case['id']} step {step} {field}: {text}"
            for step, field, text in corpus.differences(case, decided)
            if not recorded.is_known_race(case, step, field)
        ]
    record_property("parity", (recorded.version.tag, family, tally.cases, tally.steps, tally.exact))
    assert not surprises, "\n".join(surprises)


@pytest.mark.parametrize("recorded", corpus.CORPORA, ids=str)
def test_corpus_is_whole(recorded: corpus.Corpus) -> None:
    """The numbers are those that the corpus's README gives, and every case is of its version."""
    families = recorded.families()
    n_cases = sum(len(recorded.case_lines(family)) for family in families)
    cases = [case for family in families for case in recorded.cases(family)]
    assert (len(families), n_cases, sum(len(case["steps"]) for case in cases)) == recorded.size
    assert {case["kubernetes"] for case in cases} == {recorded.version.tag}


def test_verdicts_are_not_handed_in() -> None:
    recorded = next(each for each in corpus.CORPORA if each.folder == "golden")
    case = next(case for case in recorded.cases("preemption") if any("then" in step for step in case["steps"]))
    stripped = corpus.without_verdicts(case)
    assert all("expect" not in step for step in stripped["steps"])
    waiting = corpus.without_verdicts(next(recorded.cases("requeue")))
    assert any("await" in step for step in waiting["steps"])
    assert all("expect" not in step.get("await", step) for step in waiting["steps"])
    assert all(step.get("then", {}) == {} for step in stripped["steps"])
    assert len(stripped["steps"]) == len(case["steps"])


# ---- the tie-break, given the recorded order -------------------------------------------------------------------


@pytest.mark.parametrize(("recorded", "family"), FAMILIES)
def test_heap_picks_the_recorded_node_from_the_recorded_order(recorded: corpus.Corpus, family: str) -> None:
    seen = 0
    for case, step, verdict in recorded.recorded_rankings(family):
        names, totals = list(verdict["totals"]), np.array(list(verdict["totals"].values()))
        if recorded.draws_ties:
            assert verdict["totals"][verdict["node"]] == totals.max(), f"{case['id']} step {step}"
        else:
            assert names[heap_winner(totals)] == verdict["node"], f"{case['id']} step {step}"
        seen += 1
    assert seen


def hinted_series() -> list[Any]:
    """Every recorded run of hints, with the ranking that they were popped from."""
    found = []
    for case in (case for each in corpus.CORPORA for case in each.cases("batching")):
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


def races(*, among: str | None) -> list[Any]:
    """Known races for this reason; None: those between nodes, each of which has a reason of its own."""
    return [
        pytest.param(each, case_id, step, id=f"{each} {case_id} step {step}")
        for each in corpus.CORPORA
        for (case_id, step), why in each.known_races.items()
        if (why if why in (corpus.EQUAL_VOLUMES, corpus.POOL_ORDER) else None) == among
    ]


def case_named(recorded: corpus.Corpus, case_id: str) -> corpus.Case:
    return next(case for case in recorded.cases(case_id.rpartition("-")[0]) if case["id"] == case_id)


@pytest.mark.parametrize(("recorded", "case_id", "step"), races(among=corpus.EQUAL_VOLUMES))
def test_volumes_that_differ_are_of_the_same_size(recorded: corpus.Corpus, case_id: str, step: int) -> None:
    case = case_named(recorded, case_id)
    decided = corpus.replayed(case)
    sizes = {
        each["metadata"]["name"]: each["spec"]["capacity"]
        for each in case["objects"]
        if each["kind"] == "PersistentVolume"
    }
    assert (step, "volumes") in [(i, field) for i, field, _ in corpus.differences(case, decided)]
    for claim, want in case["steps"][step]["expect"]["volumes"].items():
        assert sizes[want["volume"]] == sizes[decided["steps"][step]["volumes"][claim]["volume"]]


@pytest.mark.parametrize(("recorded", "case_id", "step"), races(among=corpus.POOL_ORDER))
def test_devices_that_differ_are_of_other_pools(recorded: corpus.Corpus, case_id: str, step: int) -> None:
    case = case_named(recorded, case_id)
    decided = corpus.replayed(case)
    assert [(i, field) for i, field, _ in corpus.differences(case, decided)] == [(step, "devices")]
    pools = [
        [result["pool"] for results in verdict["devices"].values() for result in results]
        for verdict in (case["steps"][step]["expect"], decided["steps"][step])
    ]
    assert pools[0] != pools[1]


@pytest.mark.parametrize(("recorded", "case_id", "step"), races(among=None))
def test_known_races_are_races_and_still_needed(recorded: corpus.Corpus, case_id: str, step: int) -> None:
    """The recorded node equals ours in everything but the order; with the recorded order we would take it, too."""
    case = case_named(recorded, case_id)
    decided = corpus.replayed(case)
    assert [(i, field) for i, field, _ in corpus.differences(case, decided)] == [(step, "node")]
    verdict = case["steps"][step]["expect"]
    ranked = next(s["expect"]["totals"] for s in reversed(case["steps"][:step]) if s["expect"]["totals"])
    assert ranked[decided["steps"][step]["node"]] == ranked[verdict["node"]]
    names, values = list(ranked), np.array(list(ranked.values()))
    ranking = Ranking(np.arange(len(names)), values, heap_winner(values))
    pops = [names[ranking.pop()] for _ in range(step)]
    assert pops[-1] == verdict["node"]


@pytest.mark.parametrize("recorded", corpus.CORPORA, ids=str)
def test_page_lists_every_known_race_and_every_family(recorded: corpus.Corpus) -> None:
    """docs/parity.md is written by `make parity`; run it again when this fails."""
    page = (corpus.HERE.parents[1] / "docs" / "parity.md").read_text(encoding="utf-8")
    named = {line.removeprefix("- ") for line in page.splitlines() if line.startswith("- `")}
    for (case_id, step), why in recorded.known_races.items():
        assert any(f"`{case_id}` step {step}" in line and line.endswith(why) for line in named)
    overview = {row[1].strip(): row for row in (line.split("|") for line in page.splitlines()) if len(row) == 7}
    column = [cell.strip() for cell in overview["family"]].index(str(recorded))
    for family in recorded.families():
        n_steps = sum(corpus.n_verdicts(case) for case in recorded.cases(family))
        assert overview[family][column].endswith(f" / {n_steps} ")
    assert "not explained" not in page
