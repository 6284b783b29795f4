"""Common options of commands, their evaluation, and the form of help pages."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.api.errors import InputError, PluginError, UsageError
from mooring.api.version import UNKNOWN, Release
from mooring.cli.streams import say

if TYPE_CHECKING:  # the help of every command imports this module
    from pathlib import Path

    from mooring.api.manifests import Manifests
    from mooring.ask.scheduler import Scheduler
    from mooring.core.cluster import Cluster
    from mooring.core.config.features import Features
    from mooring.core.config.types import KubeSchedulerConfiguration
    from mooring.core.framework.registry import Registry


F = TypeVar("F", bound=Callable[..., Any])


def examples(*commands: str) -> str:
    """An epilog with commands to copy; click keeps the lines of a paragraph that begins with ``\\b``."""
    return "\n".join(("\b", "Example:", *(f"  {command}" for command in commands)))


class Group(click.Group):
    """A group whose list of commands has the first sentence of each in full; click would cut it at 45 characters."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            rows.append((name, command.get_short_help_str(limit=1000)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


# --------------------------------------------------------------------------------------------------------------------
# Numbers as options. Help shows N and not the range, for which a line of 80 columns has no room: the error message has
# it. So these are not click's ranges, which always show theirs.


class Integers(click.types.IntParamType):
    """The integers of a range."""

    def __init__(self, least: int, most: int | None = None) -> None:
        self._range = click.IntRange(least, most)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(self._range.convert(super().convert(value, param, ctx), param, ctx))


