"""``mooring config``: check, convert and show KubeSchedulerConfigurations."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from mooring.api import yaml
from mooring.api.errors import ConfigError, InputError, UsageError
from mooring.cli.options import Group, examples, features_for, load_registry, plugin_option, version_option
from mooring.cli.output import console, emit, output_option, print_table, read_input, to_json
from mooring.core.config.convert import OLD_VERSIONS, ConversionNote, convert_document
from mooring.core.config.features import parse_feature_gates
from mooring.core.config.load import default_config, load_document, read_document
from mooring.core.config.policy import convert_policy, is_policy
from mooring.core.config.profile import Expanded
from mooring.core.config.types import EXTENSION_POINTS, KubeSchedulerConfiguration
from mooring.core.config.wire import to_wire
from mooring.core.session import check_configuration

_feature_gates = click.option(
    "--feature-gates", multiple=True, metavar="NAME=true,…", help="Set feature gates, as for kube-scheduler."
)


@click.group(cls=Group)
def config() -> None:
    """Check, convert and show scheduler configurations."""


@config.command(epilog=examples("mooring config check scheduler.yaml -o json"))
@click.argument("file")
@click.option(
    "--assume",
    multiple=True,
    metavar="PLUGIN=POINT,…",
    help="Assume that a plugin runs at these points.",
)
@plugin_option
@_feature_gates
@version_option
@output_option()
def check(
    file: str,
    assume: tuple[str, ...],
    plugins: tuple[str, ...],
    feature_gates: tuple[str, ...],
    kubernetes_version: str | None,
    output: str,
) -> int:
    """Validate FILE (- for standard input) and print which plugins run where.

    Exit code 0: the configuration can be used; 1: it cannot, every mistake is listed; 2: there is no such file, or
    it is not YAML or JSON.
    """
    features = parse_feature_gates(feature_gates, features_for(kubernetes_version).version)
    have, own = load_registry(plugins)
    assumed = _assumed(assume)
    source, text = _source(file), read_input(file)
    try:
        document = _read_document(text, source)
    except ConfigError as error:
        return _report_problems(source, list(error.problems), (), output)
    found = check_configuration(document, have, features, assumed=assumed, makes_plugins=bool(own))
    if found.problems or found.config is None:
        return _report_problems(source, found.problems, found.warnings, output)
    config, expanded, warnings = found.config, found.expanded, found.warnings
    emit(_summary(config, expanded, warnings), output, lambda to: _draw(to, config, expanded, warnings))
    return 0


@config.command(epilog=examples("mooring config convert policy.json > scheduler.yaml"))
@click.argument("file")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything has no equivalent.")
@_feature_gates
@version_option
@output_option("yaml", "json")
def convert(
    file: str, strict: bool, feature_gates: tuple[str, ...], kubernetes_version: str | None, output: str
) -> int:
    """Turn FILE, a Policy or a v1beta1 to v1beta3 configuration, into version v1.

    The new configuration goes to standard output, what changed to standard error.
    """
    document = read_document(read_input(file), _source(file))
    notes: list[ConversionNote] = []
    if is_policy(document):
        converted, notes = convert_policy(document)
    elif document.get("apiVersion") in OLD_VERSIONS:
        converted, notes = convert_document(document)
    else:
        converted = document
    features = parse_feature_gates(feature_gates, features_for(kubernetes_version).version)
    try:  # what comes out must be a configuration, or there is no point in printing it
        load_document(converted, features)
    except ConfigError as e:
        raise ConfigError(*(f"{_source(file)}: {problem}" for problem in e.problems)) from None
    click.echo(to_json(converted) if output == "json" else yaml.dump(converted, sort_keys=False), nl=output == "json")
    _report_notes(notes)
    return 1 if strict and any(note.lost for note in notes) else 0


@config.command(epilog=examples("mooring config defaults -o json"))
@_feature_gates
@version_option
@output_option("yaml", "json")
def defaults(feature_gates: tuple[str, ...], kubernetes_version: str | None, output: str) -> None:
    """Print the default configuration, with every field."""
    features = parse_feature_gates(feature_gates, features_for(kubernetes_version).version)
    document = to_wire(default_config(features), leave_out=features.version.later_fields)
    click.echo(to_json(document) if output == "json" else yaml.dump(document), nl=output == "json")


def _source(file: str) -> str:
    """Return the name of the file in messages."""
    return "standard input" if file == "-" else file


def _read_document(text: bytes, source: str) -> dict[str, Any]:
    """Parse a text. The caller lists mistakes in the document; an unparsable text raises InputError."""
    try:
        return read_document(text)
    except ConfigError:
        raise
    except InputError as e:
        raise InputError(f"{source}: {e}") from None


def _assumed(texts: tuple[str, ...]) -> dict[str, frozenset[str]]:
    assumed = {}
    for text in texts:
        name, equals, points = text.partition("=")
        wanted = frozenset(filter(None, points.split(",")))
        unknown = sorted(wanted - set(EXTENSION_POINTS))
        if not name or not equals or not wanted or unknown:
            found = f'no extension point "{unknown[0]}"' if unknown else f'found "{text}"'
            raise UsageError(f"--assume: {found}; expected PLUGIN=POINT,… with points of {', '.join(EXTENSION_POINTS)}")
        assumed[name] = wanted
    return assumed


def _report_problems(source: str, problems: list[str], warnings: tuple[str, ...], output: str) -> int:
    def draw(_: Console) -> None:
        to = console(stderr=True)
        for problem in problems:
            to.print(f"{source}: {problem}", style="red", markup=False)

    value = {"valid": False, "problems": problems, "warnings": list(warnings)}
    emit(value, output, draw)
    return 1


def _summary(
    loaded: KubeSchedulerConfiguration, expanded: dict[str, Expanded], warnings: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "valid": True,
        "warnings": list(warnings),
        "profiles": [
            {
                "schedulerName": name,
                "plugins": {
                    point: [{"name": plugin, **({"weight": weight} if weight else {})} for plugin, weight in plugins]
                    for point, plugins in points.items()
                },
            }
            for name, points in expanded.items()
        ],
        "extenders": [extender.shown_url for extender in loaded.extenders],
    }


def _draw(
    to: Console, loaded: KubeSchedulerConfiguration, expanded: dict[str, Expanded], warnings: tuple[str, ...]
) -> None:
    for name, points in expanded.items():
        to.print(f"Profile {name}", style="bold", markup=False)
        rows = [
            (point, ", ".join(f"{plugin} {weight}" if weight else plugin for plugin, weight in plugins) or "-")
            for point, plugins in points.items()
        ]
        print_table(to, ("EXTENSION POINT", "PLUGINS (WITH WEIGHTS)"), rows)
        to.print()
    for extender in loaded.extenders:
        verbs = (extender.filter_verb, extender.prioritize_verb, extender.preempt_verb, extender.bind_verb)
        to.print(f"Extender {extender.shown_url}: {', '.join(filter(None, verbs)) or 'no verbs'}", markup=False)
    errors = console(stderr=True)
    for warning in warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False)


def _report_notes(notes: list[ConversionNote]) -> None:
    to = console(stderr=True)
    if not notes:
        to.print("already version v1, nothing changed", markup=False)
    for note in notes:
        label, style = ("lost", "red") if note.lost else ("changed", "yellow")
        to.print(f"{label}: {note}", style=style, markup=False)
