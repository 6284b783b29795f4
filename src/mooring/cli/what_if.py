"""``mooring capacity``, ``drill`` and ``plan``: what if more pods came, nodes were lost or added?

Each command asks a scheduler that decides on a copy of the cluster; the cluster itself is only read.
"""

from __future__ import annotations

from typing import Any

import click

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, asked_scheduler, scheduler_options, workers_options
from mooring.cli.output import emit, output_option, shown_on_a_terminal


@click.command()
@scheduler_options
@click.option(
    "--pod",
    "pods",
    multiple=True,
    required=True,
    metavar="POD[=SHARE]",
    help="Count this; several are a set.",
)
@click.option("--copies", type=Integers(1), metavar="N", help="Check whether N fit.")
@click.option("--preempt", is_flag=True, help="Evict lower-priority pods where that helps.")
@click.option("--top", type=Integers(1), default=10, show_default=True, help="Show N lines of nodes.")
@output_option()
def capacity(pods: tuple[str, ...], copies: int | None, preempt: bool, top: int, output: str, **asked: Any) -> int:
    """Count how many more of these pods fit, on which nodes, and what stops the next one.

    Pods are placed one after another on a copy of the cluster, as kube-scheduler would place them. Exit code 0: as many
    fit as were asked for (without --copies: at least one); 1: fewer; 2: the input cannot be used.

    \b
    Example:
      kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json
      mooring capacity --cluster dump.json --pod web.yaml
      mooring capacity --cluster dump.json --pod web.yaml=3 --pod shop/db-0 --copies 10
    """
    from mooring.ask.capacity import capacity_of, draw

    scheduler = asked_scheduler("capacity", output, **asked)
    found = capacity_of(
        scheduler, dict(_counted(pod, "SHARE", 1, "the share {} is no number") for pod in pods), copies, preempt
    )
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_enough else 1


@click.command()
@scheduler_options
@click.option(
    "--lose",
    metavar="WHAT",
    default="node",
    help="Lose node (default), zone, label=KEY or NAME.",
)
@click.option("--n", type=Integers(1, 2), default=1, show_default=True, help="Lose N at once, 1 or 2.")
@click.option("--top", type=Integers(1), default=10, show_default=True, help="Show N losses.")
@workers_options
@output_option()
def drill(lose: str, n: int, top: int, workers: int | None, on: str | None, output: str, **asked: Any) -> int:
    """Show what losing each node, zone or rack would do: tried on copies of the cluster, the worst first.

    --lose label=KEY=VALUE, or the name of a node or zone, tries this one alone.

    The pods of lost nodes are recreated, and placed in the order of the queue. Exit code 0: every loss is harmless; 1:
    a pod has no place, a volume is lost for good, or a budget breaks; 2: the input cannot be used. Ctrl-C prints what
    is known by then, with exit code 130.

    \b
    Example:
      mooring drill --cluster dump.json
      mooring drill --cluster dump.json --lose zone
      mooring drill --kubeconfig ~/.kube/config --lose label=example.com/rack --n 2
    """
    from mooring.ask.drill import draw, drill_with

    scheduler = asked_scheduler("drill", output, **asked)
    with shown_on_a_terminal("losses", "drill") as show:
        found = drill_with(scheduler, lose, n, show, workers=workers, on=on)
    if found.losses:
        emit(found.to_list(), output, lambda to: draw(to, found, top))
    if not found.is_complete:
        raise KeyboardInterrupt
    return 0 if found.is_safe else 1


@click.command()
@scheduler_options
@click.option(
    "--types",
    metavar="FILE",
    help="Read node types with prices and limits.",
)
@click.option("--catalogue", metavar="FILE", help="Read instance types as CSV or JSON.")
@click.option("--zone", "zones", multiple=True, metavar="ZONE", help="Buy in this zone only; repeatable.")
@click.option("--spot", is_flag=True, help="Buy spot nodes, too.")
@click.option("--no-cluster", is_flag=True, help="Start without any nodes.")
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="POD[=COPIES]",
    help="Make room for these, not for pending pods.",
)
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N lines.")
@output_option()
def plan(
    types: str | None,
    catalogue: str | None,
    zones: tuple[str, ...],
    spot: bool,
    no_cluster: bool,
    pods: tuple[str, ...],
    top: int,
    output: str,
    **asked: Any,
) -> int:
    """Find the cheapest nodes to add so that all pending pods fit.

    A plan is proved: all pods are placed with it on a copy of the cluster, as kube-scheduler would place them. Exit
    code 0: all pods fit with the plan; 1: some do not; 2: the input cannot be used. `mooring consolidate` finds nodes
    to remove.

    \b
    Example:
      mooring plan --cluster dump.json --types types.yaml
      mooring plan --cluster dump.json --types types.yaml --pod web.yaml --pod shop/db-0=3
      mooring plan --no-cluster --catalogue catalogue.csv --spot --pod app/
    """
    from mooring.ask.plan import Offer, draw, plan_with

    offer = Offer(types, catalogue, zones, spot)
    if no_cluster and not (pods and (types or catalogue)):
        raise UsageError("--no-cluster has neither pods nor nodes: give --pod, and --types or --catalogue")
    needs_nodes = offer == Offer()
    scheduler = asked_scheduler("plan", output, **asked, needs_nodes=needs_nodes, is_empty=no_cluster)
    found = plan_with(
        scheduler, offer, dict(_counted(pod, "COPIES", None, "{} is no number of copies") for pod in pods)
    )
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_complete else 1


def _counted(text: str, what: str, default: int | None, complaint: str) -> tuple[str, Any]:
    """Split ``POD=NUMBER``; without a number it is the default."""
    pod, equals, number = text.rpartition("=")
    if not equals:
        return text, default
    if not number.isdecimal() or not int(number):
        raise UsageError(f"--pod {text}: {complaint.format(repr(number))}; expected POD={what}, such as {pod}=2")
    return pod, int(number)