class Numbers(click.types.FloatParamType):
    """The numbers of a range, without NaN, which passes click's comparisons."""

    name = "number"

    def __init__(self, least: float, most: float | None = None) -> None:
        self._range = click.FloatRange(least, most)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(self._range.convert(super().convert(value, param, ctx), param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


# --------------------------------------------------------------------------------------------------------------------
# The scheduler configuration of a command: ``--config``, ``--plugin`` and ``--kubernetes-version``.


def config_option(command: F) -> F:
    """Add ``--config`` to a command, as parameter ``config_path``."""
    return click.option(
        "--config",
        "config_path",
        metavar="FILE",
        help="Use this KubeSchedulerConfiguration.",
    )(command)


def version_option(command: F) -> F:
    """Add ``--kubernetes-version`` to a command, as parameter ``kubernetes_version``."""
    return click.option(
        "--kubernetes-version",
        metavar="VERSION",
        help="Decide as 1.34 to 1.38.  [default: cluster's]",
    )(command)


def features_for(kubernetes_version: str | None, release: Release = UNKNOWN) -> Features:
    """Return the requested version, or the nearest to a cluster's release, with a warning if they differ."""
    from mooring.core.config.features import Features
    from mooring.core.config.versions import nearest_version, parse_version

    if kubernetes_version is not None:
        return Features(parse_version(kubernetes_version))
    version, warning = nearest_version(release)
    if warning:
        say(f"warning: {warning}")
    return Features(version)


def plugin_option(command: F) -> F:
    """Add ``--plugin`` to a command, as parameter ``plugins``."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="Load a plugin: file.py or module:Class.",
    )(command)


def load_registry(plugins: Iterable[str]) -> tuple[Registry, list[str]]:
    """Load these plugins beside the in-tree and the installed ones; return all of them, and the names of these."""
    from mooring.core.config.plugin_loading import load_installed, load_plugins
    from mooring.core.engine.in_tree import in_tree_registry

    registry = in_tree_registry()
    try:
        names = load_plugins(plugins, registry)
    except PluginError as error:
        raise UsageError(str(error)) from None
    for problem in load_installed(registry):
        say(f"warning: {problem}")
    return registry, names


def load_configuration(
    path: str | None, own: Sequence[str] = (), features: Features | None = None
) -> KubeSchedulerConfiguration:
    """Return the configuration in a file, or the default one with the user's own plugins enabled.

    Warnings go to standard error: what changed since an old version, extenders, plugins that no profile enables.
    """
    from mooring.core.config.load import config_from_dict, enabling, load_config_file, unused

    features = features or features_for(None)
    if path is None:
        return config_from_dict(enabling(None, own), features)
    loaded = load_config_file(path, features)
    warnings = [*loaded.warnings, *unused(loaded.config, own, path)]
    for warning in warnings:
        say(f"warning: {warning}")
    warn_of_extenders((extender.shown_url for extender in loaded.config.extenders), path)
    return loaded.config


def warn_of_extenders(urls: Iterable[str], where: str) -> None:
    """Warn in one line that the configuration has extenders, which this command does not call."""
    names = ", ".join(urls)
    if names:
        say(f"warning: {where}: extenders are not called here, their verdicts are missing: {names}")


# --------------------------------------------------------------------------------------------------------------------
# Options of commands that query a running scheduler's endpoints.

_OPTIONS = (
    click.option("--token-file", default="", metavar="FILE", help="Send the token in this file instead."),
    click.option("--certificate-authority", default="", metavar="FILE", help="Verify its certificate with this CA."),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not verify its certificate."),
)


def address_options(command: F) -> F:
    """Add options for verifying a scheduler, and for credentials beside a kubeconfig's."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


# --------------------------------------------------------------------------------------------------------------------
# The kubeconfig file of a cluster that lives only as long as its command.


@contextlib.contextmanager
def kubeconfig_place(wanted: Path | None) -> Iterator[Path]:
    """Yield the user's path, or one in a new directory. An existing file is not removed."""
    if wanted is not None:
        existed = wanted.exists()
        try:
            yield wanted
        finally:
            if not existed:
                wanted.unlink(missing_ok=True)
        return
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="mooring-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary) / "kubeconfig"


# --------------------------------------------------------------------------------------------------------------------
# The options ``--cluster``, ``--kubeconfig`` and ``--context``: the cluster that a question is about.


DUMP = "kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json"
GIVE = "--cluster DUMP or --kubeconfig FILE"


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """Files with objects, or a live cluster, which is only read."""

    dumps: tuple[str, ...] = ()
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    def __post_init__(self) -> None:
        if self.dumps and (self.kubeconfig or self.context):
            raise UsageError("--cluster means a dump and --kubeconfig a live cluster; expected one of them")

    def manifests(self, command: str, *, give: str = GIVE) -> Manifests:
        """Return the objects; ``command`` is the name in the user agent, ``give`` tells how to name a cluster if there
        is none.
        """
        import asyncio

        from mooring.api.manifests import Manifests, load_manifests
        from mooring.ask.scheduler import read_live

        recorded = self._recorded()
        if recorded is not None:
            objects = [*recorded.nodes, *recorded.state.objects, *recorded.pods, *recorded.pending]
            return Manifests(objects=objects, server_release=recorded.release)
        if self.dumps:
            return load_manifests(self.dumps)
        return asyncio.run(read_live(self.kubeconfig, self.context, command, give=give))

    def cluster(self, command: str, *, quiet: bool = False, needs_nodes: bool = True, give: str = GIVE) -> Cluster:
        """Return the cluster. Ignored objects and fields are reported on standard error.

        A dump without a node is rejected: it is empty, of something else or truncated, and every answer would be no.
        """
        from mooring.core.cluster import Cluster

        cluster = self._recorded()
        note = ""
        if cluster is None:
            manifests = self.manifests(command, give=give)
            note = manifests.ignored_note
            if note and not quiet:
                say(f"mooring: {note}")
            for each in manifests.unknown_notes:
                say(f"warning: {each}")
            cluster = Cluster().take_over(manifests.objects)
            cluster.release = manifests.release
        if self.dumps and needs_nodes and not len(cluster.state.nodes()):
            found = f"found no nodes ({note})" if note and quiet else "found no nodes"
            raise InputError(f"{', '.join(self.dumps)}: {found}; expected what {DUMP} prints, or a record")
        cluster.namespace = self.names_in
        return cluster

    @property
    def names_in(self) -> str:
        """Return the default namespace of pods: as in kubectl, that of the context."""
        from mooring.net.kubeconfig import find_config

        if self.namespace or self.dumps:
            return self.namespace or "default"
        return find_config(self.kubeconfig, context=self.context).namespace

    @property
    def names_a_record(self) -> bool:
        """Report whether a dump is a record."""
        if not self.dumps:
            return False
        from mooring.record.files import names_a_record

        return any(names_a_record(dump) for dump in self.dumps)

    def _recorded(self) -> Cluster | None:
        """The cluster of a record's moment: ``run.mrec@90s``, or of its end: ``run.mrec``. None: no record is named."""
        if not self.names_a_record:
            return None  # before the reader of records is imported, which takes longer than most questions
        from mooring.record.files import file_and_time
        from mooring.record.reader import Record, record_time

        if len(self.dumps) > 1:
            raise UsageError("--cluster: expected one record and nothing beside it")
        file, at = file_and_time(self.dumps[0])
        with Record.open(file) as record:
            return record.moment(record_time(at, record) if at else record.last_time).cluster


def cluster_options(command: F) -> F:
    """Add ``--cluster``, ``--kubeconfig`` and ``--context``, as parameters of a :class:`ClusterSource`."""
    command = click.option("--context", metavar="NAME", default="", help="Use this context of the kubeconfig.")(command)
    command = click.option(
        "--kubeconfig", metavar="FILE", default="", help="Read a live cluster with this kubeconfig."
    )(command)
    return click.option(
        "--cluster",
        "dumps",
        multiple=True,
        metavar="DUMP",
        help="Read this file, directory or run.mrec@90s.",
    )(command)


def namespace_option(command: F) -> F:
    """Add ``-n``, as kubectl has it."""
    text = "Look for pods in this namespace."
    return click.option("-n", "--namespace", metavar="NAME", default="", help=text)(command)


# --------------------------------------------------------------------------------------------------------------------
# Options of what-if commands: the cluster and its scheduler.

LARGE = 1000  # pods


def scheduler_options(command: F) -> F:
    """Add all of these options; ``asked_scheduler`` takes their values."""
    return cluster_options(namespace_option(config_option(plugin_option(version_option(command)))))


def workers_options(command: F) -> F:
    """Where the parts of a question are answered: ``workers`` and ``on`` of ``mooring.ask.workers.workers_for``."""
    workers = click.option("--workers", type=Integers(1), help="Use N processes.  [default: cores]")
    on = click.option("--on", metavar="ADDRESS", help="Run on dask://HOST:PORT or ray://HOST:PORT.")
    return workers(on(command))


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
    needs_nodes: bool = True,
    is_empty: bool = False,
) -> Scheduler:
    """Return a scheduler for the requested cluster, or for an empty one. Warnings go to standard error."""
    if is_empty:
        from mooring.core.cluster import Cluster

        if dumps or kubeconfig or context:
            raise UsageError("--no-cluster excludes --cluster and --kubeconfig; give one of them")
        cluster = Cluster()
        cluster.namespace = namespace or "default"
    else:
        cluster = asked_cluster(command, output, dumps, kubeconfig, context, namespace, needs_nodes=needs_nodes)
    return scheduler_for(cluster, config_path, plugins, kubernetes_version)


def asked_cluster(
    command: str,
    output: str,
    dumps: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    *,
    needs_nodes: bool = True,
) -> Cluster:
    """Return the requested cluster; notes about it are only printed with tables."""
    from mooring.api.memory import without_collecting

    with without_collecting():
        source = ClusterSource(dumps, kubeconfig, context, namespace)
        cluster = source.cluster(command, quiet=output != "table", needs_nodes=needs_nodes)
        if len(cluster.state.pods()) > LARGE:
            gc.freeze()  # it lives to the end: collections need not traverse it repeatedly
    return cluster


def scheduler_for(
    cluster: Cluster, config_path: str | None, plugins: tuple[str, ...], kubernetes_version: str | None
) -> Scheduler:
    """Return a scheduler for a cluster. Warnings go to standard error."""
    from mooring.ask.scheduler import Scheduler
    from mooring.core.config.versions import DEFAULT_VERSION

    try:
        scheduler = Scheduler(cluster, config_path, plugins, kubernetes_version=kubernetes_version)
    except PluginError as error:
        raise UsageError(str(error)) from None
    if kubernetes_version is None and scheduler.kubernetes_version != str(DEFAULT_VERSION):
        say(f"Deciding as Kubernetes {scheduler.kubernetes_version}, as the cluster says.")
    return scheduler
