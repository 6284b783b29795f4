"""``mooring explain``: why a pod goes where it goes, or nowhere, and what would help."""

from __future__ import annotations

import click

from mooring.cli.cluster_source import ClusterSource, cluster_options, namespace_option
from mooring.cli.configuration import (
    config_option,
    features_for,
    load_configuration,
    load_registry,
    plugin_option,
    version_option,
)
from mooring.cli.output import emit, output_option
from mooring.errors import UsageError


@click.command()
@click.argument("pod_argument", metavar="[POD]", required=False)
@cluster_options
@namespace_option
@click.option(
    "--pod",
    "pod_option",
    metavar="POD",
    help="A manifest of a pod or of a workload that makes pods (Deployment, Job …), or namespace/name of a pod.",
)
@config_option
@plugin_option
@version_option
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many nodes to show.")
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
    """Say why a pod goes where it goes, or nowhere, and what would help.

    A workload is explained by the first pod that its controller makes. A pod that runs already is explained as if it
    were placed anew. Exit code 0: there is a node for it; 1: there is none; 2: the input cannot be used.

    \b
    Example:
      kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json
      mooring explain --cluster dump.json --pod web.yaml
      mooring explain --cluster dump.json --pod shop/web-6c5f7d4-x2x9k -o json
      mooring explain shop/web-6c5f7d4-x2x9k --kubeconfig ~/.kube/config
    """
    from mooring.engine.build import build
    from mooring.explanation.rendering import draw
    from mooring.explanation.why import explain_pod
    from mooring.surface.asked_pod import find_pod
    from mooring.surface.cluster import Cluster

    pod_name = pod_option or pod_argument
    if not pod_name or (pod_option and pod_argument):
        raise UsageError("expected one POD: a manifest, or namespace/name of a pod of the cluster")
    source = ClusterSource(dumps, kubeconfig, context, namespace)
    manifests = source.manifests("explain")
    if manifests.ignored and output == "table":
        click.echo(f"mooring: {manifests.ignored_note}", err=True)
    cluster = Cluster().take_over(manifests.objects)
    cluster.namespace = source.names_in
    asked = find_pod(pod_name, cluster)
    pod = asked.pod
    for warning in (*manifests.unknown_notes, *asked.warnings):
        click.echo(f"warning: {warning}", err=True)
    running = cluster.find_pod(pod.key)
    if running is not None:
        cluster.remove(running)
    cluster.take_over(asked.others)
    registry, own = load_registry(plugins)
    features = features_for(kubernetes_version, manifests.release)
    config = load_configuration(config_path, own, features)
    built = build(config, cluster.state, nominator=cluster.nominations, registry=registry, features=features)
    if config_path is None and pod.spec.scheduler_name not in built.profiles:
        theirs, ours = pod.spec.scheduler_name, next(iter(built.profiles))
        click.echo(f"mooring: {pod.key} is for {theirs}; explained as {ours} would decide (see --config)", err=True)
        pod.spec.scheduler_name = ours
    found = explain_pod(built, pod)
    found.notes += asked.notes
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_scheduled else 1
