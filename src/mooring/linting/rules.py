"""Rules: what they are made of, and all of them by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mooring.linting.context import Context
from mooring.linting.findings import Severity
from mooring.linting.subjects import FieldPath, Subject


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in one object: the field, what is wrong there, and what would mend it."""

    path: FieldPath
    message: str
    fix: str


Check = Callable[[Subject, Context], Iterator[Problem]]


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
