"""``mooring start`` and ``mooring scenario``: what they print, leave behind and return."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.main import run
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

Start = Callable[..., "subprocess.Popen[str]"]
ReadUntil = Callable[["subprocess.Popen[str]", str], str]
pytestmark = pytest.mark.e2e


def test_the_first_story_is_narrated_and_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    process = start("start", env={"TMPDIR": str(tmp_path)})
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "export KUBECONFIG=" in out and "pod1 → node10" in out and "As expected" in out
    assert "\x1b[" not in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kept_cluster_ends_cleanly_at_a_signal(
    tmp_path: Path, number: signal.Signals, start: Start, read_until: ReadUntil
) -> None:
    config = tmp_path / "kubeconfig"
    process = start("start", "--keep", "--nodes", "1", "--write-kubeconfig", str(config), env={"TMPDIR": str(tmp_path)})
    read_until(process, "stays up")
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_kept_cluster_has_no_grace_periods(tmp_path: Path, start: Start, read_until: ReadUntil) -> None:
    config = tmp_path / "kubeconfig"
    process = start("start", "--keep", "--nodes", "1", "--write-kubeconfig", str(config), env={"TMPDIR": str(tmp_path)})
    told = read_until(process, "terminates-after")
    assert "pods of Jobs complete" in told and all(
        len(line) <= 80 for line in told.splitlines() if "KUBECONFIG" not in line
    )
    spec = {"containers": [{"name": "main", "image": "app"}], "terminationGracePeriodSeconds": 86400}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}

    async def ask(method: str, path: str, body: bytes = b"") -> None:
        async with RestClient(find_config(str(config))) as client:
            await client.request(method, f"/api/v1/namespaces/default/pods{path}", body)

    asyncio.run(ask("POST", "", json.dumps(pod).encode()))
    read_until(process, "web is Running")
    asyncio.run(ask("DELETE", "/web"))
    pod["metadata"] = {"name": "next"}
    asyncio.run(ask("POST", "", json.dumps(pod).encode()))
    assert "-       pod web\n" in read_until(process, "next is Running")  # not after a day
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0


def test_data_survives_a_restart(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    told = []
    for _ in range(2):
        process = start("start", "--data-dir", str(data), env={"TMPDIR": str(tmp_path)})
        out, err = process.communicate()
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
    pytest.param(["start", "--keep", "--once"], "--keep and --once exclude each other", id="both ways"),
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


def test_start_places_one_pod_and_says_what_the_other_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--example"]) == 0
    out = capsys.readouterr().out
    assert "default/web-2 goes to worker-3" in out
    assert "default/report fits nowhere" in out
    assert "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable" in out
    first = out.partition("each was tried:\n")[2].splitlines()[0]
    assert first == "  100m less CPU (3500m instead of 3600m) on worker-1"


def test_the_example_is_one_json_object_per_line_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--example", "-o", "json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["pod"], each["node"]) for each in told] == [("default/web-2", "worker-3"), ("default/report", None)]


def test_start_says_where_to_go_next(capsys: pytest.CaptureFixture[str]) -> None:
    run(["start", "--example"])
    assert "mooring explain --cluster dump.json --pod web.yaml" in capsys.readouterr().out
