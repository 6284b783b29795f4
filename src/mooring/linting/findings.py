"""What linting finds: a mistake with its place, how bad it is, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


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
        from mooring.linting.rendering import text  # which draws findings, and knows them therefore

        return text(self)
