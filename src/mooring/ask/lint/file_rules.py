"""Rules about manifests as such: what an API server would refuse or pass over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mooring.api.type_table import unknown_fields
from mooring.ask.lint.context import FieldPath, LintContext, Subject
from mooring.ask.lint.findings import Problem, Severity, rule

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@rule("invalid-manifest", Severity.ERROR)
def invalid_manifest(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """A manifest that cannot be read, or that an API server would refuse.

    A file is not YAML or JSON, a quantity does not parse, an operator does not exist, a template is missing. No
    other rule looks at such an object. Charts and overlays must be rendered first (`helm template`, `kubectl
    kustomize`).
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
    """``spec.containers[0].image`` as steps; a path inside the pod of a workload begins at its template."""
    steps: FieldPath = tuple(int(index) if index else name for name, index in _STEP.findall(text))
    in_pod = subject.pod is not None and steps[:1] == ("spec",) and not subject.lines.get((*subject.root, *steps))
    return (*subject.pod_spec, *steps[1:]) if in_pod else steps
