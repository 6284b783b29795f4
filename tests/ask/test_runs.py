"""Runs compared by their records: two simulations, and one record under another configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.errors import InputError
from mooring.ask.diff import Difference, diff
from mooring.ask.runs import NOT_ASKED, diff_record, diff_runs
from mooring.ask.scheduler import Scheduler
from mooring.cli.main import run
from mooring.core.cluster import Cluster
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record.reader import Record
from mooring.sim.simulate import Arrival, simulate
from mooring.testing import make_node, make_pod


def strategy(kind: str) -> dict[str, Any]:
    args = {"scoringStrategy": {"type": kind, "resources": [{"name": "cpu", "weight": 1}]}}
    return {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]}


LEAST, MOST = strategy("LeastAllocated"), strategy("MostAllocated")


def half_full() -> Cluster:
    return Cluster(make_node("a"), make_node("b"), make_pod("old", node="a", cpu="2"))


def recorded(folder: Path, name: str, config: dict[str, Any], *pods: Any, cluster: Cluster | None = None) -> Path:
    file = folder / f"{name}.mrec"
    arrivals = [Arrival(float(i), pod) for i, pod in enumerate(pods)]
    simulate(cluster or half_full(), arrivals, config=config, record=file)
    return file


def both(folder: Path, *pods: Any) -> tuple[Path, Path]:
    return recorded(folder, "least", LEAST, *pods), recorded(folder, "most", MOST, *pods)


def moves(found: Difference) -> list[tuple[str, str | None, str | None, bool]]:
    return [(move.pod, move.before, move.after, move.cause.follows) for move in found.moved]


def test_who_moves_between_two_runs_and_why(tmp_path: Path) -> None:
    pods = make_pod("web", cpu="2"), make_pod("big", cpu="3")
    found = diff(*both(tmp_path, *pods))
    assert moves(found) == [("default/web", "b", "a", False), ("default/big", None, "b", True)]
    assert found.moved[0].cause.text == "NodeResourcesFit gives a 100 and b 50; before, 0 and 50"
    assert found.first is not None and [each.node for each in found.first] == ["b", "a"]
    assert [(each.placed, each.waiting) for each in found.sums] == [(1, 1), (2, 0)]
    assert found.sums[0].measures["pending"] == 1 and found.sums[1].measures["pending"] == 0
    assert found.asked == "run" and found.pods == 3


def test_a_cause_says_where_the_pod_would_go_if_that_is_not_where_it_went(tmp_path: Path) -> None:
    """The first pod fills another node in the second run, so the second one cannot go where it would have gone."""
    files = []
    for name, config in (("least", LEAST), ("most", MOST)):
        cluster = Cluster(*map(make_node, "abc"), make_pod("old", node="a", cpu="2"))
        files.append(recorded(tmp_path, name, config, make_pod("p", cpu="2"), make_pod("q", cpu="1"), cluster=cluster))
    first, second = diff(*files).moved
    assert (first.before, first.after) == ("b", "a") and first.cause.text.startswith("NodeResourcesFit gives a ")
    assert (second.before, second.after) == ("c", "b") and second.cause.text.startswith(
        "in the same cluster it would go to a: "
    )


def test_the_same_run_twice_is_no_difference(tmp_path: Path) -> None:
    pods = make_pod("web", cpu="2"), make_pod("big", cpu="9")
    one, two = recorded(tmp_path, "one", LEAST, *pods), recorded(tmp_path, "two", LEAST, *pods)
    found = diff(one, two)
    assert not found and not found.equally_good and not found.messages


def test_the_number_of_causes_is_limited(tmp_path: Path) -> None:
    files = both(tmp_path, make_pod("one", cpu="1"), make_pod("two", cpu="500m"))
    with Record.open(files[0]) as before, Record.open(files[1]) as after:
        found = diff_runs(before, after, causes=1)
    assert len(found.moved) == 2
    assert found.moved[1].cause is NOT_ASKED


def test_every_attempt_of_a_record_under_another_configuration(tmp_path: Path) -> None:
    """The second pod is asked about in the cluster as it was: the first one is on b there."""
    file = recorded(tmp_path, "run", LEAST, make_pod("one", cpu="1"), make_pod("two", cpu="2"))
    with Record.open(file) as record:
        found = diff_record(record, to_wire(config_from_dict(MOST)))
        same = diff_record(record, to_wire(config_from_dict(LEAST)))
    assert moves(found) == [("default/one", "b", "a", False), ("default/two", "b", "a", False)]
    assert found.asked == "record" and found.pods == 2
    assert not same and not same.equally_good


def test_schedulers_and_records_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected two schedulers, two records"):
        diff(Scheduler(half_full()), tmp_path / "run.mrec")


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), seed=st.integers(0, 3))
def test_it_is_what_the_two_simulations_say(sizes: list[int], seed: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("runs")
    pods = [make_pod(f"p{i}", cpu=f"{size * 500}m") for i, size in enumerate(sizes)]
    arrivals = [Arrival(float(i), pod) for i, pod in enumerate(pods)]
    ends = []
    for name, config in (("one", LEAST), ("two", MOST)):
        result = simulate(half_full(), arrivals, config=config, seed=seed, record=folder / f"{name}.mrec")
        assert result.placements is not None
        ends.append({key: placed.node for key, placed in result.placements.items()})
    found = diff(folder / "one.mrec", folder / "two.mrec")
    keys = [pod.key for pod in pods]
    want = {key: (ends[0].get(key), ends[1].get(key)) for key in keys if ends[0].get(key) != ends[1].get(key)}
    got = {move.pod: (move.before, move.after) for move in found.moved}
    assert got | {key: (old or None, new or None) for key, (old, new) in found.equally_good.items()} == want


# ---- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mooring.api import yaml

    monkeypatch.chdir(tmp_path)
    least, _ = both(tmp_path, make_pod("web", cpu="1"))
    Path("day.mooring").write_bytes(least.read_bytes())
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    Path("most.yaml").write_text(yaml.dump({**head, **MOST}))
    Path("day.yaml").write_text("steps:\n- nodes: {count: 2, cpu: '4'}\n- workload: {csv: pods.csv, every: 1s}\n")
    Path("pods.csv").write_text("name,cpu\none,1\ntwo,1\n")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param(
            ["--record", "least.mrec", "--record", "most.mrec"],
            1,
            "1 pod moved: 2 pods of two runs, under least.mrec and under most.mrec.",
            id="two records",
        ),
        pytest.param(
            ["--record", "least.mrec", "--config", "most.yaml"],
            1,
            "1 pod moved: 1 recorded attempt, each in its moment, under least.mrec and under most.yaml.",
            id="a record and a configuration",
        ),
        pytest.param(
            ["--story", "day.yaml", "--config", "most.yaml"],
            1,
            "1 pod moved: 2 pods of two runs, under the story's own and under most.yaml.",
            id="a story",
        ),
        pytest.param(
            ["--story", "day.yaml", "--version", "1.36", "1.37"],
            0,
            "No pod moves: 2 pods of two runs, under 1.36 and under 1.37.",
            id="a story under two versions",
        ),
        pytest.param(
            ["--cluster", "least.mrec", "--config", "most.yaml", "--all"],
            1,
            "1 pod moved: 2 pods placed again, under the default and under most.yaml.",
            id="a record's moment",
        ),
        pytest.param(
            ["--cluster", "day.mooring@0s", "--config", "most.yaml", "--all"],
            1,
            "1 pod moved: 2 pods placed again, under the default and under most.yaml.",
            id="a moment of a record of any name",
        ),
    ],
)
def test_what_the_command_compares(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got = run(["diff", *arguments])
    out = capsys.readouterr()
    assert out.out.splitlines()[:1] == [line], out.err
    assert got == code


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--record", "least.mrec"], "expected two records, or one record", id="one record"),
        pytest.param(["--record", "a", "--story", "b"], "expected one thing to compare", id="two things"),
        pytest.param(["--record", "none.mrec", "--record", "x"], "none.mrec", id="no such record"),
        pytest.param(["--record", "a", "--version", "1.36", "1.37"], "its version is the recorded one", id="a version"),
        pytest.param(["--cluster", "least.mrec@9h", "--config", "most.yaml"], "nothing is recorded at", id="no moment"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", *arguments]) == 2
    err = capsys.readouterr().err
    assert want in err and err.count("\n") == 1
