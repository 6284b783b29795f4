"""``mooring drill``: what would be lost with each node, zone or rack."""

from __future__ import annotations

from typing import Any

import click

from mooring.cli.options import asked_scheduler, scheduler_options, warnings_on_stderr
from mooring.cli.output import emit, output_option, shown_on_a_terminal


@click.command()
@scheduler_options
@click.option(
    "--lose",
    metavar="node|zone|label=KEY|NAME",
    default="node",
    show_default=True,
    help="What is lost: each node, each zone, each value of a label (a rack), or the one node or zone of this name.",
)
@click.option("--n", type=click.IntRange(1, 2), default=1, show_default=True, help="How many are lost at once.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many losses to show.")
@output_option()
def drill(lose: str, n: int, top: int, output: str, **asked: Any) -> int:
    """Say what would be lost with each node, zone or rack: tried on copies of the cluster, the worst first.

    The pods of lost nodes are made anew, and placed in the order of the queue. Exit code 0: every loss is harmless; 1:
    a pod has no place, a volume is lost for good, or a budget breaks; 2: the input cannot be used.

    \b
    Example:
      mooring drill --cluster dump.json
      mooring drill --cluster dump.json --lose zone
      mooring drill --kubeconfig ~/.kube/config --lose label=example.com/rack --n 2
    """
    from mooring.ask.drill import draw, drill_with

    scheduler = asked_scheduler("drill", output, **asked)
    with warnings_on_stderr(), shown_on_a_terminal("losses", "drill") as show:
        found = drill_with(scheduler, lose, n, show)
    emit(found.to_list(), output, lambda to: draw(to, found, top))
    return 0 if found.is_safe else 1
