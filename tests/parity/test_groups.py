"""mooring does what kube-scheduler did with every recorded pod group, and with gates away from their defaults.

Nodes, messages, conditions, claims, events and victims are compared.
"""

from __future__ import annotations

from pathlib import Path

import group_corpus as corpus
import pytest

pytestmark = pytest.mark.parity

CHUNK = 24  # cases per test: small enough that two workers finish together


def chunks():
    for family in corpus.families(corpus.GROUPS, corpus.GATES):
        size = len(corpus.case_lines(family))
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            yield pytest.param(family, slice(start, end), id=f"{family} {start + 1} to {end}")


@pytest.mark.parametrize(("family", "chunk"), [*chunks()])
def test_every_recorded_case_is_scheduled_as_it_was(family: str, chunk: slice) -> None:
    found = [line for case in corpus.cases(family, chunk) for line in corpus.differences(case, corpus.replay(case))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("folder", "cases", "versions"),
    [
        pytest.param(corpus.GROUPS, 511, {"v1.37.0-rc.1"}, id="groups"),
        pytest.param(corpus.GATES, 471, {"v1.36.4", "v1.37.0-rc.1"}, id="gates"),
    ],
)
def test_the_corpus_is_whole(folder: Path, cases: int, versions: set[str]) -> None:
    assert sum(len(corpus.case_lines(family)) for family in corpus.families(folder)) == cases
    assert {case["kubernetes"] for family in corpus.families(folder) for case in corpus.cases(family)} == versions


def test_a_difference_is_seen() -> None:
    """A comparison that cannot fail would prove nothing."""
    case = next(corpus.cases("gang"))
    found = corpus.replay(case)
    first = next(iter(found[0]["pods"]))
    found[0]["pods"][first] = {"node": "elsewhere"}
    found[0]["events"] = found[0]["events"][1:]
    found[0]["rounds"] += 1
    assert len(list(corpus.differences(case, found))) == 3
