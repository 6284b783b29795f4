"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api import well_known
from mooring.api.core import Taint, Toleration
from mooring.api.selectors import parse_int64

UNSCHEDULABLE = Taint(key=well_known.UNSCHEDULABLE, effect="NoSchedule")


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Report whether one toleration covers one taint.

    An empty key with operator Equal covers any key whose value is equal: that is how upstream reads it.
    ``Lt`` and ``Gt`` count only behind the alpha gate TaintTolerationComparisonOperators.
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
    """Return the first taint with one of these effects that nothing tolerates."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations, comparison_operators=comparison_operators):
            return taint
    return None
