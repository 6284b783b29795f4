"""``mooring bench gym``: how many steps a second the environment for learned policies makes."""

from __future__ import annotations

import click
from rich.console import Console

from mooring.cli.output import emit, output_option, print_table
from mooring.errors import UsageError


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(1, 100_000),
    multiple=True,
    default=(100, 1213),
    show_default=True,
    help="Nodes in the cluster; repeat for several.",
)
@click.option("--steps", type=click.IntRange(1), default=5000, show_default=True, help="Steps to measure.")
@output_option()
def gym(nodes: tuple[int, ...], steps: int, output: str) -> None:
    """Time the steps of the environment in mooring.gym, on one core.

    A step makes an observation, the mask of feasible nodes and a reward. Actions are drawn from those that the mask
    allows. The time is CPU time of this process.

    \b
    Example:
      mooring bench gym --nodes 100
    """
    try:
        from mooring.bench.environment import measure
    except ImportError as error:
        raise UsageError(str(error)) from None

    results = [measure(each, steps) for each in nodes]

    def draw(out: Console) -> None:
        rows = [
            [f"{each.nodes:,}", f"{each.steps:,}", f"{each.steps_per_s:,.0f}", f"{each.reset_ms:,.0f}"]
            for each in results
        ]
        print_table(out, ["nodes", "steps", "steps / CPU s", "reset ms"], rows)

    emit({"results": [each.to_dict() for each in results]}, output, draw)
