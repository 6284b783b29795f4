"""Lint: all rules over all objects of manifests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mooring.api.errors import UsageError
from mooring.api.text import hint
from mooring.api.type_table import unknown_fields
from mooring.ask.lint import configuration_rules, node_rules, other_rules
from mooring.ask.lint.context import FieldPath, LintContext, Subject, Unreadable, read_subjects
from mooring.ask.lint.findings import RULES, Finding, Findings, Problem, Rule, Severity, rule
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference

# Importing them registers their rules.
_MODULES = (__name__, node_rules.__name__, other_rules.__name__, configuration_rules.__name__)


def lint(
    *manifests: str | Path | bytes,
    cluster: Cluster | None = None,
    disable: Iterable[str] = (),
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Findings:
    """Find mistakes of intent in files and directories of manifests, before they are applied to this cluster.

    A manifest may also be given as bytes. Without a cluster only the rules that need none run. ``disable`` names rules
    to skip. Placement is judged as in ``kubernetes_version``, by default the cluster's version.
    """
    left_out = set(disable)
    for name in left_out - RULES.keys():
        raise UsageError(f"no lint rule {name!r}; {hint(name, RULES)}")
    subjects = read_subjects(manifests)
    context = LintContext(subjects.found, cluster, config, plugins, kubernetes_version)
    enabled = [each for each in all_rules() if each.name not in left_out]
    asked = [each for each in enabled if cluster is not None or not each.needs_cluster]
    found = [finding for subject in subjects.found for finding in _of(subject, asked, context)]
    if "invalid-manifest" not in left_out:
        found += map(_unreadable, subjects.unreadable)
    return Findings(
        sorted(found, key=lambda finding: (finding.file, finding.line, finding.rule)),
        subjects.files,
        len(subjects.found),
        subjects.skipped,
        tuple(each.name for each in asked),
        tuple(each.name for each in enabled if each not in asked),
    )


def all_rules() -> list[Rule]:
    """Return every rule: about files, then nodes, spreading, and the rest."""
    return sorted(RULES.values(), key=lambda each: _MODULES.index(each.check.__module__))


def _unreadable(file: Unreadable) -> Finding:
    template = "render the template first, for example with helm template"
    fix = template if file.is_template else "write YAML or JSON"
    return Finding("invalid-manifest", Severity.ERROR, file.file, file.line, "", file.message, fix)


def _of(subject: Subject, rules: Iterable[Rule], context: LintContext) -> Iterable[Finding]:
    """Yield the findings in one object. An invalid object is not checked further."""
    for each in rules:
        is_passed_over = subject.problems and each.name not in ("invalid-manifest", "unknown-field")
        if each.name in subject.ignored or is_passed_over:
            continue
        for problem in each.check(subject, context):
            line = subject.line(*problem.path)
            yield Finding(each.name, each.severity, subject.file, line, subject.title, problem.message, problem.fix)


# ---- rules about invalid manifests
# -------------------------------------------------------------------------------------

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@rule("invalid-manifest", Severity.ERROR)
def invalid_manifest(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A manifest that cannot be read, or that an API server would reject.

    A file is not YAML or JSON, a quantity does not parse, an operator does not exist, a template is missing. No other
    rule looks at such an object. Charts and overlays must be rendered first (`helm template`, `kubectl kustomize`).
    """
    for problem in subject.problems:
        yield Problem(field_path(problem.partition(":")[0], subject), problem, "write what the message asks for")


@rule("unknown-field", Severity.WARNING)
def unknown_field(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A field that Kubernetes does not know.

    Most often it is a typing mistake, and the field has no effect: kubectl refuses it, but many other tools
    pass it on, and the API server drops it. The rule knows the fields of all kinds that come with Kubernetes.
    """
    version = subject.value.get("apiVersion")
    for unknown in unknown_fields(subject.value, subject.kind, version if isinstance(version, str) else "v1"):
        fix = f"write {unknown.nearest}" if unknown.nearest else "remove it"
        yield Problem(field_path(unknown.path, subject), f'unknown field "{unknown.path}"', fix)


def field_path(text: str, subject: Subject) -> FieldPath:
    """Split ``spec.containers[0].image`` into steps; a path inside the pod of a workload begins at its template."""
    steps: FieldPath = tuple(int(index) if index else name for name, index in _STEP.findall(text))
    in_pod = subject.pod is not None and steps[:1] == ("spec",) and not subject.lines.get((*subject.root, *steps))
    return (*subject.pod_spec, *steps[1:]) if in_pod else steps
