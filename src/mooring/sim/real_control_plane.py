"""Real ``etcd`` and ``kube-apiserver`` binaries as the control plane, when they are on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from mooring.api.errors import ApiError, MooringError, UsageError
from mooring.controlplane.serving.access import write_kubeconfig, write_private
from mooring.net.kubeconfig import ClientConfig, load_kubeconfig
from mooring.net.rest import RestClient

READY_TIMEOUT_S = 60.0
NEEDED = ("etcd", "kube-apiserver")


def find_binaries() -> dict[str, str]:
    """Where the binaries are: in KUBEBUILDER_ASSETS, or on PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = {name: shutil.which(name, path=assets) or shutil.which(name) for name in NEEDED}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        where = f"neither in KUBEBUILDER_ASSETS ({assets}) nor on PATH" if assets else "not on PATH"
        raise UsageError(f"--control-plane kubernetes: {' and '.join(missing)} {where}; the embedded one needs neither")
    return {name: path for name, path in found.items() if path is not None}


class RealControlPlane:
    """Starts both, on loopback and with a random token, and ends them; nothing stays behind."""

    def __init__(self, kubeconfig_path: Path) -> None:
        self._binaries = find_binaries()
        self._kubeconfig_path = kubeconfig_path
        self._folder = Path(tempfile.mkdtemp(prefix="mooring-kubernetes-"))
        self._processes: list[tuple[str, asyncio.subprocess.Process]] = []
        self.url = ""

    async def start(self) -> ClientConfig:
        """Bring both up; returns how to reach the server once it is ready."""
        folder, token = self._folder, secrets.token_urlsafe(24)
        etcd, peer, port = free_port(), free_port(), free_port()
        write_private(folder / "tokens.csv", f'{token},mooring-admin,mooring-admin,"system:masters"\n')
        write_private(folder / "accounts.key", _private_key())
        await self._spawn("etcd", etcd_arguments(folder, etcd, peer))
        await self._spawn("kube-apiserver", apiserver_arguments(folder, etcd, port))
        self.url = f"https://127.0.0.1:{port}"
        certificate = folder / "certificates" / "apiserver.crt"
        await self._until(certificate.exists)
        write_kubeconfig(self._kubeconfig_path, self.url, token, certificate.read_bytes())
        config = load_kubeconfig([str(self._kubeconfig_path)])
        await self._until_ready(config)
        return config

    async def _spawn(self, name: str, arguments: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                self._binaries[name], *arguments, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL
            )
        self._processes.append((name, process))

    async def _until_ready(self, config: ClientConfig) -> None:
        async with RestClient(config) as client:
            deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
            while True:
                self._check_alive()
                try:
                    await client.get("/readyz", timeout_s=5.0)
                    return
                except ApiError as error:
                    if asyncio.get_running_loop().time() > deadline:
                        raise MooringError(f"kube-apiserver is not ready after {READY_TIMEOUT_S:g}s: {error}") from None
                await asyncio.sleep(0.2)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not holds():
            self._check_alive()
            if asyncio.get_running_loop().time() > deadline:
                raise MooringError(f"kube-apiserver does not come up within {READY_TIMEOUT_S:g}s")
            await asyncio.sleep(0.1)

    def _check_alive(self) -> None:
        for name, process in self._processes:
            if process.returncode is not None:
                raise MooringError(f"{name} ended with code {process.returncode}: {self._last_line(name)}")

    def _last_line(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    async def stop(self) -> None:
        for _, process in reversed(self._processes):
            if process.returncode is None:
                process.terminate()
                try:
                    async with asyncio.timeout(10):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()
        self._processes = []
        shutil.rmtree(self._folder, ignore_errors=True)


def etcd_arguments(folder: Path, port: int, peer: int) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]


def apiserver_arguments(folder: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://mooring.invalid",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # No controller here makes service accounts, and pods need none.
        "--disable-admission-plugins=ServiceAccount",
    ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem.decode()
