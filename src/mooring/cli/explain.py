"""``mooring explain``: why a pod goes where it goes, or nowhere, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.api.version import UNKNOWN
from mooring.cli.options import (
    Integers,
    asked_cluster,
    cluster_options,
    config_option,
    namespace_option,
    plugin_option,
    scheduler_for,
    version_option,
)
from mooring.cli.output import emit, output_option

if TYPE_CHECKING:
    from mooring.ask.scheduler import Scheduler


@click.command()
@click.argument("pod_argument", metavar="[POD]", required=False)
@cluster_options
@namespace_option
@click.option(
    "--pod",
    "pod_option",
    metavar="POD",
    help="Explain this manifest or namespace/name.",
)
@config_option
@plugin_option
@version_option
@click.option("--top", type=Integers(1), default=5, show_default=True, help="Show N nodes.")
@output_option()
def explain(
    pod_argument: str | None,
    dumps: tuple[str, ...],
    pod_option: str | None,
    kubeconfig: str,
    context: str,
    namespace: str,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    top: int,
    output: str,
) -> int:
    """Explain why a pod goes to its node, or nowhere, and what would help.

    A workload is explained by the first pod of its controller. A running pod is explained as if it were placed again.
    podgroup/NAMESPACE/NAME explains a whole group, as Kubernetes 1.37 schedules it.

    Exit code 0: there is a node for it; 1: there is none; 2: the input cannot be used.

    \b
    Example:
      kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json
      mooring explain --cluster dump.json --pod web.yaml
      mooring explain --cluster dump.json --pod shop/web-6c5f7d4-x2x9k -o json
      mooring explain shop/web-6c5f7d4-x2x9k --kubeconfig ~/.kube/config
      mooring explain podgroup/ml/train-1 --cluster dump.json
    """
    from mooring.ask.asked_pod import asked_group
    from mooring.core.explain.why import draw

    pod = pod_option or pod_argument
    if not pod or (pod_option and pod_argument):
        raise UsageError("expected one POD: a manifest, or namespace/name of a pod of the cluster")
    cluster = asked_cluster("explain", output, dumps, kubeconfig, context, namespace)
    group = asked_group(pod, cluster.namespace)
    if group and cluster.release == UNKNOWN:  # be the first that serves PodGroups of scheduling.k8s.io/v1beta1
        kubernetes_version = kubernetes_version or "1.37"
    scheduler = scheduler_for(cluster, config_path, plugins, kubernetes_version)
    if group:
        return _explain_group(group, scheduler, output)
    found = scheduler.explain(pod)
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_scheduled else 1


def _explain_group(key: str, scheduler: Scheduler, output: str) -> int:
    from mooring.ask.asked_pod import find_group
    from mooring.core.explain.why import draw_group, explain_group

    group, pods = find_group(key, scheduler.cluster)
    if not scheduler.session.features["GenericWorkload"]:
        raise UsageError(
            f"podgroup/{key}: groups are scheduled as Kubernetes 1.37 does, and this is "
            f"{scheduler.kubernetes_version}; --kubernetes-version 1.37 asks for it"
        )
    found = explain_group(scheduler.session, group, pods)
    emit(found.to_dict(), output, lambda to: draw_group(to, found))
    return 0 if found.is_scheduled else 1
