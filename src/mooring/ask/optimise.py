"""A better placement, and the moves that lead to it: the answer, and how it is printed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Unpack

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of, first_of
from mooring.ask.moves import BIND, EVICT, Step, movable_pods
from mooring.ask.placement_options import (
    COST,
    FRAGMENTATION,
    NODES,
    SPREAD,
    TIME_LIMIT_S,
    PlacementGoal,
    PlacementMeasures,
    PlacementOptions,
    in_use,
)
from mooring.ask.placement_search import PlacementSearch, Progress
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import in_queue_order, waiting_pods
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference
from mooring.core.state.cluster import group_of


@dataclass(slots=True)
class Optimisation:
    """Steps to a better placement. Printed, it reads as ``mooring optimise`` shows it."""

    objective: str
    before: PlacementMeasures
    after: PlacementMeasures
    steps: list[Step] = field(default_factory=list)
    bound: float | None = None  # no placement has fewer nodes, a lower cost or peak, or more room
    is_optimal: bool = False
    weight_bound: float | None = None  # no placement has pods of a larger weight, where pods count by their requests
    unplaced: dict[str, str] = field(default_factory=dict)  # pods that still wait, and why
    evicted: list[str] = field(default_factory=list)  # pods that lose their place to more important ones
    stay: dict[str, str] = field(default_factory=dict)  # pods that cannot be moved, and why
    free_nodes: list[str] = field(default_factory=list)  # nodes that no pod uses any more
    notes: list[str] = field(default_factory=list)

    @property
    def is_better(self) -> bool:
        """Report whether there is something to do."""
        return bool(self.steps)

    @property
    def moves(self) -> list[tuple[str, str, str]]:
        """Pod, old node (empty for one that waited) and new node, in the order of the binds."""
        source = {step.pod: step.node for step in self.steps if step.action == EVICT}
        return [(step.pod, source.get(step.pod, ""), step.node) for step in self.steps if step.action == BIND]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "objective": self.objective,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "steps": [{"action": step.action, "pod": step.pod, "node": step.node} for step in self.steps],
            "bound": self.bound,
            "isOptimal": self.is_optimal,
            "weightBound": self.weight_bound,
            "unplaced": [{"pod": pod, "message": message} for pod, message in self.unplaced.items()],
            "evicted": self.evicted,
            "stay": self.stay,
            "freeNodes": self.free_nodes,
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def optimise(
    cluster: Cluster,
    objective: str = NODES,
    *,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
    **options: Unpack[PlacementOptions],
) -> Optimisation:
    """Find a better placement and the steps to it. The cluster stays as it is.

    ``objective`` is what counts after the number of placed pods: "nodes", "cost" (by ``prices``), "spread",
    "fragmentation", or "pending" for nothing else. ``PlacementOptions`` has what else can be said.
    """
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return optimise_with(scheduler, objective, **options)


def optimise_with(
    scheduler: Scheduler,
    objective: str = NODES,
    *,
    progress: Progress = lambda text, done, total: None,
    **options: Unpack[PlacementOptions],
) -> Optimisation:
    """The same, asked of a scheduler and its cluster. Ctrl-C ends the search with the best plan so far."""
    session = scheduler.session.fork()
    goal = PlacementGoal.of(objective, scheduler, session, options)
    pending = in_queue_order(session, waiting_pods(scheduler.cluster, session))
    waiting = [pod for pod in pending if not group_of(pod.pod)]  # a group is placed as a whole, or not at all
    movable, stay = movable_pods(
        session, delete_emptydir_data=options.get("delete_emptydir_data", False), force=options.get("force", False)
    )
    search = PlacementSearch(session, goal, options, progress)
    best = search.run(movable, waiting, time.monotonic() + options.get("time_limit_s", TIME_LIMIT_S))
    bound_now = {step.pod for step in best.steps if step.action == BIND}
    found = Optimisation(
        objective,
        goal.measures(session, waiting),
        best.measures,
        best.steps,
        bound=search.bound,
        is_optimal=search.is_optimal,
        weight_bound=search.weight_bound,
        unplaced={
            pod.pod.key: best.session.decide(pod, detail=False).message
            for pod in waiting
            if pod.pod.key not in bound_now
        },
        evicted=[step.pod for step in best.steps if step.action == EVICT and step.pod not in bound_now],
        stay=stay,
        free_nodes=sorted(set(in_use(session)) - set(in_use(best.session))),
        notes=list(dict.fromkeys(search.notes)),
    )
    if len(waiting) < len(pending):
        left_out = count_of(len(pending) - len(waiting), "pending pod")
        found.notes.append(f"{left_out} of pod groups left out: a group is placed as a whole")
    return found


# ---- how it looks in print ------------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Optimisation, top: int = TOP) -> None:
    """Print what gets better, how good that is, and the steps in their order."""
    colour = "green" if found.is_better else "yellow"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    to.print(escape(_how_good(found)))
    to.print()
    rows = [
        ("pods placed", str(sum(found.before.placed.values())), str(sum(found.after.placed.values()))),
        ("pods pending", str(found.before.pending), str(found.after.pending)),
        ("nodes in use", str(found.before.nodes), str(found.after.nodes)),
        ("fullest node", f"{found.before.peak:g}%", f"{found.after.peak:g}%"),
    ]
    if found.objective == COST:
        rows.insert(3, ("cost", f"{found.before.cost:g}", f"{found.after.cost:g}"))
    if found.objective == FRAGMENTATION:
        rows.append(("room for the largest pod", str(found.before.room), str(found.after.room)))
    if found.before.weight is not None and found.after.weight is not None:
        weights = (sum(found.before.weight.values()), sum(found.after.weight.values()))
        rows.insert(1, ("what they request", str(weights[0]), str(weights[1])))
    print_table(to, ["", "NOW", "THEN"], rows)
    if found.steps:
        to.print()
        shown = [
            (str(i), "move" if source else "place", Text(pod), source or "-", target)
            for i, (pod, source, target) in enumerate(found.moves[:top], 1)
        ]
        print_table(to, ["STEP", "DO", "POD", "FROM", "TO"], shown)
        print_more(to, len(found.moves), top, "-o json has them all")
    if found.evicted:
        to.print()
        to.print(f"{count_of(len(found.evicted), 'pod')} would lose their place: {escape(first_of(found.evicted))}")
    if found.free_nodes:
        to.print()
        to.print(f"{count_of(len(found.free_nodes), 'node')} would be free: {escape(first_of(found.free_nodes))}")
    if found.unplaced:
        to.print()
        by_message: dict[str, list[str]] = {}
        for pod, message in found.unplaced.items():
            by_message.setdefault(message, []).append(pod)
        to.print("Still pending:")
        for message, pods in list(by_message.items())[:top]:
            to.print(f"  {escape(first_of(pods))}")
            to.print(f"    {escape(message)}")
    notes = list(found.notes)
    if found.stay:
        reason = next(iter(found.stay.values()))
        notes.append(f"{count_of(len(found.stay), 'pod')} cannot be moved; for example, {reason}")
    print_notes(to, notes)


def text(found: Optimisation) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Optimisation) -> str:
    """One line: what the plan achieves."""
    if not found.is_better:
        return "No better placement was found"
    parts = []
    placed = sum(found.after.placed.values()) - sum(found.before.placed.values())
    if placed:
        parts.append(f"places {count_of(placed, 'more pod')}")
    if found.objective == COST and found.after.cost < found.before.cost:
        parts.append(f"saves {found.before.cost - found.after.cost:g} of {found.before.cost:g}")
    elif found.objective == SPREAD and found.after.peak < found.before.peak:
        parts.append(f"lowers the fullest node from {found.before.peak:g}% to {found.after.peak:g}%")
    elif found.objective == FRAGMENTATION and (found.after.room or 0) > (found.before.room or 0):
        parts.append(f"makes room for {count_of((found.after.room or 0) - (found.before.room or 0), 'more large pod')}")
    elif found.objective in (NODES, COST) and found.after.nodes < found.before.nodes:
        parts.append(f"frees {found.before.nodes - found.after.nodes} of {count_of(found.before.nodes, 'node')}")
    moved = sum(1 for _, source, _ in found.moves if source)
    moves = f"with {count_of(moved, 'move')}" if moved else "without a move"
    return f"A better placement {' and '.join(parts) or 'exists'}, {moves}"


def _how_good(found: Optimisation) -> str:
    if not found.is_better:
        return "None exists." if found.is_optimal else "The search ended before it was proved that none exists."
    if found.is_optimal:
        return "It was replayed step by step through every filter. No placement is better."
    reached = {NODES: float(found.after.nodes), COST: found.after.cost, SPREAD: found.after.peak}.get(found.objective)
    if found.bound is not None and found.objective == FRAGMENTATION:
        return (
            f"It was replayed step by step through every filter. No placement has room for more than {found.bound:g}."
        )
    if found.bound is None or reached is None:
        return "It was replayed step by step through every filter. A better one may exist."
    return f"It was replayed step by step through every filter. No placement reaches less than {found.bound:g}."
