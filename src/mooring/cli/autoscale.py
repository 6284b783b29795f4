"""``mooring autoscale``: a story with nodes that come and go by a policy, or by several that are compared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, examples
from mooring.cli.output import emit, output_option, progress
from mooring.cli.story_options import scheduler_options, with_scheduler

if TYPE_CHECKING:
    from mooring.sim.result import Simulation


@click.command(
    epilog=examples(
        "mooring autoscale day.yaml --policy nodepool.yaml --catalogue catalogue.csv",
        "mooring autoscale day.yaml --policy a.yaml --policy b.yaml --catalogue catalogue.csv --seeds 10",
        "mooring autoscale day.yaml --policy a.yaml --catalogue catalogue.csv --packing upstream --packing exact",
    )
)
@click.argument("story", metavar="FILE|NAME")
@click.option("--policy", "policies", multiple=True, metavar="FILE", help="Scale nodes by this; several are compared.")
@click.option("--catalogue", metavar="FILE", help="Read instance types and prices, CSV or JSON.")
@click.option("--cloud", "cloud_path", metavar="FILE", help="Read delays, failures and quotas, YAML.")
@click.option(
    "--packing", "packings", multiple=True, metavar="exact|upstream", help="Plan exactly (default) or as upstream."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the file; repeatable.")
@click.option("--seed", default=0, metavar="N", show_default=True, help="Set the first random seed.")
@click.option("--seeds", type=Integers(1), default=1, metavar="N", show_default=True, help="Play N seeds.")
@click.option("--until", metavar="TIME", help="Stop after this time, e.g. 36h.")
@scheduler_options
@click.option("--record", "record_path", metavar="FILE", help="Write a record of one run, for report and ui.")
@click.option("--top", type=Integers(1), default=10, show_default=True, help="Show N pods that moved.")
@output_option()
def autoscale(
    story: str,
    policies: tuple[str, ...],
    catalogue: str | None,
    cloud_path: str | None,
    packings: tuple[str, ...],
    settings: tuple[str, ...],
    seed: int,
    seeds: int,
    until: str | None,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    record_path: str | None,
    top: int,
    output: str,
) -> int:
    """Play a story with autoscaled nodes, and report cost and waiting times.

    A policy is a file with NodePools of Karpenter, or with flags and node groups of cluster-autoscaler. Without one the
    story has a step autoscaler. The exit code says whether all expectations held (0) or not (1).
    """
    from contextlib import ExitStack
    from pathlib import Path

    from mooring.api import yaml
    from mooring.api.manifests import read_bytes
    from mooring.ask.autoscale import compare_policies, draw, read_policies
    from mooring.sim.autoscaler.packing import EXACT
    from mooring.sim.library import find
    from mooring.sim.simulate import run_scenario
    from mooring.sim.step_fields import parse_settings, seconds

    told = with_scheduler(find(story, parse_settings(settings)), config_path, plugins, kubernetes_version)
    cloud = None if cloud_path is None else yaml.load(read_bytes(Path(cloud_path)), cloud_path)
    if not policies and (catalogue is not None or cloud_path is not None or packings):
        raise UsageError("--catalogue, --cloud and --packing belong to a policy; give one with --policy")
    found = (
        read_policies(policies, catalogue, packings or (EXACT,), cloud=cloud, values=told.parameters)
        if policies
        else [None]
    )
    if record_path is not None and len(found) * seeds > 1:
        raise UsageError("--record: expected one policy, one packing and one seed; a record is of one run")
    with ExitStack() as stack:
        show = stack.enter_context(progress("runs", eta=True))
        observers: tuple[object, ...] = ()
        if record_path is not None:
            from mooring.record.recorder import Recorder

            recorder = Recorder.to_file(record_path, source="simulation", inputs=told.records)
            stack.callback(recorder.close)
            observers = (recorder,)
        done = 0

        def run(*of: object, **options: object) -> Simulation:
            nonlocal done
            if sys.stderr.isatty():
                show("simulating", done, len(found) * seeds)
            done += 1
            return run_scenario(*of, **options, observers=observers)  # type: ignore[arg-type]

        until_s = None if until is None else seconds(until, "--until")
        compared = compare_policies(told, found, seeds=range(seed, seed + seeds), until_s=until_s, run=run)
    emit(compared.to_dict(), output, lambda to: draw(to, compared, top))
    return 0 if compared.held else 1
