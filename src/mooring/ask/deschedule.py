"""The effect of a DeschedulerPolicy: what it would evict, and where each pod would be placed, cycle by cycle.

A cycle evicts pods on a fork of the cluster; their controllers create them again, and the scheduler places them in the
order of the queue. Then the next cycle begins. Where it never ends, descheduler and scheduler fight each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.errors import InputError, ParseError
from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of, first_of
from mooring.api.times import parse_time
from mooring.ask.copies import stays_with_node
from mooring.ask.descheduler_plugins import LEFT_OUT, PLUGINS, run_cycle
from mooring.ask.descheduler_policy import Policy, read_policy
from mooring.ask.drill import coming_back
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import in_queue_order
from mooring.core.cluster import Cluster
from mooring.core.explain.decision import DecisionTable
from mooring.core.session import Configuration, PluginReference, Session

PolicySource = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """A pod that is evicted, and the node of its replacement; without one, the reason."""

    cycle: int
    plugin: str
    pod: str
    source: str
    target: str | None
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "cycle": self.cycle,
            "plugin": self.plugin,
            "pod": self.pod,
            "from": self.source,
            "to": self.target,
            "message": self.message or None,
        }


@dataclass(slots=True)
class Descheduling:
    """All evictions of all cycles. Printed, it reads as ``mooring deschedule`` shows it."""

    cycles: int  # how many were run
    moves: list[Rescheduled] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)  # pods that a plugin would evict -> the budget that forbids it
    fights: dict[str, int] = field(default_factory=dict)  # pod -> how often it was evicted, if more than once
    is_settled: bool = True  # whether the last cycle evicted nothing
    nodes: tuple[int, int] = (0, 0)  # in use before and after
    notes: list[str] = field(default_factory=list)

    @property
    def unplaced(self) -> list[Rescheduled]:
        """Evictions whose pod found no node."""
        return [move for move in self.moves if move.target is None]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "cycles": self.cycles,
            "moves": [move.to_dict() for move in self.moves],
            "kept": self.kept,
            "fights": self.fights,
            "isSettled": self.is_settled,
            "nodesInUse": {"before": self.nodes[0], "after": self.nodes[1]},
            "notes": self.notes,
        }

    def table(self) -> DecisionTable:
        """Return a row per eviction."""
        columns = ("cycle", "plugin", "pod", "from", "to")
        return DecisionTable(columns, [(m.cycle, m.plugin, m.pod, m.source, m.target or "-") for m in self.moves])

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per eviction."""
        return self.table().to_pandas("pod")

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def deschedule(
    cluster: Cluster,
    policy: PolicySource,
    cycles: int = 1,
    *,
    now: str | None = None,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Descheduling:
    """Return what a DeschedulerPolicy would evict and where the pods would be placed. The cluster stays unchanged.

    ``policy`` is a file or a dict. At most ``cycles`` rounds are run; they end when one evicts nothing. ``now`` is the
    time to which ages refer.
    """
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return deschedule_with(scheduler, policy, cycles, now=now)


def deschedule_with(
    scheduler: Scheduler, policy: PolicySource, cycles: int = 1, *, now: str | None = None
) -> Descheduling:
    """Answer for a scheduler and its cluster."""
    if cycles < 1:
        raise InputError(f"cycles: {cycles}; expected 1 or more")
    rules = read_policy(policy, (*PLUGINS, *LEFT_OUT))
    session = scheduler.session.fork()
    found = Descheduling(0, nodes=(_in_use(session), 0))
    at = _time(now)
    names: Counter[str] = Counter()
    for cycle in range(1, cycles + 1):
        found.cycles = cycle
        moves = _cycle(session, rules, cycle, at, found)
        found.moves += moves
        names.update(move.pod for move in moves)
        found.is_settled = not moves
        if not moves:
            break
    found.fights = {pod: count for pod, count in names.items() if count > 1}
    found.nodes = (found.nodes[0], _in_use(session))
    return found


def _time(now: str | None) -> float:
    try:
        return time.time() if now is None else parse_time(now)
    except ParseError as error:
        raise InputError(f"now: {error}; expected a time such as 2026-06-01T12:00:00Z") from None


def _cycle(session: Session, policy: Policy, cycle: int, now: float, found: Descheduling) -> list[Rescheduled]:
    evicted, kept, left_out = run_cycle(session, policy, now)
    found.kept |= kept
    for name in dict.fromkeys(left_out):
        note = f"{name} is left out: it reads what containers did, which scheduling does not"
        if note not in found.notes:
            found.notes.append(note)
    coming = {}
    for each in evicted:
        new = coming_back(session.state, each.pod)
        coming[new.uid] = (each, new)
    moves = []
    for pod in in_queue_order(session, [new for _, new in coming.values()]):
        each = coming[pod.uid][0]
        decision = session.place(pod)
        message = "" if decision.node else decision.message
        moves.append(Rescheduled(cycle, each.plugin, each.pod.pod.key, each.node, decision.node, message))
    return moves


def _in_use(session: Session) -> int:
    infos = session.state.nodes().infos
    return sum(any(not stays_with_node(pod.pod) for pod in info.pods.values()) for info in infos)


# ---- rendering
# ----------------------------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Descheduling, top: int = TOP) -> None:
    """Print which plugin evicts which pods, where the pods are placed, and whether it ends."""
    colour = "yellow" if found.unplaced or found.fights else "green"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.moves:
        to.print()
        rows = [
            (str(move.cycle), move.plugin, Text(move.pod), move.source, move.target or "-")
            for move in found.moves[:top]
        ]
        print_table(to, ["CYCLE", "PLUGIN", "POD", "FROM", "TO"], rows)
        print_more(to, len(found.moves), top, "-o json has them all")
    if found.unplaced:
        to.print()
        to.print("No node for:")
        by_message: dict[str, list[str]] = {}
        for move in found.unplaced:
            by_message.setdefault(move.message, []).append(move.pod)
        for message, pods in list(by_message.items())[:top]:
            to.print(f"  {escape(first_of(pods))}")
            to.print(f"    {escape(message)}")
    if found.kept:
        to.print()
        print_table(to, ["KEPT", "BY THE BUDGET"], [(Text(pod), name) for pod, name in list(found.kept.items())[:top]])
        print_more(to, len(found.kept), top)
    print_notes(to, found.notes)


def text(found: Descheduling) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Descheduling) -> str:
    """Return one line: how many pods are evicted, where they are placed, and whether it ends."""
    if not found.moves:
        return "Nothing would be evicted"
    back = sum(move.source == move.target for move in found.moves)
    parts = [f"{count_of(len(found.moves), 'eviction')} in {count_of(found.cycles, 'cycle')}"]
    if found.unplaced:
        parts.append(f"{len(found.unplaced)} would find no node")
    if back:
        parts.append(f"{back} would come back to the same node")
    if found.fights:
        parts.append(f"{count_of(len(found.fights), 'pod')} would be evicted again and again")
    elif found.cycles > 1 and found.is_settled:
        parts.append("then nothing is left to do")
    return "; ".join(parts)
