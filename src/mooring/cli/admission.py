"""``mooring admission``: would a Job in one of Kueue's queues be admitted?"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from mooring.api.errors import UsageError
from mooring.cli.options import GIVE, ClusterSource, scheduler_for, scheduler_options
from mooring.cli.output import emit, output_option

SCHEDULED_BY = ("config_path", "plugins", "kubernetes_version")


@click.command()
@click.argument("job")
@scheduler_options
@click.option("--queue", default="", metavar="NAME", help="Use this LocalQueue instead of the label.")
@click.option("--fair-sharing", is_flag=True, help="Admit by fair shares.")
@output_option()
def admission(
    job: str,
    queue: str,
    fair_sharing: bool,
    output: str,
    **asked: Any,
) -> int:
    """Show whether a Job in one of Kueue's queues would be admitted, and run.

    JOB is a file, or the name of a Job that waits. Quotas, borrowing and preemption are Kueue's; then its pods are
    placed as kube-scheduler would place them. Exit code 0: it is admitted and all its pods fit; 1: not; 2: the input
    cannot be used.

    \b
    Example:
      mooring admission train.yaml --cluster dump.json
      mooring admission ml/train --kubeconfig ~/.kube/config
    """
    from mooring.ask.admission import admission as ask
    from mooring.ask.admission import draw, read_queues
    from mooring.core.cluster import Cluster

    namespace, scheduled_by = asked["namespace"], [asked[name] for name in SCHEDULED_BY]
    source = ClusterSource(asked["dumps"], asked["kubeconfig"], asked["context"], namespace)
    if source.names_a_record:
        raise UsageError("--cluster: a record has no quotas; expected a dump with Kueue's objects, or a live cluster")
    found = source.manifests("admission")
    if not source.dumps:
        found.other += asyncio.run(read_queues(source.kubeconfig, source.context, give=GIVE))
    cluster = Cluster().take_over(found.objects)
    cluster.release = found.release
    session = scheduler_for(cluster, *scheduled_by).session
    if namespace and "/" not in job and not job.endswith((".yaml", ".yml", ".json")):
        job = f"{namespace}/{job}"
    answer = ask(found, session, job, queue=queue, is_fair=fair_sharing)
    emit(answer.to_dict(), output, lambda to: draw(to, answer))
    return 0 if answer.runs else 1
