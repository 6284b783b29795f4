"""``mooring record``: write down what happens in a cluster, and what its own scheduler does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from mooring.api.errors import ParseError, UsageError
from mooring.api.times import parse_seconds
from mooring.cli.options import Integers, examples, features_for, load_configuration
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.cli.watched_cluster import WatchedRecord

FLUSH_S = 2.0


@click.command(
    epilog=examples(
        "mooring record -o monday.mrec --for 8h",
        "mooring record --kubeconfig ~/.kube/config --config scheduler.yaml -o monday.mrec",
    )
)
@click.option("-o", "--output", "path", required=True, metavar="FILE", help="Write the record to this file.")
@click.option("--kubeconfig", metavar="FILE", default="", help="Use this kubeconfig.  [default: kubectl's]")
@click.option("--context", metavar="NAME", default="", help="Use this context of the kubeconfig.")
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    help="Set the cluster scheduler's configuration.",
)
@click.option("--for", "duration", metavar="DURATION", help="Stop after this time, e.g. 8h.")
@click.option("--max-size", type=Integers(1), default=1024, show_default=True, help="Stop after N MiB.")
@click.option("--annotations", is_flag=True, help="Record the values of all annotations.")
def record(
    path: str,
    kubeconfig: str,
    context: str,
    config_path: str | None,
    duration: str | None,
    max_size: int,
    annotations: bool,
) -> int:
    """Record what happens in a cluster, and what its own scheduler does, until Ctrl-C.

    The cluster is only read: get, list and watch, of what a scheduler watches. The record holds no Secret, no
    environment variable, no command, and no annotation's value that scheduling does not read.
    """
    try:
        seconds = None if duration is None else parse_seconds(duration)
    except ParseError as error:
        raise UsageError(f"--for {duration}: {error}; write 90s or 8h") from None
    attempts = asyncio.run(_record(path, kubeconfig, context, config_path, seconds, max_size << 20, annotations))
    say(f"{path}: {attempts} attempt{'s' if attempts != 1 else ''}; mooring replay {path} opens it")
    return 0


async def _record(
    path: str,
    kubeconfig: str,
    context: str,
    config_path: str | None,
    seconds: float | None,
    max_bytes: int,
    annotations: bool,
) -> int:
    from mooring.cli.watched_cluster import SYNC_S, WatchedRecord, watched
    from mooring.net.kubeconfig import find_config
    from mooring.net.rest import RestClient, server_version, user_agent

    async with RestClient(find_config(kubeconfig, context=context), agent=user_agent("mooring", "record")) as client:
        release = (await server_version(client, timeout_s=SYNC_S)).release
        features = features_for(None, release)
        config = load_configuration(config_path, (), features)
        record = WatchedRecord(path, max_bytes, config, features, is_redacted=not annotations)
        try:
            async with watched(client, record):
                say(f"Recording into {path}; Ctrl-C ends it.")
                await _until_the_end(record, seconds)
        finally:
            record.close()
    if record.failure is not None:
        raise record.failure
    return record.attempts


async def _until_the_end(record: WatchedRecord, seconds: float | None) -> None:
    """Return after the given time, at Ctrl-C, or when the record has ended."""
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(seconds):
            while record.is_open:
                await asyncio.sleep(FLUSH_S)
                record.flush()
