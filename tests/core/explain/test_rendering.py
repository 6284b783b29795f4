"""How an explanation looks: on a terminal and in a file, placed, refused, gated, with victims and notes."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from mooring.core.engine.decision import Outcome
from mooring.core.explain.decision import NodeShare, RefusalRow, Victim
from mooring.core.explain.remedies import Suggestion
from mooring.core.explain.why import Explanation, draw


def explanation(outcome: Outcome = Outcome.UNSCHEDULABLE, **fields: Any) -> Explanation:
    """What is drawn, with values of our own instead of those of a decision."""
    found = {
        "pod": "shop/web",
        "outcome": outcome,
        "is_scheduled": outcome is Outcome.SCHEDULED,
        "node": None,
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "num_nodes": 2,
        "feasible_nodes": 0,
        "scores": [],
        "ties": 0,
        "refusals": [],
        "suggestions": [],
        "nominated_node": "",
        "victims": [],
        "notes": [],
    }
    return cast(Explanation, SimpleNamespace(**{**found, **fields}))


def drawn(found: Explanation, *, width: int = 0, top: int = 5, **options: Any) -> list[str]:
    """The lines; ``width`` makes it a terminal of so many columns."""
    file = io.StringIO()
    to = Console(file=file, width=width or 10_000, force_terminal=bool(width), color_system=None, highlight=False)
    draw(to, found, top, **options)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def share(node: str, **shares: int) -> NodeShare:
    return NodeShare(node, sum(shares.values()), shares)


PLACED = explanation(
    Outcome.SCHEDULED,
    node="a",
    num_nodes=4,
    feasible_nodes=3,
    ties=2,
    scores=[
        share("a", TaintToleration=300, NodeResourcesFit=90, ImageLocality=0),
        share("b", TaintToleration=300, NodeResourcesFit=90, ImageLocality=0),
        share("c", TaintToleration=300, NodeResourcesFit=10, ImageLocality=0),
    ],
    refusals=[RefusalRow("NodeName", "UNSCHEDULABLE", ("not this one",), ("d",))],
)


def test_a_placement_in_a_file() -> None:
    assert drawn(PLACED, top=2) == [
        "shop/web goes to a",
        "3 of 4 nodes can take it; 2 are equally good, and the first in kube-scheduler's order wins.",
        "",
        "NODE   TOTAL   TaintToleration   NodeResourcesFit",
        "a      390     300               90",
        "b      390     300               90",
        "0 everywhere: ImageLocality",
        "… and 1 more (--top N shows N)",
        "",
        "NODES   REFUSED BECAUSE   PLUGIN     WHICH",
        "1       not this one      NodeName   d",
    ]


def test_a_narrow_terminal_breaks_names_between_their_words() -> None:
    lines = drawn(PLACED, width=60)
    assert all(len(line) <= 60 for line in lines)
    header = lines[lines.index("") + 1 :]
    assert "Taint" in header[0] + header[1] and not any("TaintToleration" in line for line in header[:4])


def test_one_feasible_node_has_no_scores() -> None:
    found = explanation(Outcome.SCHEDULED, node="a", feasible_nodes=1, num_nodes=1)
    assert drawn(found) == ["shop/web goes to a", "1 of 1 node can take it, so nothing had to be scored."]


SUGGESTIONS = [
    Suggestion(("500m less CPU",), ("request",), ("a",), 1.0),
    Suggestion(("tolerate x:NoSchedule",), ("toleration",), ("b", "c"), 2.0),
]


def test_a_refusal_has_reasons_facts_victims_and_help() -> None:
    found = explanation(
        refusals=[
            RefusalRow("Fit", "UNSCHEDULABLE", ("Insufficient cpu", "Insufficient memory"), ("b",)),
            RefusalRow("Taints", "UNRESOLVABLE", ("untolerated",), tuple(f"n{i}" for i in range(9))),
            RefusalRow("Fit", "UNRESOLVABLE", ("Insufficient cpu", "Insufficient memory"), ("c",)),
        ],
        notes=["cpu: 4 asked for, at most 2 free (on b)", "no [bold]markup[/bold] here"],
        nominated_node="b",
        victims=[Victim("shop/old", 3, ("shop/budget",)), Victim("shop/older", 0)],
        suggestions=SUGGESTIONS,
    )
    assert drawn(found) == [
        "shop/web fits nowhere",
        "0/2 nodes are available: 2 Insufficient cpu.",
        "",
        "NODES   REFUSED BECAUSE                         PLUGIN   WHICH",
        "9       untolerated                             Taints   n0, n1, n2, n3, n4, n5 and 3 more",
        "2       Insufficient cpu, Insufficient memory   Fit      b, c",
        "",
        "Note: cpu: 4 asked for, at most 2 free (on b)",
        "Note: no [bold]markup[/bold] here",
        "",
        "Room can be made on b by evicting:",
        "  shop/old (priority 3, against the budget shop/budget)",
        "  shop/older (priority 0)",
        "",
        "What would help, the smallest change first; each was tried:",
        "  500m less CPU on a",
        "  tolerate x:NoSchedule: 2 more nodes (b, c)",
    ]


def test_suggestions_can_be_limited() -> None:
    assert drawn(explanation(suggestions=SUGGESTIONS), suggestions=1)[-1] == "  500m less CPU on a"


@pytest.mark.parametrize(
    ("outcome", "first", "last"),
    [
        pytest.param(Outcome.GATED, "shop/web is held back", "why", id="gated"),
        pytest.param(Outcome.ERROR, "shop/web cannot be decided", "why", id="an error"),
        pytest.param(
            Outcome.UNSCHEDULABLE, "shop/web fits nowhere", "No small change was found that would help.", id="refused"
        ),
    ],
)
def test_other_outcomes(outcome: Outcome, first: str, last: str) -> None:
    lines = drawn(explanation(outcome, message="why"))
    assert (lines[0], lines[-1]) == (first, last)
