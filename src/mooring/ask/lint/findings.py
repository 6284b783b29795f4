"""What linting finds: a mistake with its place, its severity, and a fix."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from rich.console import Console
from rich.markup import escape

from mooring.api.tables import printed
from mooring.api.text import count_of
from mooring.api.version import __version__
from mooring.ask.lint.context import FieldPath, LintContext, Subject


class Severity(IntEnum):
    """Severity of a mistake. error: pods stay pending, or the intent fails; note: worth checking."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in one object."""

    rule: str
    severity: Severity
    file: str
    line: int
    object: str  # kind and namespace/name
    message: str
    fix: str

    @property
    def text(self) -> str:
        """Message with the object that it is about."""
        return f"{self.object}: {self.message}" if self.object else self.message

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "file": self.file,
            "line": self.line,
            "object": self.object,
            "message": self.message,
            "fix": self.fix,
        }


@dataclass(slots=True)
class Findings:
    """All findings, in the order of files and lines, and how much was checked."""

    found: list[Finding] = field(default_factory=list)
    files: int = 0
    objects: int = 0
    skipped: int = 0  # documents other than Kubernetes objects
    rules: tuple[str, ...] = ()  # those that ran
    without_cluster: tuple[str, ...] = ()  # those skipped because there is no cluster

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def worst(self) -> Severity | None:
        return max((each.severity for each in self.found), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "files": self.files,
            "objects": self.objects,
            "skipped": self.skipped,
            "rules": list(self.rules),
            "withoutCluster": list(self.without_cluster),
            "findings": [each.to_dict() for each in self.found],
        }

    def __repr__(self) -> str:
        return text(self)


# ---- rules: what they are made of, and all of them by name ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in one object: the field, the mistake, and the fix."""

    path: FieldPath
    message: str
    fix: str


Check = Callable[[Subject, LintContext], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its name. The docstring of the check is the rule's documentation."""

    name: str
    severity: Severity
    needs_cluster: bool
    check: Check

    @property
    def title(self) -> str:
        """First line: the mistake in a few words."""
        return inspect.cleandoc(self.check.__doc__ or "").splitlines()[0].rstrip(".")

    @property
    def text(self) -> str:
        """Following paragraphs: why it is a mistake, and what to do."""
        return "\n".join(inspect.cleandoc(self.check.__doc__ or "").splitlines()[1:]).strip()


RULES: dict[str, Rule] = {}


def rule(name: str, severity: Severity, *, needs_cluster: bool = False) -> Callable[[Check], Check]:
    """Make a rule of a function."""

    def register(check: Check) -> Check:
        assert name not in RULES, f"two rules are called {name}"
        RULES[name] = Rule(name, severity, needs_cluster, check)
        return check

    return register


# ---- rendering of findings, on a terminal and as text ---------------------------------------------------------------

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def draw(to: Console, found: Findings) -> None:
    """Print each finding with its place and fix, and then their number."""
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
        to.print(f"Skipped without a cluster: {', '.join(found.without_cluster)}.")


def text(found: Findings) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def _draw(to: Console, finding: Finding) -> None:
    colour = _COLOURS[finding.severity]
    to.print(
        f"[bold]{escape(finding.file)}:{finding.line}[/bold] [{colour}]{finding.severity}[/{colour}] {finding.rule}"
    )
    to.print(f"  {escape(finding.text)}")
    to.print(f"  [dim]fix:[/dim] {escape(finding.fix)}")
    to.print()


# ---- SARIF 2.1.0, which code review tools show beside the lines ---------------------------------------------------

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(found: Findings) -> dict[str, Any]:
    """Return one run with its rules, and a result for each finding."""
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
        "defaultConfiguration": {"level": str(rule.severity)},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": finding.file.replace("\\", "/")}, "region": {"startLine": finding.line}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": str(finding.severity),
        "message": {"text": f"{finding.text}. Fix: {finding.fix}"},
        "locations": [{"physicalLocation": place}],
    }
