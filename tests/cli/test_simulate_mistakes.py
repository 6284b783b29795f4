"""What is wrong with the files of a simulation is one line with its place, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.main import run

NODES = b"name,cpu\na,4\n"


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        pytest.param(NODES, b"name,at,cpu\nx,10,1\ny,5,1\n", "pods.csv, line 3: at: 5 after 10; rows must be in order",
                     id="times that go backwards"),
        pytest.param(NODES, b"name,at,cpu\nx,,1\n", "pods.csv, line 2: at: nothing is there; expected a time",
                     id="no time"),
        pytest.param(NODES, b"name,at,run,cpu\nx,1,-5,1\n", "pods.csv, line 2: run: expected seconds from 0 on, found",
                     id="a negative run time"),
        pytest.param(NODES, b"name,at,cpu\nx,1\n", "pods.csv, line 2: 2 values; expected 3", id="a short row"),
        pytest.param(NODES, b"name,at,cpu\nx,1,1\nx,2,1\n", "pods.csv, line 3: pod default/x is there already",
                     id="a pod twice"),
        pytest.param(NODES, b"\xff\xfe\x00", "pods.csv, line 1: not CSV", id="not text"),
        pytest.param(NODES, b"name,at,cpu\nx,1,1\n\xff\xfe,1,1\n", "pods.csv, line 1: not CSV", id="not text later"),
        pytest.param(NODES + b"a,2\n", b"name,cpu\n", "nodes.csv, line 3: node a is already", id="a node twice"),
        pytest.param(b"name,cpu\na,-1\n", b"name,cpu\n", 'steps[0]: Node "a" is invalid', id="a negative node"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    nodes: bytes, pods: bytes, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_bytes(nodes)
    Path("pods.csv").write_bytes(pods)
    Path("story.yaml").write_text("steps:\n- nodes: {csv: nodes.csv}\n- workload: {csv: pods.csv}\n")
    assert run(["simulate", "story.yaml"]) == 2
    told = capsys.readouterr()
    assert says in told.err and told.err.count("\n") == 1 and told.out == ""
