"""``mooring diff``: the same pods under two configurations, versions or sets of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.cli.cluster_source import ClusterSource, cluster_options, warnings_on_stderr
from mooring.cli.configuration import plugin_option, version_option
from mooring.cli.output import emit, output_option
from mooring.errors import UsageError

if TYPE_CHECKING:
    from mooring.surface.cluster import Cluster
    from mooring.surface.scheduler import Scheduler


@click.command()
@cluster_options
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="A KubeSchedulerConfiguration. Given twice, the two are compared; given once, the default and it.",
)
@click.option(
    "--version",
    "versions",
    nargs=2,
    metavar="OLD NEW",
    help="Compare two versions of Kubernetes, such as 1.36 1.37, with the same configuration.",
)
@plugin_option
@version_option
@click.option(
    "--all", "all_pods", is_flag=True, help="Place all pods anew in the order of creation, not only waiting ones."
)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many moves to show.")
@output_option()
def diff(
    dumps: tuple[str, ...],
    kubeconfig: str,
    context: str,
    configs: tuple[str, ...],
    versions: tuple[str, str] | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    all_pods: bool,
    top: int,
    output: str,
) -> int:
    """Compare where pods go under two configurations, two versions of Kubernetes, or with and without a plugin.

    The same pods are placed under both, in the same order: those that wait, or with --all every pod anew. With
    --plugin alone, the default is compared with the default and the plugin. Exit code 0: no pod moves; 1: at least
    one does; 2: the input cannot be used.

    \b
    Example:
      mooring diff --cluster dump.json --config today.yaml --config tomorrow.yaml
      mooring diff --cluster dump.json --version 1.36 1.37 --all
      mooring diff --cluster dump.json --plugin my_plugin.py -o json
    """
    from mooring.compare.diff import diff as compare
    from mooring.compare.rendering import draw

    _check(configs, versions, plugins, kubernetes_version)
    cluster = ClusterSource(dumps, kubeconfig, context).cluster("diff", quiet=output != "table")
    with warnings_on_stderr():
        (old_name, old), (new_name, new) = _sides(cluster, configs, versions, plugins, kubernetes_version)
        found = compare(old, new, "all" if all_pods else "pending")
    value = {"before": old_name, "after": new_name, **found.to_dict()}
    emit(value, output, lambda to: draw(to, found, (old_name, new_name), top))
    return 1 if found else 0


def _check(
    configs: tuple[str, ...], versions: tuple[str, str] | None, plugins: tuple[str, ...], version: str | None
) -> None:
    if versions and version:
        raise UsageError("--version compares two versions, and --kubernetes-version is the one of both sides; give one")
    if len(configs) > 2 or (versions and len(configs) == 2):
        raise UsageError(
            "expected one comparison: --config A --config B, or --version OLD NEW with at most one --config"
        )
    if not configs and not versions and not plugins:
        raise UsageError("nothing to compare; expected --config A --config B, --version 1.36 1.37 or --plugin PLUGIN")


def _sides(
    cluster: Cluster,
    configs: tuple[str, ...],
    versions: tuple[str, str] | None,
    plugins: tuple[str, ...],
    version: str | None,
) -> list[tuple[str, Scheduler]]:
    """Both sides with their names."""
    from mooring.surface.scheduler import Scheduler

    if versions:
        config = configs[0] if configs else None
        return [(each, Scheduler(cluster, config, plugins, kubernetes_version=each)) for each in versions]
    if configs:
        files = configs if len(configs) == 2 else (None, configs[0])
        return [
            (file or "the default", Scheduler(cluster, file, plugins, kubernetes_version=version)) for file in files
        ]
    return [
        ("the default", Scheduler(cluster, kubernetes_version=version)),
        (", ".join(plugins), Scheduler(cluster, plugins=plugins, kubernetes_version=version)),
    ]
