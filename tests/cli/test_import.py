"""``mooring import``: what is in a file, what is not simulated, and a story that plays it."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mooring
from mooring.cli.main import run

TABLE = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos\nweb,1000,10,0,0,LS\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,4000,8192,0,\n"
NODE = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, pods: 110}}}\n"


def test_it_says_what_is_there_and_what_is_not_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.csv").write_text(TABLE)
    assert run(["import", str(tmp_path / "pods.csv")]) == 0
    assert capsys.readouterr().out == (
        "openb pods: 1 pod that arrives\n  not simulated: 1 × qos of a pod: nothing that scheduling reads\n"
    )


def test_the_story_it_writes_can_be_simulated_from_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pods.csv").write_text(TABLE)
    (tmp_path / "data" / "nodes.csv").write_text(NODES)
    (tmp_path / "stories").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(["import", "data/nodes.csv", "data/pods.csv", "-o", "stories/openb.yaml"]) == 0
    text = (tmp_path / "stories" / "openb.yaml").read_text()
    assert text.startswith("# not simulated: 1 × qos") and "../data/nodes.csv" in text
    monkeypatch.chdir(tmp_path / "data")
    capsys.readouterr()
    assert run(["simulate", str(tmp_path / "stories" / "openb.yaml"), "-o", "json"]) == 0
    assert '"placed": 1' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["absent.csv"], "absent.csv: no such file or directory", id="no file"),
        pytest.param(
            ["pods.csv", "-o", "story.txt"], "-o story.txt: expected a name that ends in .yaml", id="no story"
        ),
        pytest.param(["pods.csv", "-o", "no/story.yaml"], "no/story.yaml: no such file or directory", id="no folder"),
        pytest.param(["bad.csv"], "bad.csv, line 1: no column 'cpu_milli'", id="a column is missing"),
        pytest.param(
            ["n.yaml", "-o", "n.yaml"], "n.yaml: n.yaml is an input and is not overwritten", id="over its input"
        ),
        pytest.param(
            ["dump", "-o", "dump/s.yaml"],
            "dump/s.yaml: dump is an input and is not overwritten",
            id="into an imported directory",
        ),
        pytest.param(["other.csv"], "expected openb's nodes (sn, cpu_milli", id="unknown columns"),
        pytest.param(["late.csv"], "late.csv, line 3: at: 1 after 5; pods must come in", id="times that go backwards"),
        pytest.param(["runs.csv"], "or a story with the step workload: {csv: runs.csv, every: 1s}", id="no times"),
        pytest.param(["columns.csv"], "columns.csv, line 1: the column 'cpu' occurs twice", id="a column twice"),
        pytest.param(["empty.mrec"], "empty.mrec: not a mooring record", id="a record that is none"),
        pytest.param(["twice.csv"], "twice.csv, line 3: node a is already in line 2", id="a node twice"),
        pytest.param(
            ["pods.csv", "pods.csv"], "pods.csv, pods.csv: Pod default/web is in two of them", id="pods twice"
        ),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], want: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pods.csv").write_text(TABLE)
    (tmp_path / "bad.csv").write_text("name,memory_mib,num_gpu,gpu_milli\n")
    (tmp_path / "n.yaml").write_text(NODE)
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "n.yaml").write_text(NODE)
    (tmp_path / "other.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "late.csv").write_text("name,at\nx,5\ny,1\n")
    (tmp_path / "runs.csv").write_text("name,run\nx,5\n")
    (tmp_path / "columns.csv").write_text("name,cpu,cpu\na,1,1\n")
    (tmp_path / "empty.mrec").write_text("")
    (tmp_path / "twice.csv").write_text("name,cpu\na,5\na,5\n")
    monkeypatch.chdir(tmp_path)
    assert run(["import", *arguments]) == 2
    error = capsys.readouterr().err
    assert want in error and error.count("\n") == 1
    assert (tmp_path / "n.yaml").read_text() == NODE


def test_tables_of_a_story_need_no_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text("\ufeffname,cpu,memory,zone,capacity.example.com/gpu,owner\r\na,4,8Gi,z,2,me\r\n")
    Path("pods.csv").write_text("name,at,run,cpu,requests.example.com/gpu\nx,0,1m,3,1\ny,10,1m,3,1\n")
    assert run(["import", "nodes.csv", "pods.csv", "-o", "story.yaml"]) == 0
    assert capsys.readouterr().out == (
        "table of nodes and table of pods: 1 node, 2 pods that arrive\n  from the first to the last: 10s\n"
        "  not simulated: column 'owner': no field has this name; in a story, fields can name columns\n"
        "story.yaml: mooring simulate story.yaml\n"
    )
    Path("own.yaml").write_text("steps: [{nodes: {csv: nodes.csv}}, {workload: {csv: pods.csv}}]\n")
    results = []
    for story in ("story.yaml", "own.yaml"):
        assert run(["simulate", story, "--placements", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        results.append({name: found[name] for name in ("pods", "placements", "waitingSeconds")})
    assert results[0] == results[1] and results[0]["pods"]["placed"] == 2


@pytest.mark.parametrize(
    ("records", "want"),
    [
        pytest.param(["a.mrec@1s", "a.mrec"], "expected one, which has a cluster and the pods that come\n", id="one"),
        pytest.param(
            ["a.mrec@1s", "b.mrec"],
            "or a story with the steps cluster: a.mrec@1s and workload: {record: b.mrec}\n",
            id="two",
        ),
    ],
)
def test_records_are_imported_one_at_a_time(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    records: list[str],
    want: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        pods = {"count": 2, "every": "2s", "cpu": "1", "name": name + "-{i}"}
        mooring.simulate({"steps": [{"nodes": {"count": 1}}, {"workload": pods}]}, record=f"{name}.mrec")
    assert run(["import", *records, "-o", "story.yaml"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"mooring: {', '.join(records)}: 2 records; ") and said.endswith(want)
    assert not Path("story.yaml").exists()
    Path("other.yaml").write_text("steps: [{cluster: a.mrec@1s}, {workload: {record: b.mrec}}]\n")
    assert run(["simulate", "other.yaml"]) == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NODE, id="a mapping in one line"),
        pytest.param("# a, b, and c\n" + NODE, id="a comment with commas"),
        pytest.param('{"apiVersion": "v1", "kind": "List", "items": [' + NODE + "]}", id="half JSON"),
    ],
)
def test_yaml_is_not_taken_for_json_or_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "node.yaml").write_text(text)
    assert run(["import", str(tmp_path / "node.yaml")]) == 0
    assert capsys.readouterr().out == "Kubernetes manifests: 1 node\n"


def test_what_another_command_prints_can_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as other:
        other.submit(pipe.write_text, f"---\n{NODE}")
        assert run(["import", str(pipe)]) == 0
    assert capsys.readouterr().out == "Kubernetes manifests: 1 node\n"
