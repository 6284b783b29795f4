"""Label selectors, compiled once.

A compiled selector is a value: equal selectors compare and hash equal, so they can key caches. ``None`` on the wire
selects nothing, ``{}`` everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from mooring.api import well_known
from mooring.api.core import Taint, Toleration
from mooring.api.errors import ParseError
from mooring.api.meta import LabelSelector

LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def parse_int64(text: str) -> int | None:
    """Parse a base-10 int64 as Go's strconv does; None where Go fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Match the label's value; None means that the label is missing."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:  # Gt, Lt
                if value is None:
                    return False
                have, want = parse_int64(value), parse_int64(self.values[0])
                if have is None or want is None:
                    return False
                return have > want if self.operator == "Gt" else have < want


@dataclass(frozen=True)
class Selector:
    """A conjunction of requirements; without any it matches everything, unless it is ``NOTHING``."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Report whether this is ``{}``, which matches everything."""
        return not self.requirements and not self.matches_nothing

    @cached_property
    def exact(self) -> tuple[tuple[str, str], ...]:
        """The (key, value) pairs that every matching object must have, which narrow a search."""
        return tuple((r.key, r.values[0]) for r in self.requirements if r.operator == "In" and len(r.values) == 1)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.matches_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def with_requirements(self, *more: Requirement) -> Selector:
        if self.matches_nothing:
            return self
        return Selector(_sorted((*self.requirements, *more)))


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


def _sorted(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values)))


def requirement(key: str, operator: str, values: list[str] | tuple[str, ...], *, node: bool = False) -> Requirement:
    """Build one requirement, rejecting what the API would reject; ``node`` also allows Gt and Lt."""
    allowed = OPERATORS if node else OPERATORS[:4]
    if operator not in allowed:
        raise ParseError(f'"{operator}" is not a valid label selector operator; use one of {", ".join(allowed)}')
    if operator in ("In", "NotIn") and not values:
        raise ParseError(f'{key}: values: Invalid value: []: for "in", "notin" operators, values set can\'t be empty')
    if operator in ("Exists", "DoesNotExist") and values:
        raise ParseError(f"{key}: values: Invalid value: values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            raise ParseError(f"{key}: values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required")
        if parse_int64(values[0]) is None:
            raise ParseError(f"{key}: values: Invalid value: for 'Gt', 'Lt' operators, the value must be an integer")
    for value in values:  # a negative number is no label value: upstream also rejects it for Gt and Lt
        if not LABEL_VALUE.fullmatch(value):
            raise ParseError(f'{key}: values: Invalid value: "{value}": a label value is expected')
    return Requirement(key, operator, tuple(sorted(set(values))))


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a wire selector; an unknown operator raises ParseError."""
    if selector is None:
        return NOTHING
    exact = tuple(Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    more = tuple(requirement(r.key, r.operator, r.values) for r in selector.match_expressions)
    if not exact and not more:
        return EVERYTHING
    return Selector(_sorted(exact + more))


def compile_set(labels: Mapping[str, str]) -> Selector:
    """Compile a plain label set (a Service's selector) where all must be equal."""
    return Selector(_sorted(tuple(Requirement(key, "In", (value,)) for key, value in labels.items())))


# ---- taints and tolerations ----------------------------------------------------------------------------------------

UNSCHEDULABLE = Taint(key=well_known.UNSCHEDULABLE, effect="NoSchedule")


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Report whether one toleration covers one taint.

    An empty key with operator Equal matches any key with that value, as upstream. ``Lt`` and ``Gt`` count only with the
    alpha gate TaintTolerationComparisonOperators.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            have, want = parse_int64(taint.value), parse_int64(toleration.value)
            if have is None or want is None:
                return False
            return have < want if toleration.operator == "Lt" else have > want
        case _:
            return False


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparison_operators: bool = False) -> bool:
    return any(tolerates(each, taint, comparison_operators=comparison_operators) for each in tolerations)


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: tuple[str, ...] = ("NoSchedule", "NoExecute"),
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration matches."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations, comparison_operators=comparison_operators):
            return taint
    return None
