"""Where ``mooring queue`` finds a scheduler, and which credentials it sends."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.cli.streams import say
from mooring.client.credentials import StaticCredentials, bearer
from mooring.client.errors import ConnectionFailed, Forbidden
from mooring.client.kubeconfig import ClientConfig, find_config
from mooring.client.rest import RestClient
from mooring.client.tls_settings import TlsSettings
from mooring.controlplane.serving.discovery import GIT_VERSION
from mooring.errors import ApiError, InputError, UsageError

DEFAULT_SERVER = "https://127.0.0.1:10259"
PATH = "/debug/queue"
ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Address:
    """What the options say about the scheduler; empty where they say nothing."""

    server: str = ""
    kubeconfig: str = ""
    token_file: str = ""
    authority: str = ""
    is_insecure: bool = False


async def fetch_queue(address: Address) -> dict[str, Any]:
    """Ask a scheduler for its queue."""
    config = await client_config(address)
    try:
        async with RestClient(config, timeout_s=ANSWER_WITHIN_S) as client:
            answer = await client.get(PATH)
    except Forbidden as error:
        if "system:anonymous" not in str(error):
            raise
        raise ApiError(
            f"{error}; the scheduler cannot tell who you are: start it with --authentication-kubeconfig and "
            "--authorization-kubeconfig"
        ) from None
    except ConnectionFailed as error:
        raise ApiError(f"{error}; --server says where the scheduler is") from None
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
        found["pods"], found["counts"]
    except (msgspec.DecodeError, KeyError):
        raise InputError(f"{config.server}{PATH}: the answer is no queue; is it a mooring scheduler?") from None
    return found


async def client_config(address: Address) -> ClientConfig:
    """How to reach a scheduler, and whose credentials to show."""
    if address.token_file:
        credentials = bearer(_read_token(address.token_file))
        return ClientConfig(server=_server(address), tls=_tls(address), credentials=credentials)
    own = find_config(address.kubeconfig)
    if not address.server and await _is_mooring_start(own):
        if address.authority or address.is_insecure:  # they are for a scheduler with a certificate of its own
            say(f"mooring: the scheduler of mooring start answers; --server {DEFAULT_SERVER} asks one beside it")
        return own
    config = ClientConfig(server=_server(address), tls=_tls(address))
    if not own.credentials.is_fresh():
        await own.credentials.refresh()
    config.credentials = StaticCredentials(own.credentials.authorization)
    config.tls.certificate = own.credentials.certificate or own.tls.certificate
    config.tls.certificate_file, config.tls.key_file = own.tls.certificate_file, own.tls.key_file
    return config


async def _is_mooring_start(config: ClientConfig) -> bool:
    """Whether this is a cluster of ``mooring start``: its API server shows its scheduler's queue, too."""
    with contextlib.suppress(ApiError, msgspec.DecodeError):
        async with RestClient(config) as client:
            answer = await client.get("/version", timeout_s=ANSWER_WITHIN_S)
            return bool(msgspec.json.decode(answer.body, type=dict[str, Any]).get("gitVersion") == GIT_VERSION)
    return False


def _server(address: Address) -> str:
    return (address.server or DEFAULT_SERVER).rstrip("/")


def _tls(address: Address) -> TlsSettings:
    return TlsSettings(ca_file=address.authority) if address.authority else TlsSettings(insecure=address.is_insecure)


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: {getattr(error, 'strerror', None) or error}") from None
