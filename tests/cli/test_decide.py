"""``mooring decide``: one JSON line per case, from files, compressed files or standard input."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import run

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def a_case(name: str, cpu: str = "1", **fields: Any) -> bytes:
    resources = {"requests": {"cpu": cpu}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }
    return json.dumps({"id": name, "objects": [NODE], "steps": [{"pod": pod}], **fields}).encode() + b"\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def decided(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run(["decide", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_per_case_and_files_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.jsonl").write_bytes(a_case("a") + b"\n" + a_case("b", cpu="9"))
    Path("two.jsonl.gz").write_bytes(gzip.compress(a_case("c")))
    found = decided(capsys, "one.jsonl", "two.jsonl.gz")
    assert [each["id"] for each in found] == ["a", "b", "c"]
    assert [each["steps"][0]["node"] for each in found] == ["n", None, "n"]


def test_cases_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(a_case("a"))))
    assert [each["id"] for each in decided(capsys, "-")] == ["a"]


def test_another_configuration_takes_the_place_of_the_cases_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("case.jsonl").write_bytes(a_case("a", cpu="9"))
    Path("config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]\n"
    )
    assert decided(capsys, "case.jsonl")[0]["steps"][0]["node"] is None
    assert decided(capsys, "case.jsonl", "--config", "config.yaml")[0]["steps"][0]["node"] == "n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"{", "case.jsonl, line 1: ", id="no JSON"),
        pytest.param(a_case("a") + b"3\n", "case.jsonl, line 2: not a case", id="a number in the second line"),
        pytest.param(b'{"id": "a"}', "case.jsonl, line 1: not a case", id="no steps"),
        pytest.param(b"\x1f\x8b\x08", "case.jsonl: ", id="half a compressed file"),
        pytest.param(b"\xff\xfe", "case.jsonl, line 1: ", id="no text"),
        pytest.param(a_case("a", objects=[{**NODE, "spec": 3}]), "case a: ", id="an object of a wrong type"),
        pytest.param(a_case("a", config={"profiles": 3}), "case a: ", id="a configuration that is none"),
    ],
)
def test_bad_input_is_one_line(content: bytes, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("case.jsonl").write_bytes(content)
    assert run(["decide", "case.jsonl"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"mooring: {says}") and err.count("\n") == 1


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decide", "gone.jsonl"]) == 2
    assert capsys.readouterr().err == "mooring: gone.jsonl: No such file or directory\n"
    assert run(["decide"]) == 2
