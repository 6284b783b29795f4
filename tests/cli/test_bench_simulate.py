"""``mooring bench simulate``: a row for each part, and a clear line where files are missing."""

from __future__ import annotations

import json

import pytest

from mooring.cli.main import run


def test_a_row_for_each_part(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "simulate", "--nodes", "5", "--pods", "20", "-o", "json"]) == 0
    measured = json.loads(capfd.readouterr().out)
    assert list(measured) == ["like", "week"]
    assert all(each["placed"] == each["arrived"] == 20 and each["cpuSeconds"] > 0 for each in measured.values())
    assert measured["week"]["simulatedSeconds"] > 86400 > measured["like"]["simulatedSeconds"]


def test_what_a_record_costs(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "simulate", "--part", "like", "--nodes", "5", "--pods", "20", "--record"]) == 0
    shown = capfd.readouterr().out
    assert "bytes / attempt" in shown and "open CPU s" in shown


def test_the_trace_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "simulate", "--part", "openb"]) == 2
    assert "give --openb-nodes and --openb-pods" in capsys.readouterr().err
