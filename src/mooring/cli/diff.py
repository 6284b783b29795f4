"""``mooring diff``: the same pods under two configurations, versions or sets of plugins."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.api.errors import UsageError
from mooring.cli.options import (
    ClusterSource,
    Integers,
    cluster_options,
    features_for,
    load_configuration,
    load_registry,
    plugin_option,
    version_option,
)
from mooring.cli.output import emit, output_option

if TYPE_CHECKING:
    from rich.console import Console

    from mooring.ask.diff import Difference
    from mooring.ask.scheduler import Scheduler
    from mooring.core.cluster import Cluster

DEFAULT = "the default"


@click.command()
@cluster_options
@click.option("--story", metavar="FILE|NAME", help="Compare two simulations of this story.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the story; repeatable."
)
@click.option("--seed", default=0, show_default=True, metavar="N", help="Set the random seed.")
@click.option(
    "--record",
    "records",
    multiple=True,
    metavar="FILE",
    help="Compare two records, or one with --config.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="Compare these two, or the default and this.",
)
@click.option(
    "--version",
    "versions",
    nargs=2,
    metavar="OLD NEW",
    help="Compare two Kubernetes versions.",
)
@plugin_option
@version_option
@click.option("--explain", is_flag=True, help="Say what changed in NEW; needs no cluster.")
@click.option("--all", "all_pods", is_flag=True, help="Place all pods again, not only pending ones.")
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N moves.")
@output_option()
def diff(
    dumps: tuple[str, ...],
    kubeconfig: str,
    context: str,
    story: str | None,
    settings: tuple[str, ...],
    seed: int,
    records: tuple[str, ...],
    configs: tuple[str, ...],
    versions: tuple[str, str] | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    explain: bool,
    all_pods: bool,
    top: int,
    output: str,
) -> int:
    """Compare where pods go under two configurations, two versions of Kubernetes, or with and without a plugin.

    The same pods are placed under both, in the same order: pending pods, or with --all every pod. With --story two
    simulations are compared, with --record what was recorded. With --plugin alone, the default is compared with the
    default and the plugin. Exit code 0: no pod moves; 1: at least one does; 2: the input cannot be used.

    \b
    Example:
      mooring diff --cluster dump.json --config today.yaml --config tomorrow.yaml
      mooring diff --cluster dump.json --version 1.34 1.37 --all
      mooring diff --version 1.34 1.37 --explain
      mooring diff --story day.yaml --set pods=monday.csv --plugin my_plugin.py -o json
      mooring diff --record run.mrec --config tomorrow.yaml
    """
    from mooring.ask.diff import draw

    asked = _Asked(configs, versions, plugins, kubernetes_version)
    source = ClusterSource(dumps, kubeconfig, context)
    if explain:
        if versions is None or source != ClusterSource() or story is not None or records:
            raise UsageError("--explain says what changed between two versions: give --version OLD NEW and no cluster")
        _explain_versions(versions, output)
        return 0
    if sum((source != ClusterSource(), story is not None, bool(records))) > 1:
        raise UsageError("expected one thing to compare: a cluster, --story or --record")
    if records:
        names, found = _of_records(records, asked, top)
    elif story is not None:
        names, found = _of_story(story, settings, seed, asked, top)
    else:
        asked.check()
        names, found = _of_cluster(source.cluster("diff", quiet=output != "table"), asked, all_pods)
    value = {"before": names[0], "after": names[1], **found.to_dict()}
    emit(value, output, lambda to: draw(to, found, names, top))
    return 1 if found else 0


def _explain_versions(versions: tuple[str, str], output: str) -> None:
    """Print everything that is new for scheduling in the newer of two versions."""
    from mooring.api.tables import print_table
    from mooring.core.config.versions import differences, parse_version

    old, new = sorted((parse_version(each, "--version") for each in versions), key=lambda version: version.minor)
    changes = list(differences(old, new))
    value = {"before": str(old), "after": str(new), "changes": [msgspec.to_builtins(each) for each in changes]}
    rows = [(f"1.{each.since}", each.about, f"{each.name}: {each.says}", each.upstream) for each in changes]

    def draw(to: Console) -> None:
        to.print(f"New for scheduling since {old}, up to {new}:\n")
        print_table(to, ("SINCE", "ABOUT", "WHAT", "UPSTREAM"), rows)

    emit(value, output, draw)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The two sides of a comparison."""

    configs: tuple[str, ...]
    versions: tuple[str, str] | None
    plugins: tuple[str, ...]
    version: str | None

    def check(self) -> None:
        if self.versions and self.version:
            raise UsageError("--version compares two versions, --kubernetes-version is the one of both sides; give one")
        if len(self.configs) > 2 or (self.versions and len(self.configs) == 2):
            raise UsageError(
                "expected one comparison: --config A --config B, or --version OLD NEW with at most one --config"
            )
        if not self.configs and not self.versions and not self.plugins:
            raise UsageError(
                "nothing to compare; expected --config A --config B, --version 1.36 1.37 or --plugin PLUGIN"
            )

    def sides(self) -> list[_Side]:
        if self.versions:
            config = self.configs[0] if self.configs else None
            return [_Side(each, config, self.plugins, each) for each in self.versions]
        if self.configs:
            files = self.configs if len(self.configs) == 2 else (None, self.configs[0])
            return [_Side(file or DEFAULT, file, self.plugins, self.version) for file in files]
        return [
            _Side(DEFAULT, None, (), self.version),
            _Side(", ".join(self.plugins), None, self.plugins, self.version),
        ]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side: its name, and its scheduler's configuration."""

    name: str
    config: str | None
    plugins: tuple[str, ...]
    version: str | None

    def scheduler(self, cluster: Cluster) -> Scheduler:
        from mooring.ask.scheduler import Scheduler

        return Scheduler(cluster, self.config, self.plugins, kubernetes_version=self.version)


