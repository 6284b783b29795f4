"""``mooring replay``, on records that ``mooring scenario run --record`` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.cli.main import run


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("records") / "preemption.mrec"
    assert run(["scenario", "run", "--virtual-time", "-q", "preemption", "--record", str(path)]) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    return str(path)


def test_the_attempts_are_listed(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", record]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Recorded by a scenario, Kubernetes 1.36: 3s from 2026-01-01T00:00:00.000000Z")
    assert lines[2].split() == ["#", "TIME", "POD", "TRY", "NODE", "FEASIBLE", "WHY"]
    assert lines[5].endswith("evicts default/cheap-2 from node2")


def test_the_attempts_of_one_pod_are_plain_data(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", record, "--pod", "important", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["number"], each["node"], each["victims"]) for each in shown["attempts"]] == [
        (3, "", ["default/cheap-2"]),
        (4, "node2", []),
    ]
    assert shown["record"]["attempts"] == 4 and shown["record"]["isComplete"]


def test_a_time_shows_the_cluster_and_the_queue(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", record, "--at", "2s", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {each["pod"]: each["node"] for each in shown["pods"]} == {
        "default/ordinary-1": "node1",
        "default/cheap-2": "node2",
    }
    assert [(each["pod"], each["attempts"]) for each in shown["queue"]] == [("default/important", 1)]
    assert shown["nominated"] == [{"pod": "default/important", "node": "node2"}]


def test_a_timestamp_is_a_time_too(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", record, "--at", "2026-01-01T00:00:03.08Z"]) == 0
    assert "No pod waits." in capsys.readouterr().out


def test_an_attempt_is_explained_as_of_then(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", record, "--open", "3"]) == 0
    shown = capsys.readouterr().out
    assert "Attempt:  3, try 1 of default/important" in shown
    assert "Room can be made on node2 by evicting:\n  default/cheap-2" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--open", "9"], "there is no attempt 9; they are 1 to 4", id="an attempt that is not there"),
        pytest.param(["--at", "1h"], "nothing is recorded at that time", id="a time after the end"),
        pytest.param(["--at", "noon"], "'noon' is not a time; write 90s", id="a time that is none"),
        pytest.param(
            ["--pod", "imprtant"], "default/imprtant; similar ones: default/important", id="a pod like another"
        ),
        pytest.param(["--pod", "a/important"], "a/important; similar ones: default/important", id="another namespace"),
        pytest.param(["--pod", "x"], "has no attempt at a pod default/x", id="a pod that is not there"),
        pytest.param(["--at", "1s", "--open", "1"], "--at and --open exclude each other", id="two questions"),
        pytest.param(["--at", "1s", "--pod", "important"], "--pod chooses from the list", id="a pod at a time"),
        pytest.param(["--open", "1", "--since", "1s"], "which --open does not show", id="a time of an attempt"),
    ],
)
def test_bad_usage_is_one_line(
    record: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", record, *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_a_misplaced_time_is_reported_with_the_right_option(record: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", f"{record}@2s"]) == 2
    assert capsys.readouterr().err == f"mooring: {record}@2s: expected {record} --at 2s\n"


def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert run(["replay", str(path)]) == 2
    assert "x.json: not a mooring record" in capsys.readouterr().err


def test_a_record_holds_one_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stories = ["preemption", "first-placement"]
    assert run(["scenario", "run", "--virtual-time", *stories, "--record", str(tmp_path / "r")]) == 2
    assert "--record: a record holds one story" in capsys.readouterr().err


def test_a_lesson_is_recorded_from_what_its_scheduler_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "lesson.mrec")
    assert run(["learn", "1", "--record", path]) == 0
    capsys.readouterr()
    assert run(["replay", path, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["record"]["source"] == "lesson"
    assert shown["attempts"] and all(attempt["node"] for attempt in shown["attempts"])
    assert run(["replay", path, "--open", "1"]) in (0, 1)  # mooring may choose another node than a random scheduler
    assert shown["attempts"][0]["pod"] in capsys.readouterr().out
