"""``mooring record``: a cluster is watched, and what its scheduler does is written down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.cli.main import run
from mooring.cli.record import _record
from mooring.controlplane.server import ControlPlane
from mooring.net.credentials import bearer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.record.entries import Attempt
from mooring.record.reader import Record
from mooring.sim.backend import Backend
from mooring.sim.scenario import node, pod


@pytest.mark.e2e
async def test_a_cluster_is_recorded_until_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig, path = tmp_path / "kubeconfig", tmp_path / "cluster.mrec"
    async with (
        ControlPlane(kubeconfig_path=kubeconfig, also_plain=True) as plane,
        RestClient(ClientConfig(plane.plain_url, credentials=bearer(plane.token)), qps=-1) as client,
    ):
        backend = Backend(client)
        await backend.create(node("a"))
        recording = asyncio.create_task(_record(str(path), str(kubeconfig), "", None, None, 1 << 20, False))
        async with asyncio.timeout(60):
            while "Recording into" not in capsys.readouterr().err:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await backend.create(pod("p"))
            body = b'{"target": {"kind": "Node", "name": "a"}, "metadata": {"name": "p"}}'
            await client.create("/api/v1/namespaces/default/pods/p/binding", body)
            while not path.stat().st_size or not _attempts(path):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        recording.cancel()  # as Ctrl-C does
        attempts = await recording
    assert attempts == 1
    with Record.open(path, follows=True) as record:
        assert record.is_complete and record.header.source == "watch"
        assert record.attempt(1).decide().node == "a"
    assert path.stat().st_mode & 0o777 == 0o600


def _attempts(path: Path) -> list[Attempt]:
    with Record.open(path, follows=True) as record:  # also while it is being written
        return [entry for _, entry in record.attempts()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "missing option '-o'", id="no file"),
        pytest.param(["-o", "x", "--for", "soon"], "--for soon: time: invalid duration", id="no duration"),
        pytest.param(["-o", "x", "--kubeconfig", "absent"], "absent", id="no kubeconfig"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["record", *arguments]) == 2
    said = capsys.readouterr().err
    assert words.lower() in said.lower() and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
