"""``mooring queue``: look into a running scheduler's queue."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from mooring.api.errors import ApiError, InputError, UsageError
from mooring.api.text import count_of, nearest
from mooring.api.times import parse_time
from mooring.cli.options import address_options, examples
from mooring.cli.output import emit, output_option, print_facts, print_table
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.net.kubeconfig import ClientConfig
    from mooring.net.tls import TlsSettings

Pod = dict[str, Any]


@click.command(epilog=examples("mooring queue --insecure-skip-tls-verify", "mooring queue shop/web-6c5f7d4-x2x9k"))
@click.argument("pod", required=False, default="")
@click.option(
    "--server",
    default="",
    metavar="URL",
    help="Ask the scheduler at this URL.",
)
@click.option("--kubeconfig", default="", metavar="FILE", help="Use the credentials of this kubeconfig.")
@address_options
@click.option("-n", "--namespace", default="", help="Show only pods of this namespace.")
@output_option("table", "wide", "json", "yaml")
def queue(
    pod: str,
    server: str,
    kubeconfig: str,
    token_file: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
    namespace: str,
    output: str,
) -> None:
    """List the pending pods of a running scheduler: since when, and which plugins rejected them.

    `-o wide` adds why, and which events wake them; POD shows the same for one pod. Pods that wait for schedulers which
    were not asked are counted.

    The scheduler asks its API server whether you may GET /debug/queue, as for /metrics. It needs
    --authentication-kubeconfig and --authorization-kubeconfig for that, unless it runs inside the cluster.
    """

    address = Address(server, kubeconfig, token_file, certificate_authority, insecure_skip_tls_verify)
    found = asyncio.run(fetch_queue(address))
    if namespace:
        found["pods"] = [each for each in found["pods"] if each["namespace"] == namespace]
    if pod:
        one = _find(pod, namespace, found["pods"])
        emit(one, output, lambda to: _draw_pod(to, one))
    else:
        emit(found, output, lambda to: _draw(to, found, is_wide=output == "wide"))


def _find(name: str, namespace: str, pods: list[Pod]) -> Pod:
    key = name if "/" in name else f"{namespace or 'default'}/{name}"
    by_key = {_key(pod): pod for pod in pods}
    if key in by_key:
        return by_key[key]
    near = nearest(key, by_key, cutoff=0.8)
    hint = f"did you mean {near}?" if near else "mooring queue lists the pods that are"
    raise UsageError(f"{key} is not in the queue; {hint}")


def _draw(to: Console, found: dict[str, Any], *, is_wide: bool) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    to.print(f"{found['server']} schedules the pods of {', '.join(found['schedulers'])}", markup=False)
    to.print(counts, markup=False)
    for name, count in (found["otherSchedulers"] or {}).items():
        waiting = (
            f"{'at least ' if count == MAX_OTHERS else ''}{count_of(count, 'pod')} {'waits' if count == 1 else 'wait'}"
        )
        to.print(f"{waiting} for {name}, which was not asked; --server URL asks another scheduler", markup=False)
    for waiting in found.get("waitingOnPermit", ()):
        plugins = ", ".join(waiting["plugins"])
        to.print(f"{waiting['pod']} waits for the permission of {plugins} to run on {waiting['node']}", markup=False)
    if not found["pods"]:
        return
    to.print()
    if is_wide:
        for pod in found["pods"]:
            _draw_pod(to, pod)
        return
    now = time.time()
    has_groups = any(pod.get("group") for pod in found["pods"])
    rows = [
        [
            _key(pod),
            *([pod.get("group", "-")] if has_groups else []),
            pod["queue"],
            _age(now, pod["since"]),
            str(pod["attempts"]),
            ", ".join(pod["plugins"]) or "-",
        ]
        for pod in found["pods"]
    ]
    print_table(to, ["POD", *(["GROUP"] if has_groups else []), "QUEUE", "SINCE", "ATTEMPTS", "REFUSED BY"], rows)


def _draw_pod(to: Console, pod: Pod) -> None:
    now = time.time()
    facts = {
        "Queue": f"{pod['queue']}, since {_age(now, pod['since'])}",
        "Backoff": f"{pod['backoffLeftSeconds']:g}s left" if pod["backoffLeftSeconds"] else "",
        "Waits": f"since {_age(now, pod['added'])}, {pod['attempts']} attempt{'s' if pod['attempts'] != 1 else ''}",
        "Priority": str(pod["priority"]),
        "Group": pod.get("group", ""),
        "Scheduler": pod["schedulerName"],
        "Refused by": ", ".join(pod["plugins"]),
        "Why": pod["message"],
        "Woken by": ", ".join(pod["wakes"]),
    }
    to.print(_key(pod), style="bold", markup=False)
    print_facts(to, facts)


def _key(pod: Pod) -> str:
    return f"{pod['namespace']}/{pod['name']}"


def _age(now: float, since: str) -> str:
    from mooring.api.times import human_duration

    return human_duration(max(0.0, now - parse_time(since)))


# --------------------------------------------------------------------------------------------------------------------
# Where ``mooring queue`` finds a scheduler, and which credentials it sends.

DEFAULT_SERVER = "https://127.0.0.1:10259"
PATH = "/debug/queue"
ANSWER_WITHIN_S = 10.0
MAX_OTHERS = 500  # pods of other schedulers that are read


@dataclass(frozen=True, slots=True)
class Address:
    """Options about the scheduler; empty if not given."""

    server: str = ""
    kubeconfig: str = ""
    token_file: str = ""
    authority: str = ""
    is_insecure: bool = False


async def fetch_queue(address: Address) -> dict[str, Any]:
    """Ask a scheduler for its queue."""
    from mooring.net.errors import ConnectionFailed, Forbidden
    from mooring.net.rest import RestClient

    config, cluster = await _reached(address)
    try:
        async with RestClient(config, timeout_s=ANSWER_WITHIN_S) as client:
            answer = await client.get(PATH)
    except Forbidden as error:
        if "system:anonymous" not in str(error):
            raise
        raise ApiError(
            f"{error}; the scheduler cannot authenticate you: start it with --authentication-kubeconfig and "
            "--authorization-kubeconfig"
        ) from None
    except ConnectionFailed as error:
        raise ApiError(f"{error}; give --server") from None
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
        found["pods"], found["counts"], found["schedulers"]
    except (msgspec.DecodeError, KeyError):
        raise InputError(f"{config.server}{PATH}: the answer is not a queue; is it a mooring scheduler?") from None
    others = None if cluster is None else await _waiting_for_others(cluster, found["schedulers"])
    return {"server": config.server, **found, "otherSchedulers": others}


async def _waiting_for_others(cluster: ClientConfig, asked: list[str]) -> dict[str, int] | None:
    """Count pending pods of schedulers that were not asked, by scheduler; None: not permitted."""
    from mooring.net.rest import RestClient

    selector = ",".join(["spec.nodeName=", "status.phase=Pending", *(f"spec.schedulerName!={name}" for name in asked)])
    try:
        async with RestClient(cluster, timeout_s=ANSWER_WITHIN_S) as client:
            answer = await client.get("/api/v1/pods", {"fieldSelector": selector, "limit": str(MAX_OTHERS)})
        pods = msgspec.json.decode(answer.body, type=dict[str, Any])["items"]
        return dict(Counter(pod["spec"].get("schedulerName", "default-scheduler") for pod in pods).most_common())
    except (ApiError, msgspec.DecodeError, KeyError) as error:
        say(f"warning: whether pods wait for other schedulers is not known: {error}")
        return None


async def client_config(address: Address) -> ClientConfig:
    """Return how to reach a scheduler, and with which credentials."""
    return (await _reached(address))[0]


async def _reached(address: Address) -> tuple[ClientConfig, ClientConfig | None]:
    """Return the same, and how to reach its cluster; None: a token does not identify it."""
    from mooring.net.credentials import StaticCredentials, bearer
    from mooring.net.kubeconfig import ClientConfig, find_config

    if address.token_file:
        credentials = bearer(_read_token(address.token_file))
        return ClientConfig(server=_server(address), tls=_tls(address), credentials=credentials), None
    own = find_config(address.kubeconfig)
    if not address.server and await _is_mooring_start(own):
        if address.authority or address.is_insecure:  # for a scheduler with its own certificate
            say(f"mooring: the scheduler of mooring start answers; --server {DEFAULT_SERVER} asks another one")
        return own, own
    config = ClientConfig(server=_server(address), tls=_tls(address))
    if not own.credentials.is_fresh():
        await own.credentials.refresh()
    config.credentials = StaticCredentials(own.credentials.authorization)
    config.tls.certificate = own.credentials.certificate or own.tls.certificate
    config.tls.certificate_file, config.tls.key_file = own.tls.certificate_file, own.tls.key_file
    return config, own


async def _is_mooring_start(config: ClientConfig) -> bool:
    """Report whether this is a cluster of ``mooring start``: its API server also serves its scheduler's queue."""
    from mooring.net.rest import RestClient

    with contextlib.suppress(ApiError, msgspec.DecodeError):
        async with RestClient(config) as client:
            answer = await client.get("/version", timeout_s=ANSWER_WITHIN_S)
            version = msgspec.json.decode(answer.body, type=dict[str, Any]).get("gitVersion")
            return str(version).endswith("+mooring")
    return False


def _server(address: Address) -> str:
    return (address.server or DEFAULT_SERVER).rstrip("/")


def _tls(address: Address) -> TlsSettings:
    from mooring.net.tls import TlsSettings

    return TlsSettings(ca_file=address.authority) if address.authority else TlsSettings(insecure=address.is_insecure)


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {path}: {getattr(error, 'strerror', None) or error}") from None
