"""Lint: all rules over all objects of manifests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mooring.errors import UsageError
from mooring.linting import file_rules, node_rules, other_rules, spread_rules
from mooring.linting.context import Context
from mooring.linting.findings import Finding, Findings, Severity
from mooring.linting.rules import RULES, Rule
from mooring.linting.subjects import Subject, Unreadable, read_subjects
from mooring.meant import hint
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Configuration, PluginReference

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
    context = Context(subjects.found, cluster, config, plugins, kubernetes_version)
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


def _of(subject: Subject, rules: Iterable[Rule], context: Context) -> Iterable[Finding]:
    """What the rules find in one object. One that an API server would refuse is not looked at any further."""
    for rule in rules:
        if rule.name in subject.ignored or (
            subject.problems and rule.name not in ("invalid-manifest", "unknown-field")
        ):
            continue
        for problem in rule.check(subject, context):
            line = subject.line(*problem.path)
            yield Finding(rule.name, rule.severity, subject.file, line, subject.title, problem.message, problem.fix)
