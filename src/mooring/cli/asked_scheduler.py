"""The options of commands that ask what if: which cluster is meant, and which scheduler decides."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.cli.cluster_source import ClusterSource, cluster_options, namespace_option, warnings_on_stderr
from mooring.cli.configuration import config_option, plugin_option, version_option
from mooring.errors import PluginError, UsageError
from mooring.memory import without_collecting

if TYPE_CHECKING:
    from mooring.surface.scheduler import Scheduler

LARGE = 1000  # pods
F = TypeVar("F", bound=Callable[..., Any])


def scheduler_options(command: F) -> F:
    """Add all of these options; ``asked_scheduler`` takes their values."""
    return cluster_options(namespace_option(config_option(plugin_option(version_option(command)))))


def asked_scheduler(
    command: str,
    output: str,
    *,
    dumps: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
) -> Scheduler:
    """A scheduler for the cluster that is meant. What the user should know goes to standard error."""
    from mooring.surface.scheduler import Scheduler

    with without_collecting():
        cluster = ClusterSource(dumps, kubeconfig, context, namespace).cluster(command, quiet=output != "table")
        if len(cluster.state.pods()) > LARGE:
            gc.freeze()  # it stays to the end: collections need not go through it again and again
    with warnings_on_stderr():
        try:
            return Scheduler(cluster, config_path, plugins, kubernetes_version=kubernetes_version)
        except PluginError as error:
            raise UsageError(str(error)) from None
