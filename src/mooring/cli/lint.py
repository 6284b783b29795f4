"""``mooring lint``: mistakes of intent in manifests, before they are applied."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.api.errors import InputError, UsageError
from mooring.cli.options import (
    ClusterSource,
    cluster_options,
    config_option,
    plugin_option,
    version_option,
)
from mooring.cli.output import console, emit, output_option, print_table, to_json

NEVER = "never"


@click.command()
@click.argument("manifests", nargs=-1)
@cluster_options
@click.option("--no-cluster", is_flag=True, help="Use only rules that need no cluster.")
@click.option("--disable", multiple=True, metavar="RULE", help="Disable this rule; repeatable.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and exit.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", NEVER]),
    default="warning",
    metavar="SEVERITY",
    help="Fail on error, warning (default), note, never.",
)
@config_option
@plugin_option
@version_option
@output_option("table", "json", "yaml", "sarif")
def lint(
    manifests: tuple[str, ...],
    dumps: tuple[str, ...],
    kubeconfig: str,
    context: str,
    no_cluster: bool,
    disable: tuple[str, ...],
    list_rules: bool,
    fail_on: str,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    output: str,
) -> int:
    """Find mistakes of intent in manifests before they are applied.

    MANIFESTS are files or directories; - is standard input. They are held against the nodes and objects of a cluster:
    a dump, or a live one, which is only read. Each finding has its file and line, and a fix. Exit code 0: nothing is as
    bad as --fail-on; 1: something is; 2: the input cannot be used.

    \b
    Example:
      mooring lint manifests/ --cluster dump.json
      mooring lint web.yaml --no-cluster --disable unknown-field
      helm template my-chart | mooring lint - --cluster dump.json
      mooring lint manifests/ --cluster dump.json -o sarif > lint.sarif
    """
    from mooring.ask.lint.context import STANDARD_INPUT
    from mooring.ask.lint.findings import Severity, draw, to_sarif
    from mooring.ask.lint.lint import lint as find

    if list_rules:
        return _list()
    if not manifests:
        raise UsageError("expected MANIFESTS: files or directories to look at")
    source = ClusterSource(dumps, kubeconfig, context)
    if no_cluster and source != ClusterSource():
        raise UsageError("--no-cluster excludes --cluster and --kubeconfig; give one of them")
    for each in manifests:
        if each != STANDARD_INPUT and not Path(each).exists():  # reported before a cluster is read
            raise InputError(f"{each}: no such file or directory")
    give = "--cluster DUMP, --kubeconfig FILE or --no-cluster"
    cluster = None if no_cluster else source.cluster("lint", quiet=True, give=give)
    found = find(
        *manifests,
        cluster=cluster,
        disable=disable,
        config=config_path,
        plugins=plugins,
        kubernetes_version=kubernetes_version,
    )
    if output == "sarif":
        click.echo(to_json(to_sarif(found)))
    else:
        emit(found.to_dict(), output, lambda to: draw(to, found))
    worst = found.worst()
    return int(fail_on != NEVER and worst is not None and worst >= Severity[fail_on.upper()])


def _list() -> int:
    from mooring.ask.lint.lint import all_rules

    rows = [(rule.name, str(rule.severity), "yes" if rule.needs_cluster else "no", rule.title) for rule in all_rules()]
    print_table(console(), ["RULE", "SEVERITY", "NEEDS A CLUSTER", "FINDS"], rows)
    return 0
