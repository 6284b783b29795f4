"""mooring start --example: two pods explained on a built-in cluster, with nothing started."""

from __future__ import annotations

import pytest

from mooring.cli.main import run


def test_start_places_one_pod_and_says_what_the_other_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--example"]) == 0
    out = capsys.readouterr().out
    assert "default/web-2 goes to worker-3" in out
    assert "default/report fits nowhere" in out
    assert "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable" in out
    first = out.partition("each was tried:\n")[2].splitlines()[0]
    assert first == "  100m less CPU (3500m instead of 3600m) on worker-1"


def test_start_says_where_to_go_next(capsys: pytest.CaptureFixture[str]) -> None:
    run(["start", "--example"])
    assert "mooring explain --cluster dump.json --pod web.yaml" in capsys.readouterr().out
