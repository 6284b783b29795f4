"""Real binaries as the control plane: here small scripts in their place, to see what happens when they fail."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from mooring.api.errors import MooringError, UsageError
from mooring.net.tls import self_signed
from mooring.sim import remote_world as real_control_plane
from mooring.sim.remote_world import RealControlPlane, apiserver_arguments, etcd_arguments, find_binaries

pytestmark = pytest.mark.e2e
STAYS = "exec sleep 1000"
WRITES_A_CERTIFICATE = """
for argument; do case $argument in --cert-dir=*) folder=${argument#--cert-dir=};; esac; done
mkdir -p $folder; cp $CERTIFICATE $folder/apiserver.crt
"""


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for binaries, and one where everything temporary goes."""
    folder, temporary = tmp_path / "assets", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return folder


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


async def failure(tmp_path: Path) -> str:
    """What is said when it does not come up; afterwards nothing may be left."""
    plane = RealControlPlane(tmp_path / "kubeconfig")
    try:
        with pytest.raises(MooringError) as failed:
            await plane.start()
    finally:
        processes = [process for _, process in plane._processes]
        await plane.stop()
    assert all(process.returncode is not None for process in processes)
    assert list((tmp_path / "temporary").iterdir()) == []
    return str(failed.value)


async def test_a_server_that_ends_says_its_last_line(binaries: Path, tmp_path: Path) -> None:
    script(binaries, "etcd", STAYS)
    script(binaries, "kube-apiserver", "echo first; echo the last thing it said >&2; exit 3")
    assert await failure(tmp_path) == "kube-apiserver ended with code 3: the last thing it said"


async def test_a_server_that_exits_silently(binaries: Path, tmp_path: Path) -> None:
    script(binaries, "etcd", "exit 1")
    script(binaries, "kube-apiserver", STAYS)
    assert await failure(tmp_path) == "etcd ended with code 1: it said nothing"


async def test_a_server_that_does_not_come_up(binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_control_plane, "READY_TIMEOUT_S", 0.2)
    for name in ("etcd", "kube-apiserver"):
        script(binaries, name, STAYS)
    assert await failure(tmp_path) == "kube-apiserver did not start within 0.2s"


async def test_a_server_that_is_never_ready(binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has written its certificate, and nothing listens at its port."""
    monkeypatch.setattr(RealControlPlane, "_until_ready", _until_ready_at_once(monkeypatch))
    certificate = tmp_path / "certificate"
    certificate.write_bytes(self_signed("127.0.0.1").certificate)
    monkeypatch.setenv("CERTIFICATE", str(certificate))
    script(binaries, "etcd", STAYS)
    script(binaries, "kube-apiserver", WRITES_A_CERTIFICATE + STAYS)
    assert (await failure(tmp_path)).startswith("kube-apiserver is not ready after 0s: ")


def _until_ready_at_once(monkeypatch: pytest.MonkeyPatch) -> object:
    """Once the certificate is there, no time is left."""
    until_ready = RealControlPlane._until_ready

    async def hurried(plane: RealControlPlane, config: object) -> None:
        monkeypatch.setattr(real_control_plane, "READY_TIMEOUT_S", 0.0)
        await until_ready(plane, config)  # type: ignore[arg-type]

    return hurried


async def test_what_is_stopped_twice_is_stopped(binaries: Path, tmp_path: Path) -> None:
    script(binaries, "etcd", STAYS)
    script(binaries, "kube-apiserver", STAYS)
    plane = RealControlPlane(tmp_path / "kubeconfig")
    await plane._spawn("etcd", [])
    process = plane._processes[0][1]
    await plane.stop()
    await plane.stop()
    assert process.returncode == -15


def test_binaries_are_found_in_the_assets_before_the_path(
    binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PATH", str(elsewhere))
    script(elsewhere, "etcd", STAYS)
    script(elsewhere, "kube-apiserver", STAYS)
    script(binaries, "etcd", STAYS)
    assert find_binaries() == {"etcd": str(binaries / "etcd"), "kube-apiserver": str(elsewhere / "kube-apiserver")}


@pytest.mark.parametrize("with_assets", [True, False])
def test_missing_binaries_are_named(
    with_assets: bool, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if not with_assets:
        monkeypatch.delenv("KUBEBUILDER_ASSETS")
    where = "neither in KUBEBUILDER_ASSETS" if with_assets else "not on PATH"
    with pytest.raises(UsageError, match=f"etcd and kube-apiserver {where}"):
        find_binaries()


def test_everything_listens_on_loopback_and_anonymous_access_is_off(tmp_path: Path) -> None:
    for argument in etcd_arguments(tmp_path, 1, 2):
        assert "://" not in argument or "://127.0.0.1:" in argument
    arguments = apiserver_arguments(tmp_path, 1, 2)
    assert "--bind-address=127.0.0.1" in arguments and "--anonymous-auth=false" in arguments
    assert f"--token-auth-file={tmp_path / 'tokens.csv'}" in arguments


async def test_tokens_and_keys_are_private(binaries: Path, tmp_path: Path) -> None:
    script(binaries, "etcd", STAYS)
    script(binaries, "kube-apiserver", STAYS)
    plane = RealControlPlane(tmp_path / "kubeconfig")
    starting = asyncio.ensure_future(plane.start())
    (folder,) = (tmp_path / "temporary").iterdir()
    while not (folder / "kube-apiserver.log").exists():  # noqa: ASYNC110 (written after both)
        await asyncio.sleep(0.01)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.suffix != ".log"}
    starting.cancel()
    await asyncio.wait([starting])
    await plane.stop()
    assert modes["tokens.csv"] == modes["accounts.key"] == 0o600
