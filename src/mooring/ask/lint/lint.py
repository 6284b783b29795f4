"""Lint: all rules over all objects of manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from mooring.api.errors import UsageError
from mooring.api.text import count_of, hint
from mooring.api.version import __version__
from mooring.ask.lint import file_rules, node_rules, other_rules, spread_rules
from mooring.ask.lint.context import LintContext, Subject, Unreadable, read_subjects
from mooring.ask.lint.findings import RULES, Finding, Findings, Rule, Severity
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference

__all__ = ["all_rules", "lint"]


_MODULES = (file_rules, node_rules, spread_rules, other_rules)  # importing them registers their rules


def lint(
    *manifests: str | Path,
    cluster: Cluster | None = None,
    disable: Iterable[str] = (),
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Findings:
    """Find mistakes of intent in files and directories of manifests, before they are applied to this cluster.

    Without a cluster only the rules that need none are asked. ``disable`` names rules to leave out. What fits is judged
    as ``kubernetes_version`` does; without it, as the cluster's version.
    """
    left_out = set(disable)
    for name in left_out - RULES.keys():
        raise UsageError(f"no lint rule {name!r}; {hint(name, RULES)}")
    subjects = read_subjects(manifests)
    context = LintContext(subjects.found, cluster, config, plugins, kubernetes_version)
    enabled = [rule for rule in all_rules() if rule.name not in left_out]
    asked = [rule for rule in enabled if cluster is not None or not rule.needs_cluster]
    found = [finding for subject in subjects.found for finding in _of(subject, asked, context)]
    if "invalid-manifest" not in left_out:
        found += map(_unreadable, subjects.unreadable)
    return Findings(
        sorted(found, key=lambda finding: (finding.file, finding.line, finding.rule)),
        subjects.files,
        len(subjects.found),
        subjects.skipped,
        tuple(rule.name for rule in asked),
        tuple(rule.name for rule in enabled if rule not in asked),
    )


def all_rules() -> list[Rule]:
    """Every rule: about files, then nodes, spreading, and the rest."""
    modules = [module.__name__ for module in _MODULES]
    return sorted(RULES.values(), key=lambda rule: modules.index(rule.check.__module__))


def _unreadable(file: Unreadable) -> Finding:
    template = "render the template first, for example with helm template"
    fix = template if file.is_template else "write YAML or JSON"
    return Finding("invalid-manifest", Severity.ERROR, file.file, file.line, "", file.message, fix)


def _of(subject: Subject, rules: Iterable[Rule], context: LintContext) -> Iterable[Finding]:
    """What the rules find in one object. One that an API server would refuse is not looked at any further."""
    for rule in rules:
        if rule.name in subject.ignored or (
            subject.problems and rule.name not in ("invalid-manifest", "unknown-field")
        ):
            continue
        for problem in rule.check(subject, context):
            line = subject.line(*problem.path)
            yield Finding(rule.name, rule.severity, subject.file, line, subject.title, problem.message, problem.fix)


# --------------------------------------------------------------------------------------------------------------------
# How findings look on a terminal, and as text.

_UNBOUNDED = 1_000_000  # text is not wrapped
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def draw(to: Console, found: Findings) -> None:
    """Print each finding with its place and its fix, and then how many there are."""
    for finding in found:
        _draw(to, finding)
    counts = Counter(finding.severity for finding in found)
    told = ", ".join(count_of(counts[severity], str(severity)) for severity in sorted(counts, reverse=True))
    looked = (
        f"{count_of(found.objects, 'object')} in {count_of(found.files, 'file')}, {count_of(len(found.rules), 'rule')}"
    )
    colour = "green" if not told else "red"
    to.print(f"[{colour}]{told or 'Nothing found'}[/{colour}]: {looked}.")
    if found.without_cluster:
        to.print(f"Not asked, for want of a cluster: {', '.join(found.without_cluster)}.")


def text(found: Findings) -> str:
    """The same without colours."""
    page = StringIO()
    draw(Console(file=page, width=_UNBOUNDED, highlight=False, soft_wrap=True, emoji=False), found)
    return page.getvalue().rstrip()


def _draw(to: Console, finding: Finding) -> None:
    colour = _COLOURS[finding.severity]
    to.print(
        f"[bold]{escape(finding.file)}:{finding.line}[/bold] [{colour}]{finding.severity}[/{colour}] {finding.rule}"
    )
    about = f"{finding.object}: " if finding.object else ""
    to.print(f"  {escape(about + finding.message)}")
    to.print(f"  [dim]fix:[/dim] {escape(finding.fix)}")
    to.print()


# --------------------------------------------------------------------------------------------------------------------
# Findings as SARIF 2.1.0, which code review tools show beside the lines.

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(found: Findings) -> dict[str, Any]:
    """One run with the rules that were asked, and a result for each finding."""
    rules = [RULES[name] for name in found.rules]
    index = {rule.name: i for i, rule in enumerate(rules)}
    driver = {"name": "mooring lint", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    results = [_result(finding, index[finding.rule]) for finding in found]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": " ".join(rule.text.split())},
        "help": {"text": rule.text, "markdown": rule.text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    about = f"{finding.object}: " if finding.object else ""
    place = {"artifactLocation": {"uri": finding.file.replace("\\", "/")}, "region": {"startLine": finding.line}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{about}{finding.message}. Fix: {finding.fix}"},
        "locations": [{"physicalLocation": place}],
    }
