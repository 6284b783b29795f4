"""What is wrong with the files of a simulation is one line with its place, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

import mooring
from mooring.api.errors import UsageError
from mooring.cli.main import run

NODES = b"name,cpu\na,4\n"


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        pytest.param(
            NODES,
            b"name,at,cpu\nx,10,1\ny,5,1\n",
            "pods.csv, line 3: at: 5 after 10; pods must come in the order",
            id="times that go backwards",
        ),
        pytest.param(NODES, b"name,at,cpu\nx,,1\n", "pods.csv, line 2: at: empty; expected a time", id="no time"),
        pytest.param(
            NODES,
            b"name,at,run,cpu\nx,1,-5,1\n",
            "pods.csv, line 2: run: expected seconds from 0 to 315360000",
            id="a negative run time",
        ),
        pytest.param(NODES, b"name,at,cpu\nx,1\n", "pods.csv, line 2: 2 values; expected 3", id="a short row"),
        pytest.param(
            NODES, b"name,at,cpu\nx,1,1\nx,2,1\n", "pods.csv, line 3: pod default/x already exists", id="a pod twice"
        ),
        pytest.param(NODES, b"\xff\xfe\x00", "pods.csv: not UTF-8 text; expected CSV", id="not text"),
        pytest.param(
            NODES, b"name,at,cpu\nx,1,1\n\xff\xfe,1,1\n", "pods.csv: not UTF-8 text; expected CSV", id="not text later"
        ),
        pytest.param(NODES + b"a,2\n", b"name,cpu\n", "nodes.csv, line 3: node a is already", id="a node twice"),
        pytest.param(
            b"name,cpu\na,-1\n",
            b"name,cpu\n",
            "nodes.csv, line 2: status.capacity[cpu]: '-1' is negative",
            id="a negative node",
        ),
        pytest.param(
            b"name;cpu\na;4\n",
            b"name,at\nx,1\n",
            "nodes.csv, line 1: no column that a field names; there are n",
            id="nodes with semicolons",
        ),
        pytest.param(
            NODES,
            b"name,cpu\nx,1\n",
            "pods.csv, line 1: no column 'at', which a workload without at or every",
            id="no column with times",
        ),
        pytest.param(NODES, b"name,at\n", "pods.csv: no row; expected one per pod", id="no pods"),
        pytest.param(
            NODES,
            b"name,at\nx,1e300\n",
            "pods.csv, line 2: at: expected seconds from 0 to 315360000",
            id="a time that never comes",
        ),
        pytest.param(
            NODES,
            b"name,at,run\nx,1,99999999999\n",
            "pods.csv, line 2: run: expected seconds from 0 to 3153",
            id="a run time without end",
        ),
        pytest.param(
            NODES,
            b"name,at\nX_1,1\n",
            "pods.csv, line 2: name: expected lower case letters, digits, '-' and",
            id="a name that no pod may have",
        ),
        pytest.param(
            NODES,
            b"name,at,namespace\nx,1,a b\n",
            "pods.csv, line 2: namespace: expected lower case letters",
            id="a namespace that there cannot be",
        ),
        pytest.param(
            NODES,
            b"name,at,labels.app\nx,1,a b\n",
            "pods.csv, line 2: metadata.labels: Invalid value",
            id="a label that no pod may have",
        ),
        pytest.param(
            NODES,
            b"name,at,priority\nx,1,99999999999\n",
            "pods.csv, line 2: priority: expected a whole number",
            id="a priority of too many bits",
        ),
    ],
)
def test_a_mistake_is_one_line(
    nodes: bytes,
    pods: bytes,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_bytes(nodes)
    Path("pods.csv").write_bytes(pods)
    Path("story.yaml").write_text("steps:\n- nodes: {csv: nodes.csv}\n- workload: {csv: pods.csv}\n")
    assert run(["simulate", "story.yaml"]) == 2
    told = capsys.readouterr()
    assert says in told.err and told.err.count("\n") == 1 and told.out == ""


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        pytest.param(
            "[{workload: {csv: pods.csv, at: '0', every: 1s}}]",
            "steps[0]: at and every exclude each other",
            id="two times",
        ),
        pytest.param(
            "[{workload: {csv: pods.csv, recreate: maybe}}]",
            "recreate: expected true or false, found 'maybe'",
            id="neither true nor false",
        ),
        pytest.param(
            "[{workload: {csv: pods.csv, spec: {foo: 1}}}]",
            "pods.csv, line 2: unknown field 'spec.foo'",
            id="a field that pods do not have",
        ),
        pytest.param(
            "[{workload: {count: 1, templates: [{weight: .inf}]}}]",
            "weight: expected a number above 0",
            id="a weight without end",
        ),
        pytest.param(
            "[{nodeGroup: {name: g, max: 1, price: .nan}}]", "price: expected what a node costs", id="no price"
        ),
        pytest.param(
            "[{nodeGroup: {name: g, max: 1}}, {nodeGroup: {name: g, max: 1}}]",
            "a group 'g' already exists",
            id="a node group twice",
        ),
        pytest.param(
            "[{nodes: {count: 1}}, {nodes: {count: 1}}]", 'steps[1]: nodes "node1" already exists', id="nodes twice"
        ),
        pytest.param("[{fail: gone}]", 'steps[0]: nodes "gone" not found', id="a node that is not there"),
    ],
)
def test_a_mistake_in_a_step_is_one_line(
    steps: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pods.csv").write_bytes(b"name,at\nx,1\n")
    Path("story.yaml").write_text(f"steps: {steps}\n")
    assert run(["simulate", "story.yaml"]) == 2
    told = capsys.readouterr()
    assert says in told.err and told.err.count("\n") == 1 and told.out == ""


@pytest.mark.parametrize(
    ("name", "says"), [("empty.mrec", "not a mooring record"), ("story.txt", "not a story; expected a scenario")]
)
def test_a_file_that_is_no_story_is_not_taken_for_the_name_of_one(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(b"")
    assert run(["simulate", name]) == 2
    assert capsys.readouterr().err.startswith(f"mooring: {name}: {says}")


STORY = "steps: [{nodes: {count: 2, cpu: '4'}}, {workload: {count: 3, every: 1s, cpu: '1'}}]\n"


@pytest.mark.parametrize(
    ("story", "command"),
    [
        pytest.param("", ["simulate", "story.yaml", "--record", "story.yaml"], id="the story itself"),
        pytest.param("", ["simulate", "run.mrec"], id="a record"),
        pytest.param("", ["simulate", "run.mrec@1s"], id="a record at a time"),
        pytest.param("import: run.mrec", ["simulate", "next.yaml"], id="a record that a story imports"),
        pytest.param("import: [run.mrec@1s]", ["simulate", "next.yaml"], id="a moment that a story imports"),
        pytest.param("cluster: run.mrec@1s", ["simulate", "next.yaml"], id="a record with the cluster"),
        pytest.param("workload: {record: run.mrec}", ["simulate", "next.yaml"], id="a record with the workload"),
        pytest.param("cluster: run.mrec", ["scenario", "run", "--virtual-time", "next.yaml"], id="of a scenario"),
        pytest.param("cluster: link.mrec", ["simulate", "next.yaml"], id="a record under another name"),
    ],
)
def test_a_record_does_not_replace_what_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], story: str, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.yaml").write_text(STORY)
    Path("next.yaml").write_text(f"steps: [{{{story}}}]\n")
    assert run(["simulate", "story.yaml", "--record", "run.mrec"]) == 0
    Path("link.mrec").symlink_to("run.mrec")
    before = Path("run.mrec").read_bytes()
    capsys.readouterr()
    assert run(command if "--record" in command else [*command, "--record", "run.mrec"]) == 2
    said = capsys.readouterr().err
    assert "so it is not overwritten; give another name" in said and said.count("\n") == 1
    assert Path("run.mrec").read_bytes() == before and Path("story.yaml").read_text() == STORY


def test_a_record_does_not_replace_what_is_simulated_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.yaml").write_text(STORY)
    mooring.simulate("story.yaml", record="run.mrec")
    before = Path("run.mrec").read_bytes()
    for story in ("run.mrec", "run.mrec@1s", {"steps": [{"cluster": "run.mrec"}]}):
        with pytest.raises(UsageError, match="is the input, so it is not overwritten"):
            mooring.simulate(story, record="run.mrec")
    assert Path("run.mrec").read_bytes() == before


def test_a_record_does_not_replace_the_one_whose_cluster_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.yaml").write_text(STORY)
    mooring.simulate("story.yaml", record="run.mrec")
    before = Path("run.mrec").read_bytes()
    with mooring.Record.open("run.mrec") as record:
        cluster = record.moment(record.last_time).cluster
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        for given in (cluster, cluster.fork()):
            with pytest.raises(UsageError, match="is the input, so it is not overwritten"):
                mooring.simulate(given, record="../run.mrec")
        mooring.simulate(cluster, record="another.mrec")
    assert (tmp_path / "run.mrec").read_bytes() == before


def test_a_title_is_text_whatever_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = tmp_path / "story.yaml"
    story.write_text("title: '[/x] [red] :rocket:'\nsteps: [{nodes: {count: 1, cpu: '4'}}]\n")
    assert run(["simulate", str(story)]) == 0
    assert capsys.readouterr().out.startswith("story: [/x] [red] :rocket:\n")


def test_options_without_effect_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mooring.simulate({"steps": [{"nodes": {"count": 1}}]}, record="run.mrec")
    Path("nodes.csv").write_text("name,cpu\na,1\n")
    for command, says in (
        (["run.mrec", "--set", "a=b"], "run.mrec: a file that is imported has no parameters; found a"),
        (["nodes.csv", "--set", "a=b"], "nodes.csv: a file that is imported has no parameters; found a"),
        (["run.mrec", "--until", "-5m"], "--until: expected a duration such as 30s or 5m, found '-5m'"),
    ):
        assert run(["simulate", *command]) == 2
        assert capsys.readouterr().err == f"mooring: {says}\n"
