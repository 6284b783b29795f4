"""``mooring start`` and ``mooring scenario``: what they print, leave behind and return."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.cli.main import run

pytestmark = pytest.mark.e2e


def _start(*arguments: str, home: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(home), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "mooring", "start", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        stdin=subprocess.DEVNULL,
    )


def test_the_first_story_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    process = _start(home=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "kubectl --kubeconfig" in out and "pod1 → node10" in out and "As expected" in out
    assert "\x1b[" not in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kept_cluster_ends_cleanly_at_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    config = tmp_path / "kubeconfig"
    process = _start("--keep", "--nodes", "1", "--write-kubeconfig", str(config), home=tmp_path)
    deadline = time.monotonic() + 40
    while not config.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert process.stdout is not None
    while "stays up" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_data_survives_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    told = []
    for _ in range(2):
        process = _start("--data-dir", str(data), home=tmp_path)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        told.append(out)
    assert "pod1 → node10" in told[0]
    assert "pod1 → node10" not in told[1] and "as it was when it was last stopped" in told[1]
    assert (data / "kubeconfig").exists()


def test_a_busy_port_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["start", "--once", "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"mooring: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(("arguments", "says"), [
    pytest.param(["start", "--keep", "--once"], "one of them would be right", id="both ways"),
    pytest.param(["start", "--scenario", "nope"], "no scenario 'nope'", id="no such story"),
    pytest.param(["start", "--data-dir", "/dev/null/x"], "--data-dir /dev/null/x: Not a directory", id="no directory"),
    pytest.param(["scenario", "run", "nope.yaml"], "nope.yaml: No such file", id="no such file"),
    pytest.param(["scenario", "show", "nope"], "no scenario 'nope'", id="nothing to show"),
])  # fmt: skip
def test_mistakes_are_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_the_exit_code_says_whether_expectations_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("steps: [{nodes: {}}, {expect: {object: node/node1}}]")
    bad.write_text("steps: [{expect: {object: node/node1, within: 1s}}]")
    assert run(["scenario", "run", "--virtual-time", str(good)]) == 0
    assert run(["scenario", "run", "--virtual-time", str(good), str(bad)]) == 1
    assert "bad: NOT as expected" in capsys.readouterr().out


def test_stories_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scenario", "list"]) == 0
    assert "first-placement" in capsys.readouterr().out
    assert run(["scenario", "show", "taints"]) == 0
    assert "steps:" in capsys.readouterr().out


def test_the_example_still_explains_two_pods(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--example"]) == 0
    assert "A cluster of 5 nodes" in capsys.readouterr().out


def test_a_reader_who_has_seen_enough_ends_it(tmp_path: Path) -> None:
    process = _start("--keep", "--scenario", "zone-spread", home=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=40) == 130
    assert process.stderr.read() == ""
    process.stderr.close()
    assert list(tmp_path.iterdir()) == []
