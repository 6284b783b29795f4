"""``mooring explain``: why a pod goes where it goes, or nowhere, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.cli.configuration import config_option, load_configuration, load_registry, plugin_option
from mooring.cli.output import emit, output_option
from mooring.errors import UsageError

if TYPE_CHECKING:
    from mooring.api.core import Pod
    from mooring.api.manifests import Manifests
    from mooring.config.types import KubeSchedulerConfiguration
    from mooring.engine.build import Built
    from mooring.framework.registry import Registry


@click.command()
@click.argument("pod_argument", metavar="[POD]", required=False)
@click.option(
    "--cluster",
    "dumps",
    multiple=True,
    metavar="DUMP",
    help="Objects of the cluster: a YAML or JSON file, a directory, or what kubectl get -o yaml|json prints. "
    "May be given repeatedly. Without it, the cluster that kubectl would talk to is asked.",
)
@click.option(
    "--pod",
    "pod_option",
    metavar="POD",
    help="A manifest of a pod or of a workload that makes pods (Deployment, Job …), or namespace/name of a pod.",
)
@click.option("--kubeconfig", metavar="FILE", default="", help="How to reach a live cluster; only read from.")
@click.option("--context", metavar="NAME", default="", help="The context in the kubeconfig.")
@config_option
@plugin_option
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many nodes to show.")
@output_option()
def explain(
    pod_argument: str | None,
    dumps: tuple[str, ...],
    pod_option: str | None,
    kubeconfig: str,
    context: str,
    config_path: str | None,
    plugins: tuple[str, ...],
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
    from mooring.api.manifests import load_manifests
    from mooring.cli.pod_argument import find_pod, warn_unknown
    from mooring.explanation.rendering import draw
    from mooring.explanation.why import explain_pod

    pod_name = pod_option or pod_argument
    if not pod_name or (pod_option and pod_argument):
        raise UsageError("expected one POD: a manifest, or namespace/name of a pod of the cluster")
    if dumps and (kubeconfig or context):
        raise UsageError("--cluster explains a dump and --kubeconfig a live cluster; expected one of them")
    manifests = load_manifests(dumps) if dumps else live_objects(kubeconfig, context)
    if manifests.ignored and output == "table":
        click.echo(f"mooring: {manifests.ignored_note}", err=True)
    warn_unknown(manifests)
    asked = find_pod(pod_name, manifests)
    pod = asked.pod
    manifests.objects += asked.others
    registry, own = load_registry(plugins)
    built = build_cluster(manifests, pod, load_configuration(config_path, own), registry)
    if config_path is None and pod.spec.scheduler_name not in built.profiles:
        theirs, ours = pod.spec.scheduler_name, next(iter(built.profiles))
        click.echo(f"mooring: {pod.key} is for {theirs}; explained as {ours} would decide (see --config)", err=True)
        pod.spec.scheduler_name = ours
    found = explain_pod(built, pod)
    found.notes += asked.notes
    emit(found.to_dict(), output, lambda to: draw(to, found, top))
    return 0 if found.is_schedulable else 1


def live_objects(kubeconfig: str, context: str) -> Manifests:
    """Everything that a scheduler would see of a live cluster now; nothing is written or watched."""
    import asyncio

    from mooring.api.manifests import Manifests
    from mooring.client.kubeconfig import find_config
    from mooring.client.rest import RestClient, user_agent
    from mooring.scheduler.informers import load_objects

    config = find_config(kubeconfig, context=context)

    async def load() -> Manifests:
        client = RestClient(config, agent=user_agent("mooring", "explain"))
        try:
            return Manifests(objects=await load_objects(client))
        finally:
            await client.close()

    return asyncio.run(load())


def build_cluster(
    manifests: Manifests, pod: Pod, config: KubeSchedulerConfiguration, registry: Registry | None = None
) -> Built:
    """A cluster of these objects without the pod that is asked about, and an engine for it."""
    from mooring.api.core import Pod
    from mooring.engine.build import build
    from mooring.sim.nominations import Nominations
    from mooring.state.cluster import Cluster

    cluster, nominations = Cluster(), Nominations()
    built = build(config, cluster, nominator=nominations, registry=registry)
    for obj in manifests.objects:
        if not isinstance(obj, Pod):
            cluster.put(obj)
            continue
        if obj.key == pod.key:
            continue
        cluster.put(obj)
        nominated = obj.status.nominated_node_name
        if nominated and not obj.spec.node_name and not obj.is_finished:
            nominations.nominate(cluster.info(obj), nominated)
    return built
