"""``mooring queue``: look into a running scheduler's queue."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click
from rich.console import Console

from mooring.api.times import parse_time
from mooring.cli.help import examples
from mooring.cli.output import emit, output_option, print_table
from mooring.errors import InputError, UsageError

DEFAULT_SERVER = "https://127.0.0.1:10259"


@click.command(epilog=examples("mooring queue --kubeconfig ~/.kube/config --insecure-skip-tls-verify"))
@click.option("--server", default=DEFAULT_SERVER, show_default=True, metavar="URL", help="The scheduler's endpoints.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Whose credentials to show; KUBECONFIG otherwise.")
@click.option("--token-file", default="", metavar="FILE", help="A token to show instead.")
@click.option("--certificate-authority", default="", metavar="FILE", help="Trust the scheduler's certificate by this.")
@click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not check the scheduler's certificate.")
@click.option("-n", "--namespace", default="", help="Only pods of this namespace.")
@output_option()
def queue(
    server: str,
    kubeconfig: str,
    token_file: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
    namespace: str,
    output: str,
) -> None:
    """Show who waits in a running scheduler's queue: since when, why, and which events would wake them.

    The scheduler asks its API server whether you may GET /debug/queue, as for /metrics; it must have been started with
    --authentication-kubeconfig and --authorization-kubeconfig, or inside the cluster.
    """
    found = asyncio.run(_fetch(server, kubeconfig, token_file, certificate_authority, insecure_skip_tls_verify))
    if namespace:
        found["pods"] = [pod for pod in found["pods"] if pod["namespace"] == namespace]
    emit(found, output, lambda to: _draw(to, found))


async def _fetch(server: str, kubeconfig: str, token_file: str, authority: str, insecure: bool) -> dict[str, Any]:
    import msgspec

    from mooring.client.credentials import StaticCredentials, bearer
    from mooring.client.kubeconfig import ClientConfig, find_config
    from mooring.client.rest import RestClient
    from mooring.client.tls_settings import TlsSettings

    config = ClientConfig(server=server.rstrip("/"), tls=TlsSettings(insecure=insecure))
    if authority:
        config.tls = TlsSettings(ca_file=authority)
    if token_file:
        config.credentials = bearer(_read(token_file))
    else:
        own = find_config(kubeconfig)
        if not own.credentials.is_fresh():
            await own.credentials.refresh()
        config.credentials = StaticCredentials(own.credentials.authorization)
        config.tls.certificate = own.credentials.certificate or own.tls.certificate
        config.tls.certificate_file, config.tls.key_file = own.tls.certificate_file, own.tls.key_file
    async with RestClient(config, timeout_s=10.0) as client:
        answer = await client.get("/debug/queue")
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
        found["pods"], found["counts"]
    except (msgspec.DecodeError, KeyError):
        raise InputError(f"{server}/debug/queue: the answer is no queue; is it a mooring scheduler?") from None
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: {getattr(error, 'strerror', None) or error}") from None


def _draw(to: Console, found: dict[str, Any]) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    to.print(counts, markup=False)
    for waiting in found.get("waitingOnPermit", ()):
        plugins = ", ".join(waiting["plugins"])
        to.print(f"{waiting['pod']} waits for the permission of {plugins} to run on {waiting['node']}", markup=False)
    if not found["pods"]:
        return
    to.print()
    now = time.time()
    rows = [
        (
            f"{pod['namespace']}/{pod['name']}",
            pod["queue"],
            _age(now - parse_time(pod["since"])),
            str(pod["attempts"]),
            ", ".join(pod["plugins"]) or "-",
            ", ".join(pod["wakes"]) or "-",
            pod["message"] or "-",
        )
        for pod in found["pods"]
    ]
    print_table(to, ("POD", "QUEUE", "SINCE", "ATTEMPTS", "REFUSED BY", "WOKEN BY", "WHY"), rows)


def _age(seconds: float) -> str:
    seconds = max(0, int(seconds))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h"
