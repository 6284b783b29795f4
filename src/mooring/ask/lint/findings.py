"""What linting finds: a mistake with its place, how bad it is, and what would mend it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from mooring.ask.lint.context import FieldPath, LintContext, Subject


class Severity(IntEnum):
    """How bad a mistake is. An error: pods will wait, or what is meant will not happen. A note: worth a look."""

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
    """All findings, in the order of files and lines, and how much was looked at."""

    found: list[Finding] = field(default_factory=list)
    files: int = 0
    objects: int = 0
    skipped: int = 0  # documents that are no Kubernetes objects
    rules: tuple[str, ...] = ()  # those that were asked
    without_cluster: tuple[str, ...] = ()  # those that were not, for want of a cluster

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def worst(self) -> Severity | None:
        return max((each.severity for each in self.found), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "files": self.files,
            "objects": self.objects,
            "skipped": self.skipped,
            "rules": list(self.rules),
            "withoutCluster": list(self.without_cluster),
            "findings": [each.to_dict() for each in self.found],
        }

    def __repr__(self) -> str:
        from mooring.ask.lint.lint import text  # which draws findings, and knows them therefore

        return text(self)


# --------------------------------------------------------------------------------------------------------------------
# Rules: what they are made of, and all of them by name.


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in one object: the field, what is wrong there, and what would mend it."""

    path: FieldPath
    message: str
    fix: str


Check = Callable[[Subject, LintContext], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its name. The docstring of the check is what the documentation says about the rule."""

    name: str
    severity: Severity
    needs_cluster: bool
    check: Check

    @property
    def title(self) -> str:
        """The first line: the mistake in a few words."""
        return inspect.cleandoc(self.check.__doc__ or "").splitlines()[0].rstrip(".")

    @property
    def text(self) -> str:
        """The paragraphs after it: why it is a mistake, and what to do."""
        return "\n".join(inspect.cleandoc(self.check.__doc__ or "").splitlines()[1:]).strip()


RULES: dict[str, Rule] = {}


def rule(name: str, severity: Severity, *, needs_cluster: bool = False) -> Callable[[Check], Check]:
    """Make a rule of a function."""

    def register(check: Check) -> Check:
        assert name not in RULES, f"two rules are called {name}"
        RULES[name] = Rule(name, severity, needs_cluster, check)
        return check

    return register
