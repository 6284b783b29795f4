"""``mooring decide``: replay recorded cases and print what mooring decides."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.api.errors import InputError, MooringError
from mooring.api.text import without_secrets
from mooring.api.version import Release, release_of
from mooring.cli.options import (
    features_for,
    load_configuration,
    load_registry,
    plugin_option,
    version_option,
    warn_of_extenders,
)

if TYPE_CHECKING:
    from mooring.core.config.features import Features
    from mooring.core.config.types import KubeSchedulerConfiguration


def read_cases(path: str) -> Iterator[dict[str, Any]]:
    """Yield the cases of a JSON Lines file, gzip or plain, or of standard input (``-``)."""
    where = "standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}, line {number}: expected one JSON object per line: {error}") from None
        if not isinstance(case, dict) or not isinstance(case.get("steps"), list):
            raise InputError(f"{where}, line {number}: not a case; expected an object with id, objects and steps")
        yield case


def _extenders_of(case: dict[str, Any]) -> list[str]:
    """Return the URLs of a case's extenders. Mistakes in its configuration are found when it is loaded."""
    config = case.get("config")
    entries = config.get("extenders") if isinstance(config, dict) else None
    found = entries if isinstance(entries, list) else []
    return [without_secrets(str(entry.get("urlPrefix"))) for entry in found if isinstance(entry, dict)]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--config", "config_path", metavar="FILE", help="Use this configuration, not the cases' own.")
@plugin_option
@version_option
@click.option("-o", "--output", type=click.Choice(["json"]), default="json", help="Print one JSON object per case.")
def decide(
    files: tuple[str, ...],
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    output: str,
) -> None:
    """Replay recorded cases and print the decisions, one JSON line per case.

    A case is a cluster, a configuration and pods that come one after another. It says the version of Kubernetes.
    Recorded verdicts are not looked at: compare the output with them. Extenders are not called; if there are some, a
    warning says so.

    \b
    Example:
      mooring decide tests/parity/golden/taints.jsonl.gz > decisions.jsonl
    """
    from mooring.sim.replay import replay_case

    registry, own = load_registry(plugins)

    @cache  # each warning is printed once
    def of_release(release: Release) -> tuple[Features, KubeSchedulerConfiguration | None]:
        features = features_for(kubernetes_version, release)
        return features, None if config_path is None else load_configuration(config_path, own, features)

    for path in files:
        for case in read_cases(path):
            features, config = of_release(release_of(case.get("kubernetes")))
            if config is None:
                warn_of_extenders(_extenders_of(case), f"case {case.get('id')}")
            try:
                decided = replay_case(case, config, registry, features)
            except MooringError as error:
                raise type(error)(f"case {case.get('id')}: {error}") from None
            click.echo(json.dumps(decided, separators=(",", ":"), ensure_ascii=False))
