"""``mooring optimise``, ``consolidate`` and ``deschedule``: what would be better, and how to get there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mooring.api import yaml
from mooring.api.errors import UsageError
from mooring.cli.options import Integers, Numbers, asked_scheduler, scheduler_options
from mooring.cli.output import emit, keep_inputs, output_option, progress, shown_on_a_terminal

_EMPTYDIR = click.option("--delete-emptydir-data", is_flag=True, help="Move pods that have an emptyDir.")
_PRICES = click.option("--prices", metavar="FILE", help="Read prices (YAML) or a catalogue (CSV).")


@click.command()
@scheduler_options
@click.option(
    "--for",
    "objective",
    type=click.Choice(["nodes", "cost", "spread", "fragmentation"]),
    metavar="GOAL",
    default="nodes",
    help="nodes (default), cost, spread, fragmentation.",
)
@click.option("--pending", is_flag=True, help="Place only pending pods, with few moves.")
@click.option("--preempt", is_flag=True, help="Allow preemption of lower-priority pods.")
@_PRICES
@click.option("--weigh", metavar="RESOURCE", default="", help="Count placed pods by this request.")
@click.option("--room-for", metavar="POD", default="", help="Make room for pods like this one.")
@click.option("--max-moves", type=Integers(0), metavar="N", help="Move at most N pods.")
@_EMPTYDIR
@click.option("--force", is_flag=True, help="Move pods without a controller, too.")
@click.option("--solver", type=click.Choice(["highs", "cp-sat"]), default="highs", help="Use this solver.")
@click.option("--time-limit", type=Numbers(0), default=60, show_default=True, metavar="S", help="Search for S seconds.")
@click.option("--story", type=click.Path(path_type=Path), metavar="FILE", help="Write the steps as a story, too.")
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N steps.")
@output_option()
def optimise(
    objective: str,
    pending: bool,
    preempt: bool,
    prices: str | None,
    weigh: str,
    room_for: str,
    max_moves: int | None,
    delete_emptydir_data: bool,
    force: bool,
    solver: str,
    time_limit: float,
    story: Path | None,
    top: int,
    output: str,
    **asked: Any,
) -> int:
    """Find a better placement of the pods, and the steps that lead to it.

    The objective is lexicographic: more pods placed, by priority; then --for; then fewer moves. A solver proposes, and
    each step is replayed through every filter of the scheduler. Budgets are never exceeded. The cluster is only read.
    Ctrl-C ends the search with the best plan so far. Exit code 0: there is a better placement; 1: none was found; 2:
    the input cannot be used.

    \b
    Example:
      mooring optimise --cluster dump.json
      mooring optimise --cluster dump.json --pending
      mooring optimise --kubeconfig ~/.kube/config --for cost --prices prices.yaml
    """
    from mooring.ask.optimise import draw, headline, optimise_with
    from mooring.ask.placement_options import PENDING
    from mooring.ask.story_of_moves import story_of

    if pending and (objective != "nodes" or prices):
        raise UsageError("--pending only places pods; --for and --prices ask for more")
    if story is not None:
        keep_inputs(story, asked["dumps"])
    scheduler = asked_scheduler("optimise", output, **asked, needs_nodes=True)
    with progress("s") as show:
        found = optimise_with(
            scheduler,
            PENDING if pending else objective,
            prices=prices,
            preempt=preempt,
            weigh=weigh,
            room_for=room_for,
            max_moves=max_moves,
            delete_emptydir_data=delete_emptydir_data,
            force=force,
            solver=solver,
            time_limit_s=time_limit,
            progress=(lambda text, done, total: show("optimise", done, total, text))
            if sys.stderr.isatty()
            else lambda text, done, total: None,
        )
    if story is not None:
        text = story_of(scheduler.cluster, found.steps, headline(found))
        try:
            story.write_text(yaml.dump(text, sort_keys=False), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{story}: {(error.strerror or str(error)).lower()}") from None
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_better else 1


@click.command()
@scheduler_options
@_PRICES
@_EMPTYDIR
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N lines.")
@output_option()
def consolidate(prices: str | None, delete_emptydir_data: bool, top: int, output: str, **asked: Any) -> int:
    """Find nodes that could be removed, in which order, what that saves, and what keeps the others.

    Nodes are emptied one after another on a copy of the cluster, where kube-scheduler chooses the new place of each
    pod. For every node that stays, the pod that keeps it is named, and what would help. Exit code 0: at least one node
    can go; 1: none can; 2: the input cannot be used.

    \b
    Example:
      mooring consolidate --cluster dump.json
      mooring consolidate --cluster dump.json --prices prices.yaml
    """
    from mooring.ask.consolidate import consolidate_with, draw

    scheduler = asked_scheduler("consolidate", output, **asked, needs_nodes=True)
    with shown_on_a_terminal("nodes", "consolidate") as show:
        found = consolidate_with(scheduler, prices=prices, delete_emptydir_data=delete_emptydir_data, progress=show)
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.nodes else 1


@click.command()
@scheduler_options
@click.option("--policy", required=True, metavar="FILE", help="Read a v1alpha2 DeschedulerPolicy.")
@click.option("--cycles", type=Integers(1), default=1, show_default=True, help="Run at most N cycles.")
@click.option("--now", metavar="TIME", help="Count ages from this RFC 3339 time, not now.")
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N lines.")
@output_option()
def deschedule(policy: str, cycles: int, now: str | None, top: int, output: str, **asked: Any) -> int:
    """Show what a DeschedulerPolicy would evict, and where each pod would go then.

    Each cycle evicts pods on a copy of the cluster, as the descheduler would, and kube-scheduler's decisions place
    their successors. Several --cycles show whether descheduler and scheduler fight each other. Exit code 0: every
    evicted pod finds a node, and none is evicted twice; 1: otherwise; 2: the input cannot be used.

    \b
    Example:
      mooring deschedule --cluster dump.json --policy policy.yaml
      mooring deschedule --kubeconfig ~/.kube/config --policy policy.yaml --cycles 10
    """
    from mooring.ask.deschedule import deschedule_with, draw

    scheduler = asked_scheduler("deschedule", output, **asked, needs_nodes=True)
    found = deschedule_with(scheduler, policy, cycles, now=now)
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 1 if found.unplaced or found.fights else 0