Found = tuple[tuple[str, str], "Difference"]


def _of_cluster(cluster: Cluster, asked: _Asked, all_pods: bool) -> Found:
    from mooring.ask.diff import diff as compare

    one, two = asked.sides()
    return (one.name, two.name), compare(
        one.scheduler(cluster), two.scheduler(cluster), "all" if all_pods else "pending"
    )


def _of_story(story: str, settings: tuple[str, ...], seed: int, asked: _Asked, top: int) -> Found:
    """Both simulations are recorded, and the records compared."""
    from mooring.ask.runs import diff_runs
    from mooring.record.reader import Record
    from mooring.sim.simulate import simulate
    from mooring.sim.step_fields import parse_settings

    asked.check()
    one, two = asked.sides()
    with tempfile.TemporaryDirectory(prefix="mooring-diff-") as folder:
        files = [str(Path(folder) / name) for name in ("before.mrec", "after.mrec")]
        for side, file in zip((one, two), files, strict=True):
            simulate(
                story,
                parameters=parse_settings(settings),
                seed=seed,
                config=side.config,
                plugins=side.plugins,
                kubernetes_version=side.version,
                record=file,
            )
        with Record.open(files[0], asked.plugins) as before, Record.open(files[1], asked.plugins) as after:
            names = ["the story's own" if side.name == DEFAULT else side.name for side in (one, two)]
            return (names[0], names[1]), diff_runs(before, after, causes=top)


def _of_records(records: tuple[str, ...], asked: _Asked, top: int) -> Found:
    from mooring.ask.runs import diff_record, diff_runs
    from mooring.core.config.wire import to_wire
    from mooring.record.reader import Record

    if asked.versions or asked.version:
        raise UsageError("--record: its version is the recorded one; expected --config or a second --record")
    if len(records) == 2 and not asked.configs:
        with Record.open(records[0], asked.plugins) as before, Record.open(records[1], asked.plugins) as after:
            return (records[0], records[1]), diff_runs(before, after, causes=top)
    if len(records) != 1 or len(asked.configs) != 1:
        raise UsageError("--record: expected two records, or one record and one --config")
    with Record.open(records[0], asked.plugins) as record:
        _, own = load_registry(asked.plugins)
        features = features_for(record.header.kubernetes)
        config = to_wire(load_configuration(asked.configs[0], own, features))
        return (records[0], asked.configs[0]), diff_record(record, config)
