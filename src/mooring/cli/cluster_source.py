"""The options ``--cluster``, ``--kubeconfig`` and ``--context``: the cluster that a question is about."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.streams import say
from mooring.errors import UsageError
from mooring.record.named import file_and_time, names_a_record, record_time

if TYPE_CHECKING:
    from mooring.api.manifests import Manifests
    from mooring.surface.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])


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

    def manifests(self, command: str) -> Manifests:
        """The objects; ``command`` is how the API server knows us."""
        import asyncio

        from mooring.api.manifests import Manifests, load_manifests
        from mooring.surface.reading import read_live

        recorded = self._recorded()
        if recorded is not None:
            objects = [*recorded.nodes, *recorded.state.objects, *recorded.pods, *recorded.pending]
            return Manifests(objects=objects, server_release=recorded.release)
        if self.dumps:
            return load_manifests(self.dumps)
        return asyncio.run(read_live(self.kubeconfig, self.context, command))

    def cluster(self, command: str, *, quiet: bool = False) -> Cluster:
        """The cluster to ask. What was passed over or has no effect is said on standard error."""
        from mooring.surface.cluster import Cluster

        recorded = self._recorded()
        if recorded is not None:
            return recorded
        manifests = self.manifests(command)
        if manifests.ignored and not quiet:
            say(f"mooring: {manifests.ignored_note}")
        for note in manifests.unknown_notes:
            say(f"warning: {note}")
        cluster = Cluster().take_over(manifests.objects)
        cluster.release = manifests.release
        cluster.namespace = self.names_in
        return cluster

    @property
    def names_in(self) -> str:
        """Where a pod is looked for that is named without a namespace: as kubectl does, in that of the context."""
        from mooring.client.kubeconfig import find_config

        if self.namespace or self.dumps:
            return self.namespace or "default"
        return find_config(self.kubeconfig, context=self.context).namespace

    def _recorded(self) -> Cluster | None:
        """The cluster of a record's moment: ``run.mrec@90s``, or of its end: ``run.mrec``. None: no record is named."""
        if not any(names_a_record(dump) for dump in self.dumps):
            return None  # before the imports: they take longer than most questions
        from mooring.record.reader import Record

        if len(self.dumps) > 1:
            raise UsageError("--cluster: expected one record and nothing beside it")
        file, at = file_and_time(self.dumps[0])
        with Record.open(file) as record:
            return record.moment(record_time(at, record) if at else record.last_time).cluster


def cluster_options(command: F) -> F:
    """Add ``--cluster``, ``--kubeconfig`` and ``--context``, as parameters of a :class:`ClusterSource`."""
    command = click.option("--context", metavar="NAME", default="", help="The context in the kubeconfig.")(command)
    command = click.option(
        "--kubeconfig", metavar="FILE", default="", help="How to reach a live cluster; only read from."
    )(command)
    return click.option(
        "--cluster",
        "dumps",
        multiple=True,
        metavar="DUMP",
        help="Objects of the cluster: a YAML or JSON file, a directory, what kubectl get -o yaml|json prints, or "
        "a record at a time (run.mrec@90s). May be given repeatedly. Without it, the cluster that kubectl would talk "
        "to is asked.",
    )(command)


def namespace_option(command: F) -> F:
    """Add ``-n``, as kubectl has it."""
    text = "Where a pod is looked for that is named without one.  [default: the context's, or default]"
    return click.option("-n", "--namespace", metavar="NAME", default="", help=text)(command)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print what the front door warns of as lines for people, each text once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(each.message) for each in caught):
                say(f"warning: {text}")
