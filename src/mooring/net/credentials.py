"""The client's identity: tokens, token files that rotate, basic auth, exec credential plugins, client certificates.

A ``Credentials`` object is read before every request. While it is fresh that is a plain attribute; only a token file
past its minute or an expired exec credential costs time. After a 401 the caller calls ``invalidate`` and reads again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import InputError
from mooring.net.tls import Identity

TOKEN_FILE_PERIOD_S = 60.0
"""A token file is read again after this time, as in client-go."""

EXEC_TIMEOUT_S = 60.0
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Credentials(Protocol):
    """The identity of a client, as a request needs it."""

    def is_fresh(self) -> bool:
        """Report whether ``authorization`` and ``certificate`` can be used as they are."""
        ...

    async def refresh(self) -> None:
        """Update the credentials."""
        ...

    def invalidate(self) -> bool:
        """Drop credentials that the server rejected. Return false if ``refresh`` would return the same again."""
        ...

    @property
    def authorization(self) -> str | None:
        """Value of the Authorization header."""
        ...

    @property
    def certificate(self) -> Identity | None:
        """Client certificate from a plugin. Certificates from files are part of the TLS settings."""
        ...


class StaticCredentials:
    """A fixed Authorization header, or none at all."""

    certificate: Identity | None = None

    def __init__(self, authorization: str | None = None) -> None:
        self.authorization = authorization

    def is_fresh(self) -> bool:
        return True

    async def refresh(self) -> None:
        return None

    def invalidate(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"StaticCredentials({'…' if self.authorization else None})"


def bearer(token: str) -> StaticCredentials:
    """Return credentials for a fixed token."""
    return StaticCredentials(f"Bearer {token}")


def basic(username: str, password: str) -> StaticCredentials:
    """Return credentials for a user name and a password."""
    return StaticCredentials("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())


def has_control_characters(text: str) -> bool:
    """Report whether a text is unusable in a header, file name or URL."""
    return any(char < " " or char == "\x7f" for char in text)


class TokenFileCredentials:
    """A token in a file that another process rewrites; read again after a minute and after a 401."""

    certificate: Identity | None = None

    def __init__(self, path: str, *, fallback: str = "", clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._read_at = float("-inf")
        self._authorization = f"Bearer {fallback}" if fallback else None

    @property
    def authorization(self) -> str | None:
        return self._authorization

    def is_fresh(self) -> bool:
        return self._clock.monotonic() - self._read_at < TOKEN_FILE_PERIOD_S

    async def refresh(self) -> None:
        self.read()

    def read(self) -> None:
        """Read the file. If it is unusable, the old token stays in use."""
        try:
            token = Path(self._path).read_text(encoding="utf-8").strip()
            problem = "empty; it should hold a bearer token" if not token else ""
            if has_control_characters(token):
                problem = "more than one line; it should hold a bearer token"
        except (OSError, ValueError) as error:
            problem = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        if problem and self._authorization is None:
            raise InputError(f"token file {self._path}: {problem}")
        if not problem:
            self._authorization = f"Bearer {token}"
        self._read_at = self._clock.monotonic()

    def invalidate(self) -> bool:
        self._read_at = float("-inf")
        return True


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class ExecPlugin(msgspec.Struct, frozen=True):
    """The ``exec`` section of a kubeconfig user."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = EXEC_VERSIONS[0]
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = None


class ExecCredentials:
    """Credentials from a helper program, cached until they expire or the server rejects them."""

    def __init__(
        self, plugin: ExecPlugin, *, where: str, environ: Mapping[str, str] | None = None, clock: Clock | None = None
    ) -> None:
        self._plugin = plugin
        self._where = where
        self._environ = dict(os.environ if environ is None else environ)
        self._clock = clock or SystemClock()
        self._status: _ExecStatus | None = None
        self._expires_at: float | None = None
        self._certificate: Identity | None = None
        self._lock = asyncio.Lock()

    @property
    def authorization(self) -> str | None:
        return f"Bearer {self._status.token}" if self._status is not None and self._status.token else None

    @property
    def certificate(self) -> Identity | None:
        return self._certificate

    def is_fresh(self) -> bool:
        if self._status is None:
            return False
        return self._expires_at is None or self._clock.now() < self._expires_at

    def invalidate(self) -> bool:
        self._status = None
        return True

    async def refresh(self) -> None:
        async with self._lock:
            if self.is_fresh():
                return
            self._take(await self._run())

    async def _run(self) -> bytes:
        plugin = self._plugin
        environ = {**self._environ, **dict(plugin.env)}
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster_info is not None:
            spec["cluster"] = plugin.cluster_info
        environ["KUBERNETES_EXEC_INFO"] = json.dumps(
            {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        )
        program = shutil.which(plugin.command, path=environ.get("PATH"))
        if program is None:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise InputError(f"{self._where}.exec.command: no program {plugin.command!r} on this machine{hint}")
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *plugin.args,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{self._where}.exec: cannot run {plugin.command}: {why}") from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), EXEC_TIMEOUT_S)
        except TimeoutError:
            raise InputError(f"{self._where}.exec: {plugin.command} gave no answer in {EXEC_TIMEOUT_S:.0f}s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            said = " ".join(err.decode("utf-8", "replace").split())[:300] or "it said nothing"
            raise InputError(f"{self._where}.exec: {plugin.command} failed with status {process.returncode}: {said}")
        return out

    def _take(self, out: bytes) -> None:
        plugin = self._plugin
        where = f"{self._where}.exec: the answer of {plugin.command}"
        try:
            answer = msgspec.json.decode(out, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise InputError(f"{where} is not an ExecCredential: {error}") from None
        if answer.api_version != plugin.api_version or answer.kind != "ExecCredential":
            raise InputError(
                f"{where} is {answer.api_version or 'without apiVersion'} {answer.kind}; "
                f"the kubeconfig asks for {plugin.api_version} ExecCredential"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise InputError(f"{where} has neither a token nor a client certificate")
        if has_control_characters(status.token):
            raise InputError(f"{where} has a token of more than one line")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise InputError(f"{where} has only one of clientCertificateData and clientKeyData")
        expires_at = None
        if status.expiration_timestamp:
            try:
                when = datetime.datetime.fromisoformat(status.expiration_timestamp.replace("Z", "+00:00"))
            except ValueError:
                raise InputError(
                    f"{where}: expirationTimestamp {status.expiration_timestamp!r} is not an RFC 3339 time"
                ) from None
            expires_at = when.timestamp()
        certificate = None
        if status.client_certificate_data:
            certificate = Identity(status.client_certificate_data.encode(), status.client_key_data.encode())
        if certificate != self._certificate:
            self._certificate = certificate
        self._status, self._expires_at = status, expires_at
