"""``mooring plan``: the cheapest nodes to add, or the nodes that can be emptied and removed."""

from __future__ import annotations

from typing import Any

import click

from mooring.api.errors import UsageError
from mooring.cli.options import asked_scheduler, scheduler_options, warnings_on_stderr
from mooring.cli.output import emit, output_option, shown_on_a_terminal


@click.command()
@scheduler_options
@click.option(
    "--types",
    metavar="FILE",
    help="Types of nodes that can be added, with prices and limits. Without it: one more of any kind that the "
    "cluster has, each at a price of 1.",
)
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="POD[=COPIES]",
    help="Make room for these instead of the pods that wait: files or directories with manifests, or namespace/name "
    "of pods of the cluster. Without a number of copies, it is the one in the manifest.",
)
@click.option("--remove", is_flag=True, help="Find nodes that can be emptied and removed instead.")
@click.option("--delete-emptydir-data", is_flag=True, help="With --remove: move pods although they have an emptyDir.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many lines to show.")
@output_option()
def plan(
    types: str | None,
    pods: tuple[str, ...],
    remove: bool,
    delete_emptydir_data: bool,
    top: int,
    output: str,
    **asked: Any,
) -> int:
    """Find the cheapest nodes to add so that all pods that wait fit; or with --remove, nodes that are not needed.

    A plan is proved: all pods are placed with it on a copy of the cluster, as kube-scheduler would place them. Exit
    code 0: all pods fit with the plan (with --remove: at least one node can go); 1: some do not, or none can; 2: the
    input cannot be used.

    \b
    Example:
      mooring plan --cluster dump.json --types types.yaml
      mooring plan --cluster dump.json --types types.yaml --pod web.yaml --pod shop/db-0=3
      mooring plan --cluster dump.json --remove
    """
    from mooring.ask.plan import draw, draw_removal, plan_with, removal_with

    if remove and (types or pods):
        raise UsageError("--remove finds nodes to remove; --types and --pod are about nodes to add")
    if delete_emptydir_data and not remove:
        raise UsageError("--delete-emptydir-data belongs to --remove")
    scheduler = asked_scheduler("plan", output, **asked)
    with warnings_on_stderr():
        if remove:
            with shown_on_a_terminal("nodes", "plan") as show:
                gone = removal_with(scheduler, delete_emptydir_data=delete_emptydir_data, progress=show)
            emit(gone.to_dict(), output, lambda to: draw_removal(to, gone, top))
            return 0 if gone.nodes else 1
        found = plan_with(scheduler, types, dict(_copies(pod) for pod in pods))
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_complete else 1


def _copies(text: str) -> tuple[str, int | None]:
    pod, equals, number = text.rpartition("=")
    if not equals:
        return text, None
    if not number.isdecimal() or not int(number):
        raise UsageError(f"--pod {text}: {number!r} is no number of copies; expected POD=COPIES, such as {pod}=2")
    return pod, int(number)
