"""``mooring tune``: search a better configuration for one's own trace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, config_option, plugin_option, version_option
from mooring.cli.output import emit, output_option

if TYPE_CHECKING:
    from mooring.ask.pareto import Tuning


@click.command()
@click.argument("story", metavar="FILE|NAME")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the file; repeatable.")
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="MEASURE=min|max",
    help="Optimise this measure; repeatable.",
)
@click.option("--space", metavar="FILE", help="Read the search space from this file.")
@click.option("--trials", type=Integers(0), default=40, show_default=True, help="Try N points.")
@click.option("--seeds", type=Integers(1), default=1, show_default=True, help="Run each point with N seeds.")
@click.option(
    "--hold-out",
    default="0.3",
    show_default=True,
    metavar="SHARE|NAME=VALUE",
    help="Hold out last pods or a trace.",
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="Set the search's random seed.")
@click.option("--until", metavar="TIME", help="Stop simulations after this time, e.g. 36h.")
@click.option("--jobs", type=Integers(1), help="Try N points at a time.  [default: cores]")
@config_option
@plugin_option
@version_option
@click.option("--write-config", metavar="FILE", help="Write the chosen configuration to this file.")
@click.option("--picture", metavar="FILE", help="Draw the points by two objectives, as SVG.")
@output_option()
def tune(
    story: str,
    settings: tuple[str, ...],
    objectives: tuple[str, ...],
    space: str | None,
    trials: int,
    seeds: int,
    hold_out: str,
    seed: int,
    until: str | None,
    jobs: int | None,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    write_config: str | None,
    picture: str | None,
    output: str,
) -> int:
    """Search a better configuration for your own trace.

    Weights, strategies and plugin arguments are tried on a simulation; the default configuration is always one of the
    points. The best points are tried again on a part of the trace that the search has not seen. Exit code 0: the
    chosen point is better there than your configuration, or than the default if you have none; 1: it is not; 2: the
    input cannot be used.

    \b
    Example:
      mooring tune day.yaml --objective pending=min --objective waitP99=min --trials 100
      mooring tune day.yaml --hold-out pods=tuesday.csv --write-config better.yaml --picture pareto.svg
    """
    from mooring.ask.pareto import draw
    from mooring.ask.tune import DEFAULT_OBJECTIVES
    from mooring.ask.tune import tune as search
    from mooring.cli.output import progress
    from mooring.sim.step_fields import parse_settings, seconds

    workers = jobs or os.cpu_count() or 1
    with ExitStack() as stack, progress("points", eta=True) as show:
        pool = None
        if workers > 1 and trials > 1:
            pool = stack.enter_context(ProcessPoolExecutor(workers, get_context("spawn")))
        found = search(
            story,
            parse_settings(settings),
            objectives=objectives or DEFAULT_OBJECTIVES,
            space=space,
            trials=trials,
            seeds=seeds,
            hold_out=_hold_out(hold_out),
            config=config_path,
            plugins=plugins,
            kubernetes_version=kubernetes_version,
            until_s=None if until is None else seconds(until),
            executor=pool,
            seed=seed,
            on_progress=lambda done, total: show("tuning", done, total),
        )
    _write(found, write_config, picture)
    emit(found.to_dict(), output, lambda to: draw(to, found))
    return 0 if found else 1


def _hold_out(text: str) -> float | Mapping[str, Any]:
    from mooring.sim.step_fields import parse_settings

    if "=" in text:
        return parse_settings((text,))
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--hold-out: found {text!r}, expected a share such as 0.3, or NAME=VALUE") from None


def _write(found: Tuning, config: str | None, picture: str | None) -> None:
    from mooring.api import yaml
    from mooring.ask.pareto import pareto_svg
    from mooring.ask.tune import configured

    if config is not None:
        goals = ", ".join(map(str, found.objectives))
        note = f"# {found.chosen.name} of a search on {found.story} for {goals}\n"
        _put(config, note + yaml.dump(configured(found.chosen.config, {}), sort_keys=False))
    if picture is not None:
        _put(picture, pareto_svg(found))


def _put(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
