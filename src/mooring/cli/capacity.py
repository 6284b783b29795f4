"""``mooring capacity``: how many more of these pods fit, and what stops the next one."""

from __future__ import annotations

from typing import Any

import click

from mooring.api.errors import UsageError
from mooring.cli.options import asked_scheduler, scheduler_options, warnings_on_stderr
from mooring.cli.output import emit, output_option


@click.command()
@scheduler_options
@click.option(
    "--pod",
    "pods",
    multiple=True,
    required=True,
    metavar="POD[=SHARE]",
    help="A manifest of a pod or of a workload that makes pods, or namespace/name of a pod of the cluster. "
    "Several make a set, in which each has its share (1 if none is named).",
)
@click.option("--copies", type=click.IntRange(min=1), metavar="N", help="Ask only whether N fit.")
@click.option("--preempt", is_flag=True, help="Evict less important pods where that makes room.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many lines of nodes.")
@output_option()
def capacity(pods: tuple[str, ...], copies: int | None, preempt: bool, top: int, output: str, **asked: Any) -> int:
    """Say how many more of these pods fit, on which nodes, and what stops the next one.

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
    with warnings_on_stderr():
        found = capacity_of(scheduler, dict(_share(pod) for pod in pods), copies, preempt)
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_enough else 1


def _share(text: str) -> tuple[str, int]:
    pod, equals, share = text.rpartition("=")
    if not equals:
        return text, 1
    if not share.isdecimal() or not int(share):
        raise UsageError(f"--pod {text}: the share {share!r} is no number; expected POD=SHARE, such as {pod}=2")
    return pod, int(share)
