"""The reference pages, made from the code: what the command line, the types, plugins and metrics say themselves.

They are kept in docs/reference, so that readers of the repository have them, too. ``make docs`` writes them again, and
a test compares them with the code.

    python scripts/docs_pages.py            write the pages
    python scripts/docs_pages.py --check    fail if one is not what the code says
"""

from __future__ import annotations

import inspect
import itertools
import re
import runpy
import sys
import tomllib
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

HELP_WIDTH = 80  # as wide as a page's column
ROOT = Path(__file__).parents[1]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar or a newline in a cell would end it."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# ---- the command line --------------------------------------------------------------------------------------------


def command_line() -> str:
    from mooring.cli.main import cli

    parts = [
        "# Command line",
        "",
        "Every command as its `--help` prints it. Exit code 0: yes, done. 1: the answer is no, or it failed. "
        "2: bad usage or input.",
    ]
    for path, text in _helps(cli, ("mooring",)):
        parts += ["", f"{'#' * min(len(path) + 1, 4)} {' '.join(path)}", "", "```text", text.rstrip(), "```"]
    return "\n".join(parts) + "\n"


def _helps(command: click.Command, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], str]]:
    context = click.Context(command, info_name=" ".join(path), max_content_width=HELP_WIDTH, terminal_width=HELP_WIDTH)
    yield path, _own_help(path) or command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _helps(found, (*path, name))


def _own_help(path: tuple[str, ...]) -> str:
    """``mooring run`` reads its flags as kube-scheduler does, not with click."""
    if path != ("mooring", "run"):
        return ""
    from mooring.cli.run import EXAMPLE
    from mooring.live.flags import help_text

    return help_text(EXAMPLE, width=HELP_WIDTH)


# ---- the configuration -------------------------------------------------------------------------------------------


def configuration() -> str:
    from mooring.core.config import types

    order: list[type[msgspec.Struct]] = []
    _collect(types.KubeSchedulerConfiguration, order)
    arguments = [types.ARGS_TYPES[name] for name in sorted(types.ARGS_TYPES)]
    inner: list[type[msgspec.Struct]] = []
    for args in arguments:
        _collect(args, inner)
    parts = [
        "# Configuration",
        "",
        f"A file with `apiVersion: {types.API_VERSION}` and `kind: {types.KIND}`, given as "
        "`mooring run --config FILE`. `mooring config check FILE` says whether it is valid and what runs where; "
        "`mooring config defaults` prints it with everything filled in.",
        "",
    ]
    parts += [_struct(kind) for kind in order]
    parts += ["## Arguments of plugins", "", "In a profile's `pluginConfig`, each with the plugin's `name`.", ""]
    parts += [_struct(kind, "###") for kind in inner if kind not in order]
    return "\n".join(parts)


def _collect(kind: type[msgspec.Struct], found: list[type[msgspec.Struct]]) -> None:
    if kind in found:
        return
    found.append(kind)
    for hint in typing.get_type_hints(kind).values():
        for inner in _structs_in(hint):
            if inner.__module__ == "mooring.core.config.types":
                _collect(inner, found)


