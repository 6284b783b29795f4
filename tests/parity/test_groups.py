"""mooring does with every recorded pod group what kube-scheduler did: nodes, messages, conditions, events, victims."""

from __future__ import annotations

import group_corpus as corpus
import pytest

pytestmark = pytest.mark.parity

CHUNK = 24  # cases per test: small enough that two workers finish together
CASES = 511


def chunks():
    for family in corpus.families():
        size = len(corpus.case_lines(family))
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            yield pytest.param(family, slice(start, end), id=f"{family} {start + 1} to {end}")


@pytest.mark.parametrize(("family", "chunk"), [*chunks()])
def test_every_recorded_group_is_scheduled_as_it_was(family: str, chunk: slice) -> None:
    found = [line for case in corpus.cases(family, chunk) for line in corpus.differences(case, corpus.replay(case))]
    assert not found, "\n".join(found)


def test_the_corpus_is_whole() -> None:
    assert sum(len(corpus.case_lines(family)) for family in corpus.families()) == CASES
    assert {case["kubernetes"] for family in corpus.families() for case in corpus.cases(family)} == {"v1.37.0-rc.1"}


def test_a_difference_is_seen() -> None:
    """A comparison that cannot fail would prove nothing."""
    case = next(corpus.cases("gang"))
    found = corpus.replay(case)
    first = next(iter(found[0]["pods"]))
    found[0]["pods"][first] = {"node": "elsewhere"}
    found[0]["events"] = found[0]["events"][1:]
    found[0]["rounds"] += 1
    assert len(list(corpus.differences(case, found))) == 3
