"""Tables for shells, notebooks and pandas."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import mooring
from mooring.core.explain.decision import DecisionTable, NodeShare, RefusalRow, Refusals, Scores
from mooring.testing import make_node, make_pod

SCORES = Scores([NodeShare("a", 130, {"Fit": 100, "Spread": 30}), NodeShare("b", 7, {"Fit": 7, "Spread": 0})])
REFUSALS = Refusals(
    [
        RefusalRow("Fit", "UNSCHEDULABLE", ("Insufficient cpu", "Too many pods"), tuple(f"n{i}" for i in range(8))),
        RefusalRow("Taints", "UNSCHEDULABLE_AND_UNRESOLVABLE", ("<b>",), ("x",)),
    ]
)


def test_scores_as_text() -> None:
    assert repr(SCORES).splitlines() == [
        "node   total   Fit   Spread",
        "a        130   100       30",
        "b          7     7        0",
    ]
    assert repr(Scores()) == "Scores()"


def test_refusals_as_text() -> None:
    assert repr(REFUSALS).splitlines() == [
        "nodes   refused because                   plugin   which",
        "    8   Insufficient cpu, Too many pods   Fit      n0, n1, n2, n3, n4, n5 and 2 more",
        "    1   <b>                               Taints   x",
    ]
    assert repr(Refusals()) == "Refusals()"


def test_html_is_escaped() -> None:
    html = REFUSALS._repr_html_()
    assert "<td>&lt;b&gt;</td>" in html and "<th>plugin</th>" in html
    assert SCORES._repr_html_().count("<tr>") == 3


def test_long_tables_are_cut() -> None:
    table = DecisionTable(("n",), [(i,) for i in range(30)])
    assert table.text().splitlines()[-1] == "… and 20 more"
    assert table.html().endswith("<p>… and 10 more</p>")


class Frame:
    """As much of a DataFrame as is asked for."""

    def __init__(self, rows: list[Any], columns: list[str]) -> None:
        self.rows, self.columns, self.index = rows, columns, ""

    def set_index(self, name: str) -> Frame:
        self.index = name
        return self


def test_to_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))
    scores = SCORES.to_pandas()
    assert (scores.index, scores.columns) == ("node", ["node", "total", "Fit", "Spread"])
    assert scores.rows == [["a", 130, 100, 30], ["b", 7, 7, 0]]
    refusals = REFUSALS.to_pandas()
    assert refusals.columns == ["node", "plugin", "code", "reasons"]
    assert [row[0] for row in refusals.rows] == [*(f"n{i}" for i in range(8)), "x"]


def test_without_pandas_the_install_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        SCORES.to_pandas()


def test_the_real_pandas_takes_it() -> None:
    pandas = pytest.importorskip("pandas")
    frame = SCORES.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["a", "total"] == 130 and frame.index.name == "node"


def test_what_is_asked_first_has_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))
    cluster = mooring.Cluster(make_node("a"), make_node("b"), make_pod("web"))
    assert cluster.to_pandas().index == mooring.explain(cluster, "web").to_pandas().index == "node"
    assert mooring.simulate(cluster).to_pandas().index == "seconds"