def _structs_in(hint: Any) -> Iterable[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _structs_in(argument)


def _struct(kind: type[msgspec.Struct], heading: str = "##") -> str:
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = configuration_texts()[kind.__name__]
    rows = [
        (
            f"`{field.encode_name}`",
            _type_name(hints[field.name]),
            _default(field, hints[field.name]),
            texts[field.encode_name],
        )
        for field in msgspec.structs.fields(kind)
    ]
    return f"{heading} {kind.__name__}\n\n{table(('field', 'type', 'default', 'meaning'), rows)}"


def configuration_texts() -> dict[str, dict[str, str]]:
    """What fields mean, by type and name."""
    return tomllib.loads((Path(__file__).parent / "configuration_texts.toml").read_text())


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        base, *metadata = typing.get_args(hint)
        is_duration = any((getattr(meta, "extra", None) or {}).get("wire") == "duration" for meta in metadata)
        return "duration" if is_duration else _type_name(base)
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if typing.get_origin(hint) is list:
        return f"list of {_type_name(arguments[0])}"
    if arguments:
        return " or ".join(_type_name(argument) for argument in arguments)
    names = {str: "text", int: "integer", float: "number", bool: "boolean", bytes: "base64", Any: "anything"}
    if hint in names:
        return names[hint]
    name = getattr(hint, "__name__", str(hint))
    return f"[{name}](#{name.lower()})" if getattr(hint, "__module__", "") == "mooring.core.config.types" else name


def _default(field: Any, hint: Any) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
        return "" if isinstance(value, msgspec.Struct) or not value else f"`{msgspec.json.encode(value).decode()}`"
    value = field.default
    if value is None or value is msgspec.NODEFAULT or value in ("", b""):
        return ""
    if _type_name(hint) == "duration":
        from mooring.api.times import format_duration

        return f"`{format_duration(value)}`"
    return f"`{msgspec.json.encode(value).decode()}`"


# ---- plugins -----------------------------------------------------------------------------------------------------


def plugins() -> str:
    from mooring.core.config.load import default_config
    from mooring.core.config.types import EXTENSION_POINTS, plugin_set
    from mooring.core.engine.in_tree import IN_TREE, OPTIONAL
    from mooring.core.framework.extension_points import points_of

    (profile,) = default_config().profiles
    weights = {plugin.name: plugin.weight or 1 for plugin in plugin_set(profile.plugins, "multiPoint").enabled}

    def entry(plugin: type) -> str:
        points = [point for point in EXTENSION_POINTS if point in points_of(plugin)]
        name = plugin.__name__
        facts = f"Extension points: {', '.join(f'`{point}`' for point in points)}."
        if "score" in points and name in weights:
            facts += f" Weight: {weights[name]}."
        return f"### {name}\n\n{two_sentences(plugin)}\n\n{facts}\n"

    return "\n".join(
        [
            "# Plugins",
            "",
            "## kube-scheduler's plugins",
            "",
            "In the order in which the default profile runs them. The texts are the plugins' own; their files in "
            "[`src/mooring/core/plugins/`](../../src/mooring/core/plugins) say the rest. Arguments are on "
            "[Configuration](configuration.md#arguments-of-plugins).",
            "",
            *map(entry, IN_TREE),
            "## Not in kube-scheduler",
            "",
            "They are off until a profile names them.",
            "",
            *map(entry, OPTIONAL),
        ]
    )


def two_sentences(plugin: type) -> str:
    """The first sentence of the plugin's file and the first of its class."""
    module = inspect.cleandoc(sys.modules[plugin.__module__].__doc__ or "").split("\n")[0]
    module = _first_sentence(module.removeprefix(f"{plugin.__name__}: "))
    own = inspect.cleandoc(plugin.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if module.split(None, 1)[0].islower():
        module = module[:1].upper() + module[1:]  # but nodeSelector is written so
    return plain_text(f"{module} {_first_sentence(own)}")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", text)[0]


# ---- extension points --------------------------------------------------------------------------------------------


def extension_points() -> str:
    from mooring.core.engine.in_tree import IN_TREE
    from mooring.core.framework import extension_points as table_of_points
    from mooring.core.framework import interfaces
    from mooring.core.framework.extension_points import EXTENSION_POINTS, EXTENSIONS, points_of

    says = {
        name: (kind, method)
        for kind in vars(interfaces).values()
        if inspect.isclass(kind) and kind.__module__ == interfaces.__name__
        for name, method in vars(kind).items()
        if name in table_of_points.METHODS
    }

    def method(each: Any) -> str:
        kind, contract = says[each.name]
        texts = [inspect.getdoc(contract) or inspect.getdoc(kind) or ""]
        own = each.signature(per_node=True)
        lines = [own, *([f"{each.signature()}    # on columns"] if each.signature() != own else [])]
        optional = "Optional. " if each.is_optional else ""
        return "\n\n".join(["```python\n" + "\n".join(lines) + "\n```", optional + plain_text("\n\n".join(texts))])

    parts = [
        "# Extension points",
        "",
        "![The way of a pod through the extension points](../images/way-of-a-pod.svg)",
        "",
        "A plugin is a class with the methods of one or more of these points. The first signature is that of "
        "[`mooring.sdk`](sdk.md): a plugin looks at one pod and one node. Where a second one is given, "
        "plugins that look at columns have that.",
        "",
        "## What a status leads to",
        "",
        _status_table(interfaces.__doc__ or ""),
    ]
    for point in EXTENSION_POINTS:
        if point.methods:
            users = ", ".join(plugin.__name__ for plugin in IN_TREE if point.name in points_of(plugin))
            parts += [f"## {point.name}", "", "\n\n".join(map(method, point.methods)), "", f"In-tree: {users}.", ""]
    parts += ["## At any point", "", "A plugin may have these methods besides those of its points.", ""]
    parts += ["\n\n".join(map(method, EXTENSIONS)), ""]
    return "\n".join(parts)


def _status_table(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.startswith("|")) + "\n"


def plain_text(docstring: str) -> str:
    """A docstring as Markdown: roles become code."""
    return re.sub(r":(?:class|meth|func|mod|attr):`~?([^`]+)`", r"`\1`", docstring).replace("``", "`")


# ---- decisions ---------------------------------------------------------------------------------------------------


def decisions() -> str:
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "decisions").glob("*.md"))}
    rows = [(name[:4], f"[{decision_title(text)}]({name})") for name, text in pages.items()]
    return (
        "# Decisions\n\nWhy things are as they are, one page each: context, decision, consequences, and what would "
        "change our mind.\n\n" + table(("number", "decision"), rows)
    )


