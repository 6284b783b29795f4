"""The options ``--cluster``, ``--kubeconfig`` and ``--context``: the cluster that a question is about."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.errors import UsageError

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

    def __post_init__(self) -> None:
        if self.dumps and (self.kubeconfig or self.context):
            raise UsageError("--cluster means a dump and --kubeconfig a live cluster; expected one of them")

    def manifests(self, command: str) -> Manifests:
        """The objects; ``command`` is how the API server knows us."""
        import asyncio

        from mooring.api.manifests import load_manifests
        from mooring.surface.reading import read_live

        if self.dumps:
            return load_manifests(self.dumps)
        return asyncio.run(read_live(self.kubeconfig, self.context, command))

    def cluster(self, command: str, *, quiet: bool = False) -> Cluster:
        """The cluster to ask. What was passed over or has no effect is said on standard error."""
        from mooring.surface.cluster import Cluster

        manifests = self.manifests(command)
        if manifests.ignored and not quiet:
            click.echo(f"mooring: {manifests.ignored_note}", err=True)
        for note in manifests.unknown_notes:
            click.echo(f"warning: {note}", err=True)
        cluster = Cluster().take_over(manifests.objects)
        cluster.release = manifests.release
        return cluster


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
        help="Objects of the cluster: a YAML or JSON file, a directory, or what kubectl get -o yaml|json prints. "
        "May be given repeatedly. Without it, the cluster that kubectl would talk to is asked.",
    )(command)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print what the front door warns of as lines for people, each text once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(each.message) for each in caught):
                click.echo(f"warning: {text}", err=True)
