"""``mooring explain``: why a pod goes where it goes, or nowhere, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.api.version import UNKNOWN, Release
from mooring.cli.options import (
    ClusterSource,
    cluster_options,
    config_option,
    features_for,
    load_configuration,
    load_registry,
    namespace_option,
    plugin_option,
    version_option,
)
from mooring.cli.output import emit, output_option
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.core.cluster import Cluster
    from mooring.core.config.features import Features


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
    were placed anew. podgroup/NAMESPACE/NAME explains a whole group, as Kubernetes 1.37 schedules it.

    Exit code 0: there is a node for it; 1: there is none; 2: the input cannot be used.

    \b
    Example:
      kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json
      mooring explain --cluster dump.json --pod web.yaml
      mooring explain --cluster dump.json --pod shop/web-6c5f7d4-x2x9k -o json
      mooring explain shop/web-6c5f7d4-x2x9k --kubeconfig ~/.kube/config
      mooring explain podgroup/ml/train-1 --cluster dump.json
    """
    from mooring.api.pod_groups import PodGroup
    from mooring.ask.asked_pod import asked_group, find_pod, with_groups
    from mooring.core.cluster import Cluster
    from mooring.core.explain.why import draw, explain_pod
    from mooring.core.session import open_session
    from mooring.core.state.cluster import group_of

    pod_name = pod_option or pod_argument
    if not pod_name or (pod_option and pod_argument):
        raise UsageError("expected one POD: a manifest, or namespace/name of a pod of the cluster")
    source = ClusterSource(dumps, kubeconfig, context, namespace)
    manifests = source.manifests("explain")
    if manifests.ignored and output == "table":
        say(f"mooring: {manifests.ignored_note}")
    cluster = Cluster().take_over(manifests.objects)
    cluster.namespace = source.names_in
    if group := asked_group(pod_name, cluster.namespace):
        features = features_for(kubernetes_version or _version_of_groups(manifests.release), manifests.release)
        return _explain_group(group, cluster, config_path, plugins, with_groups(features, manifests.objects), output)
    asked = find_pod(pod_name, cluster)
    pod = asked.pod
    for warning in (*manifests.unknown_notes, *asked.warnings):
        say(f"warning: {warning}")
    running = cluster.find_pod(pod.key)
    if running is not None:
        cluster.remove(running)
    cluster.take_over(asked.others)
    registry, own = load_registry(plugins)
    features = features_for(kubernetes_version, manifests.release)
    config = load_configuration(config_path, own, features)
    session = open_session(config, cluster.state, nominator=cluster.nominations, registry=registry, features=features)
    if config_path is None and pod.spec.scheduler_name not in session.profiles:
        theirs, ours = pod.spec.scheduler_name, next(iter(session.profiles))
        say(f"mooring: {pod.key} is for {theirs}; explained as {ours} would decide (see --config)")
        pod.spec.scheduler_name = ours
    found = explain_pod(session, pod)
    found.notes += (*asked.as_it_is, *asked.notes)
    if (key := group_of(pod)) and cluster.state.objects.get(PodGroup, key) is not None:
        found.notes.append(f"the pod is scheduled with its group: mooring explain podgroup/{key} says more")
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_scheduled else 1


def _version_of_groups(release: Release) -> str | None:
    """Where the cluster does not say its version, be the first that serves PodGroups of scheduling.k8s.io/v1beta1."""
    return "1.37" if release == UNKNOWN else None


def _explain_group(
    key: str, cluster: Cluster, config_path: str | None, plugins: tuple[str, ...], features: Features, output: str
) -> int:
    from mooring.ask.asked_pod import find_group
    from mooring.core.explain.why import draw_group, explain_group
    from mooring.core.session import open_session

    group, pods = find_group(key, cluster)
    if not features["GenericWorkload"]:
        raise UsageError(
            f"podgroup/{key}: groups are scheduled as Kubernetes 1.37 does, and this is {features.version}; "
            "--kubernetes-version 1.37 asks for it"
        )
    registry, own = load_registry(plugins)
    config = load_configuration(config_path, own, features)
    session = open_session(config, cluster.state, nominator=cluster.nominations, registry=registry, features=features)
    found = explain_group(session, group, pods)
    emit(found.to_dict(), output, lambda to: draw_group(to, found))
    return 0 if found.is_scheduled else 1