def decision_title(text: str) -> str:
    return re.sub(r"^# \d+[.:] ", "", text.partition("\n")[0])


# ---- metrics, features, endpoints --------------------------------------------------------------------------------


def metrics() -> str:
    from mooring.live.metrics import SchedulerMetrics

    families = SchedulerMetrics().registry._families.values()
    rows = []
    for family in sorted(families, key=lambda family: family.name):
        stability, _, says = family.help_text.partition("] ")
        labels = ", ".join(f"`{label}`" for label in family.label_names)
        facts = f"{family.kind}, {stability.strip('[')}" + (f"; by {labels}" if labels else "")
        rows.append((f"`{family.name}`", f"{says} *({facts})*"))
    return (
        "# Metrics\n\nServed at `/metrics` under kube-scheduler's names; its dashboards and alerts keep working. "
        "`/metrics/resources` adds `kube_pod_resource_request` and `kube_pod_resource_limit` for every pod.\n\n"
        + table(("name", "what it says (kind, stability, labels)"), rows)
    )


def features() -> str:
    from mooring.core.config.versions import VERSIONS, KubernetesVersion

    def state(name: str, version: KubernetesVersion) -> str:
        gate = version.gates.get(name)
        return "–" if gate is None else str(gate)

    names = sorted({name for version in VERSIONS.values() for name in version.gates})
    rows = [(f"`{name}`", *(state(name, version) for version in VERSIONS.values())) for name in names]
    return (
        "# Feature gates\n\nSet with `--feature-gates=Name=true,…`. Stage and default, by the version of Kubernetes "
        "that mooring decides as:\n\n" + table(("gate", *VERSIONS), rows)
    )


def versions() -> str:
    """What changed for scheduling from each minor version to the next, as the tables of versions say it."""
    from mooring.core.config.versions import VERSIONS, differences

    parts = [
        "# Versions of Kubernetes",
        "",
        "mooring decides as one minor version of kube-scheduler: the one that `--kubernetes-version` names, or else "
        "the cluster's. This page says what changed for scheduling from each to the next. "
        "`mooring diff --version A B --explain` prints the same for any two. "
        "The API server of `mooring start` speaks as the same version: its name, kinds and fields. "
        "[Agreement](../parity.md) says how far each version was compared with the real one.",
    ]
    for old, new in itertools.pairwise(VERSIONS.values()):
        rows = [(each.about, f"`{each.name}`", each.says, _upstream(each.upstream)) for each in differences(old, new)]
        preview = " (a preview: what is merged or announced so far)" if new.is_preview else ""
        parts += [
            "",
            f"## {old} to {new}{preview}",
            "",
            table(("about", "name", "since then", "upstream"), rows).rstrip(),
        ]
    return "\n".join(parts) + "\n"


def _upstream(reference: str) -> str:
    project, _, number = reference.partition("#")
    if number:
        return f"[{reference}](https://github.com/kubernetes/{project}/pull/{number})"
    number = reference.removeprefix("KEP-")
    return f"[{reference}](https://kep.k8s.io/{number})" if number else ""


def formats() -> str:
    return str(runpy.run_path(str(Path(__file__).with_name("docs_formats.py")))["formats"]())


# ---- lint rules --------------------------------------------------------------------------------------------------


def lint_rules() -> str:
    """Every rule of ``mooring lint`` as its docstring describes it."""
    from mooring.ask.lint.lint import all_rules

    parts = [
        "# Lint rules",
        "",
        "The rules of [`mooring lint`](../lint.md). `--disable RULE` leaves one out everywhere, the annotation "
        "`mooring/lint-ignore: RULE` in one object. This page is made from the rules themselves.",
    ]
    for rule in all_rules():
        need = "it needs a cluster" if rule.needs_cluster else "it needs no cluster"
        parts += ["", f"## {rule.name}", "", f"**{rule.title}.** Severity: {rule.severity}; {need}.", "", rule.text]
    return "\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": command_line,
    "reference/configuration.md": configuration,
    "reference/plugins.md": plugins,
    "reference/metrics.md": metrics,
    "reference/features.md": features,
    "reference/versions.md": versions,
    "reference/formats.md": formats,
    "reference/lint.md": lint_rules,
    "reference/extension-points.md": extension_points,
}


def main(arguments: Sequence[str]) -> int:
    is_check = "--check" in arguments
    for name, make in PAGES.items():
        file = ROOT / "docs" / name
        text = make().rstrip("\n") + "\n"
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            continue
        if is_check:
            print(f"docs/{name} is not what the code says: run `make docs`", file=sys.stderr)
            return 1
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
