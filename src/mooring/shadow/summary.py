"""The verdicts in figures. What is kept does not grow: counts, and the first differences of each kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mooring.shadow.verdict import AGREE, SAMPLING, Agreement, Moment, Verdict

MAX_KEPT = 100  # differences of each kind, and agreements that needed the window
BINDINGS = (Agreement.SAME, Agreement.EQUALLY_GOOD, Agreement.OTHER_NODE, Agreement.REFUSED_HERE)
REFUSALS = (Agreement.SAME_WORDS, Agreement.EQUAL_ROOM, Agreement.OTHER_WORDS, Agreement.PLACED_HERE)


class Summary:
    """Counts verdicts, and what could not be compared."""

    def __init__(self) -> None:
        self.agreements: Counter[Agreement] = Counter()
        self.moments: Counter[Moment] = Counter()  # of those that agree
        self.causes: Counter[str] = (
            Counter()
        )  # of differences: sampling, extender, configuration, or none that is known
        self.plugins: Counter[str] = Counter()  # that tipped them
        self.left_out: Counter[str] = Counter()  # reason -> decisions that were not compared
        self.passed_over: Counter[str] = Counter()  # scheduler name -> decisions
        self.kept: dict[Agreement, list[Verdict]] = {}  # differences
        self.raced: list[Verdict] = []  # agreements that were not found at once
        self.unheard_s = 0.0  # for so long the cluster was out of reach

    def count(self, verdict: Verdict) -> None:
        self.agreements[verdict.agreement] += 1
        if verdict.agrees:
            self.moments[verdict.moment] += 1
            kept = self.raced if verdict.moment is not Moment.EXACT else None
        else:
            self.causes[verdict.cause] += 1
            self.plugins[verdict.plugin] += 1
            kept = self.kept.setdefault(verdict.agreement, [])
        if kept is not None and len(kept) < MAX_KEPT:
            kept.append(verdict)

    def leave_out(self, reason: str, decisions: int = 1) -> None:
        self.left_out[reason] += decisions

    def pass_over(self, scheduler_name: str) -> None:
        """A scheduler that nobody asked about has decided."""
        if scheduler_name in self.passed_over or len(self.passed_over) < MAX_KEPT:
            self.passed_over[scheduler_name] += 1

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def decisions(self) -> int:
        """How many were compared."""
        return self.agreements.total()

    @property
    def agreeing(self) -> int:
        return sum(self.agreements[agreement] for agreement in AGREE)

    @property
    def unexplained(self) -> int:
        """Differences for which no cause is known."""
        return self.causes[""]

    @property
    def differing(self) -> int:
        """Differences that are the scheduler's own: not those of a sample."""
        return self.causes.total() - self.causes[SAMPLING]

    @property
    def differences(self) -> list[Verdict]:
        """Those that were kept, those without a known cause first."""
        found = [verdict for kept in self.kept.values() for verdict in kept]
        return sorted(found, key=lambda verdict: (verdict.is_explained, verdict.happened.time))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        differing = self.decisions - self.agreeing
        return {
            "decisions": self.decisions,
            "agreeing": self.agreeing,
            "explained": self.decisions - self.unexplained,
            "bindings": {agreement.value: self.agreements[agreement] for agreement in BINDINGS},
            "refusals": {agreement.value: self.agreements[agreement] for agreement in REFUSALS},
            "moments": {moment.value: self.moments[moment] for moment in Moment},
            "causes": {cause or "unknown": count for cause, count in sorted(self.causes.items())},
            "tipped": {plugin: count for plugin, count in sorted(self.plugins.items()) if plugin},
            "unheardSeconds": round(self.unheard_s, 3),
            "notCompared": dict(sorted(self.left_out.items())),
            "otherSchedulers": dict(sorted(self.passed_over.items())),
            "differences": [verdict.to_dict() for verdict in self.differences],
            "differencesNotShown": differing - sum(map(len, self.kept.values())),
            "races": [verdict.to_dict() for verdict in self.raced],
        }
