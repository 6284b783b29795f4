"""``mooring bench perf`` from the command line, and the profile of one of its workloads."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mooring.cli.main import run
from tools import profile_perf

TINY = "SchedulingBasic/5Nodes"


def test_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "perf", "--list", "SchedulingBasic"]) == 0
    out = capsys.readouterr().out
    assert "SchedulingBasic/5000Nodes_10000Pods   misc    performance,quick" in out
    assert run(["bench", "perf", "--list", "-o", "json", "SchedulingBasic/5Nodes"]) == 0
    (workload,) = json.loads(capsys.readouterr().out)
    assert workload["params"] == {"initNodes": 5, "initPods": 5, "measurePods": 10}


def test_a_workload_is_run_saved_compared_and_plotted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, picture = tmp_path / "run.json", tmp_path / "run.svg"
    assert run(["bench", "perf", TINY, "-o", "json", "--save", str(saved), "--plot", str(picture)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(saved.read_text())
    assert printed["results"][0]["pods"] == 10
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert run(["bench", "perf", TINY, "--compare", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "CPU is that of the whole process" in out
    assert out.count(TINY) == 2
    assert "×" in out


def test_a_workload_is_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, stacks = tmp_path / "flame.svg", tmp_path / "stacks.txt"
    name = "SchedulingWithMixedChurn/10Nodes"
    assert profile_perf.main([name, "--with", "own", "--svg", str(picture), "--stacks", str(stacks)]) == 0
    printed = capsys.readouterr().out
    assert "by own sampler" in printed and "CPU us/pod" in printed
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert all(line.rpartition(" ")[2].isdecimal() for line in stacks.read_text().splitlines())


def test_a_missed_threshold_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "performance-config.yaml").write_text("""
- name: Case
  workloadTemplate:
  - {opcode: createNodes, count: 1}
  - {opcode: createPods, count: 2, collectMetrics: true}
  workloads:
  - {name: tiny, threshold: 1000000000}
""")
    assert run(["bench", "perf", "--dir", str(tmp_path), "Case"]) == 1
    assert "missed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["Nothing"], "no workload 'Nothing'", id="an unknown case"),
        pytest.param(["--dir", "/nowhere"], "/nowhere: no such directory", id="a directory that is not there"),
        pytest.param([TINY, "--no-scheduler"], "give --kubeconfig", id="no scheduler"),
        pytest.param([TINY, "--scheduler-pid", "1"], "only with --no-scheduler", id="a process that is not asked"),
        pytest.param([TINY, "--http", "--kubeconfig", "x"], "only for the embedded cluster", id="HTTP to where"),
        pytest.param([TINY, "--plot", "/nowhere/a.svg"], "no such directory", id="nowhere to draw"),
        pytest.param([TINY, "--compare", "/nowhere.json"], "/nowhere.json: no such file", id="nothing to compare with"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "perf", *arguments]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
