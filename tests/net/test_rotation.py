"""Tokens and certificates that are replaced while requests are under way: none of them fails for it."""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

from mooring.api.clock import VirtualClock
from mooring.net.credentials import TokenFileCredentials
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.net.tls import FILES_PERIOD_S, TlsSettings

PODS = "/api/v1/namespaces/default/pods"


async def load(client: RestClient, workers: int = 8, each: int = 25) -> list[BaseException]:
    """Reads and writes side by side; returns what failed."""

    async def work(number: int) -> None:
        for _ in range(each):
            await (client.create(PODS, b"{}") if number % 2 else client.get(PODS))

    outcomes = await asyncio.gather(*(work(number) for number in range(workers)), return_exceptions=True)
    return [outcome for outcome in outcomes if outcome is not None]


async def test_a_token_that_is_replaced_under_load(serve, tmp_path):
    file, accepted, served = tmp_path / "token", "one", 0
    file.write_text("one")

    async def handler(request: web.Request) -> web.Response:
        nonlocal accepted, served
        served += 1
        if served in (40, 90, 140):  # the old token is invalid immediately, as when a service account is made anew
            accepted = f"token-{served}"
            file.write_text(accepted)
        if request.headers["Authorization"] != f"Bearer {accepted}":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        return web.json_response({})

    credentials = TokenFileCredentials(str(file))
    async with RestClient(ClientConfig(await serve(handler), credentials=credentials), qps=-1) as client:
        assert await load(client) == []
    assert accepted == "token-140"


async def test_a_client_certificate_that_is_replaced_under_load(serve, authority, server_certificate, tmp_path):
    """Both files are written, one after the other, while requests come; each pair is shown by later connections."""
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    pairs = [authority.issue(name) for name in ("first", "second", "third")]
    certificate.write_bytes(pairs[0].certificate)
    key.write_bytes(pairs[0].key)
    clock, served, shown = VirtualClock(), 0, set()

    async def handler(request: web.Request) -> web.Response:
        nonlocal served
        served += 1
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        shown.add(dict(field[0] for field in peer["subject"])["commonName"])
        clock.advance(FILES_PERIOD_S / 10)
        match served:
            case 40:
                certificate.write_bytes(pairs[1].certificate)
            case 80:
                key.write_bytes(pairs[1].key)
            case 120:
                key.write_bytes(pairs[2].key)
            case 140:
                certificate.write_bytes(pairs[2].certificate)
        return web.json_response({})

    context = authority.server_context(server_certificate, verify_clients=True)
    context.verify_mode = ssl.CERT_REQUIRED
    settings = TlsSettings(ca_data=authority.pem, certificate_file=str(certificate), key_file=str(key), clock=clock)
    config = ClientConfig(await serve(handler, tls=context), tls=settings)
    async with RestClient(config, qps=-1) as client:
        assert await load(client) == []
    assert shown == {"first", "second", "third"}
