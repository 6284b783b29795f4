"""What a scheduler did with a pod, what is decided about it here, and how the two agree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from mooring.api.core import Pod
from mooring.compare.cause import tipped, total_of
from mooring.compare.sides import is_as_good
from mooring.engine.decision import Decision, Outcome


class Agreement(Enum):
    """How a decision here agrees with what happened."""

    SAME = "same"  # the same node
    EQUALLY_GOOD = "equallyGood"  # another node with the same total
    OTHER_NODE = "otherNode"
    REFUSED_HERE = "refusedHere"  # it was bound, and no node would take it here
    SAME_WORDS = "sameWords"  # refused in the same words, and nominated alike
    EQUAL_ROOM = "equalRoom"  # the same, but room is made on another node that is equally good
    OTHER_WORDS = "otherWords"
    PLACED_HERE = "placedHere"  # it was refused, and a node would take it here


AGREE = frozenset((Agreement.SAME, Agreement.EQUALLY_GOOD, Agreement.SAME_WORDS, Agreement.EQUAL_ROOM))


# Causes of a difference. The search for a moment is not one: where it finds one, both agree.
RACE = "race"  # both agree, but not in the state right before the outcome was seen
SAMPLING = "sampling"  # kube-scheduler stops looking when it has found enough nodes, and a sample gives its node
EXTENDER = "extender"  # the scheduler asks an extender about this pod, which is not asked here
CONFIGURATION = "configuration"  # the cluster's own configuration explains what happened, the one compared differs


class Moment(Enum):
    """Which state a decision was made from: what has been seen is not always what the other scheduler saw."""

    EXACT = "exact"  # right before the outcome was seen
    EARLIER = "earlier"  # before some changes that had been seen by then
    REORDERED = "reordered"  # with pods on nodes that were seen there later or never, or without some seen earlier
    LATER = "later"  # after changes of nodes and other objects that were seen only later


@dataclass(frozen=True, slots=True)
class Happened:
    """What a scheduler did. The pod is the version that it decided about."""

    time: float  # when it was seen
    since: float  # when the pod was seen to wait as it is; it cannot have been decided about before
    pod: Pod
    node: str = ""  # where it was bound to; empty: it was refused
    message: str = ""  # why it was refused
    nominated: str = ""  # where room is made for it
    version: int = 0  # of the pod with this outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """One decision of theirs beside ours."""

    happened: Happened
    agreement: Agreement
    moment: Moment = Moment.EXACT
    assumed: tuple[str, ...] = ()  # what is assumed to have been known, or not to have been known, then
    known_cause: str = ""  # of a difference
    node: str = ""  # ours
    message: str = ""
    nominated: str = ""
    totals: tuple[int | None, int | None] = (None, None)  # of their node and of ours, both as scored here
    plugin: str = ""  # that tipped it
    because: str = ""

    @property
    def agrees(self) -> bool:
        return self.agreement in AGREE

    @property
    def cause(self) -> str:
        """The name of what makes the difference; empty where there is none."""
        if self.agrees:
            return "" if self.moment is Moment.EXACT else RACE
        return self.known_cause

    @property
    def is_explained(self) -> bool:
        """Whether both agree, or differ for a cause that is known."""
        return self.agrees or bool(self.cause)

    def to_dict(self) -> dict[str, Any]:
        happened = self.happened
        return {
            "pod": happened.pod.key,
            "schedulerName": happened.pod.spec.scheduler_name,
            "time": happened.time,
            "agreement": self.agreement.value,
            "there": _outcome(happened.node, happened.message, happened.nominated),
            "here": _outcome(self.node, self.message, self.nominated),
            "totals": {"there": self.totals[0], "here": self.totals[1]},
            "cause": self.cause or None,
            "plugin": self.plugin or None,
            "because": self.because,
            "moment": self.moment.value,
            "assumed": list(self.assumed),
        }


def _outcome(node: str, message: str, nominated: str) -> dict[str, str | None]:
    return {"node": node or None, "message": message, "nominatedNode": nominated or None}


def agreement_of(decision: Decision, happened: Happened) -> Agreement:
    """Compare a decision with what happened."""
    if happened.node:
        if decision.node == happened.node:
            return Agreement.SAME
        if decision.node is None:
            return Agreement.REFUSED_HERE
        return Agreement.EQUALLY_GOOD if is_as_good(decision, happened.node) else Agreement.OTHER_NODE
    if decision.node is not None:
        return Agreement.PLACED_HERE
    is_alike = decision.message == happened.message and nomination(decision) == happened.nominated
    return Agreement.SAME_WORDS if is_alike else Agreement.OTHER_WORDS


def nomination(decision: Decision) -> str:
    """The node that the pod is nominated to after the decision."""
    if decision.nominated_node is None:
        return decision.pod.pod.status.nominated_node_name
    return decision.nominated_node


def verdict_of(
    decision: Decision,
    agreement: Agreement,
    happened: Happened,
    moment: Moment = Moment.EXACT,
    assumed: tuple[str, ...] = (),
    known_cause: str = "",
) -> Verdict:
    """Everything that is to be said, while the columns are still those of the decision."""
    node, words = decision.node or "", "" if decision.node else decision.message
    plugin = because = ""
    totals: tuple[int | None, int | None] = (None, None)
    if happened.node:
        totals = total_of(decision, happened.node), total_of(decision, node) if node else None
        if agreement is not Agreement.SAME and agreement is not Agreement.EQUALLY_GOOD:
            cause = tipped(decision, happened.node)
            plugin, because = cause.plugin, cause.text
    elif agreement is Agreement.OTHER_WORDS:
        if decision.outcome is Outcome.ERROR:
            because = "an error here"
        elif decision.message == happened.message:
            because = f"nominated to {happened.nominated or 'no node'} there, to {nomination(decision) or 'none'} here"
            plugin = decision.post_filter_plugin
    elif agreement is Agreement.PLACED_HERE:
        because = f"{decision.feasible_nodes} of {decision.num_nodes} nodes can take it here"
    nominated = "" if node else nomination(decision)
    return Verdict(
        happened,
        agreement,
        moment,
        assumed,
        known_cause,
        node,
        words,
        nominated,
        totals,
        plugin,
        because,
    )
