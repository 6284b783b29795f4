"""Plans: which nodes to add so that pods fit, and which can be emptied and removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.tables import print_table, printed
from mooring.api.text import count_of
from mooring.ask.adding import Adding, Plan
from mooring.ask.removing import Progress, Removal, Removing
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import Daemons, Wanted, pods_of, read_types, types_of_cluster, waiting_pods
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference

Types = str | Path | Mapping[str, Any] | None
"""The path of a file with types of nodes, or the same as a dict; None: the kinds of nodes that the cluster has."""


def plan(
    cluster: Cluster,
    types: Types = None,
    pods: Mapping[str, int | None] | Iterable[str] = (),
    *,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Plan:
    """Find the cheapest nodes to add so that all pods that wait fit; or these ``pods``, with their numbers of copies.

    The cluster stays as it is. The plan is proved: all pods were placed with it, one after another.
    """
    return plan_with(Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version), types, pods)


def plan_with(scheduler: Scheduler, types: Types = None, pods: Mapping[str, int | None] | Iterable[str] = ()) -> Plan:
    """The same, asked of a scheduler and its cluster."""
    session = scheduler.session.fork()
    variants = types_of_cluster(session.state) if types is None else read_types(types, session.state)
    asked = pods if isinstance(pods, Mapping) else dict.fromkeys(pods)
    wanted = pods_of(asked, scheduler, session) if asked else Wanted(waiting_pods(scheduler.cluster, session))
    daemons = Daemons(session.state, wanted.daemons)
    for pod in [pod for node in scheduler.cluster.nodes for pod in Daemons(Cluster().state, wanted.daemons).on(node)]:
        session.state.set_pod(pod)  # they come to the old nodes, too
    found = Adding(session, wanted.pods, variants, daemons).plan()
    if types is None and found.nodes:
        found.notes.append("without types, one more node of any kind that the cluster has costs 1")
    return found


def plan_removal(
    cluster: Cluster,
    *,
    delete_emptydir_data: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Removal:
    """Find nodes that can be emptied and removed, and the moves that empty them. The cluster stays as it is."""
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return removal_with(scheduler, delete_emptydir_data=delete_emptydir_data)


def removal_with(
    scheduler: Scheduler, *, delete_emptydir_data: bool = False, progress: Progress = lambda done, total: None
) -> Removal:
    """The same, asked of a scheduler and its cluster."""
    return Removing(scheduler.session.fork(), delete_emptydir_data=delete_emptydir_data, progress=progress).plan()


# --------------------------------------------------------------------------------------------------------------------
# How plans look in print.

TOP = 20


def draw(to: Console, found: Plan, top: int = TOP) -> None:
    """Print the nodes to add, what they cost, how good that is, and which pods have no place."""
    colour = "green" if found.is_complete else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.nodes:
        to.print(_how_good(found))
        to.print()
        rows = [
            (str(each.count), Text(each.type), each.zone or "-", f"{each.price:g}", f"{each.price * each.count:g}")
            for each in found.nodes
        ]
        print_table(to, ["NODES", "TYPE", "ZONE", "PRICE", "SUM"], rows)
    if found.unplaced:
        to.print()
        by_message: dict[str, list[str]] = {}
        for pod, message in found.unplaced.items():
            by_message.setdefault(message, []).append(pod)
        to.print("No node that can be added makes room for:")
        for message, pods in list(by_message.items())[:top]:
            to.print(f"  {escape(_names(pods))}")
            to.print(f"    {escape(message)}")
    for i, note in enumerate(found.notes):
        if not i:
            to.print()
        to.print(f"Note: {escape(note)}")


def text(found: Plan) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Plan) -> str:
    """One line: what to add."""
    pods = count_of(found.pods, "pod")
    if not found.pods:
        return "No pods need a place"
    if found.is_complete and not found.nodes:
        return f"No node is needed: there is room for {pods}"
    new = count_of(sum(each.count for each in found.nodes), "node")
    if found.is_complete:
        return f"Add {new} for {found.cost:g}: then there is room for {pods}"
    lacking = f"{len(found.unplaced)} of {pods} have no place"
    return f"Add {new} for {found.cost:g}: {lacking} even then" if found.nodes else f"{lacking}, and no new node helps"


def _how_good(found: Plan) -> str:
    if not found.is_complete:
        return "All other pods were placed on a copy of the cluster with these nodes."
    proof = "All pods were placed on a copy of the cluster with these nodes."
    if found.is_cheapest:
        return f"{proof} No plan is cheaper."
    if not found.lower_bound:
        return proof
    share = 100 * (1 - found.lower_bound / found.cost)
    return f"{proof} No plan costs less than {found.lower_bound:g}: at most {share:.0f}% could be saved."


def draw_removal(to: Console, found: Removal, top: int = TOP) -> None:
    """Print the nodes to remove, the moves in their order, and why the others stay."""
    colour = "green" if found.nodes else "yellow"
    to.print(f"[{colour}]{escape(removal_headline(found))}[/{colour}]")
    if found.nodes:
        to.print(f"In this order, all of them cordoned first: {escape(_names(found.nodes, top))}")
    if found.moves:
        to.print()
        rows = [(str(i), Text(move.pod), move.source, move.target) for i, move in enumerate(found.moves[:top], 1)]
        print_table(to, ["MOVE", "POD", "FROM", "TO"], rows)
        if len(found.moves) > top:
            to.print(f"… and {len(found.moves) - top} more (--top N shows N)")
    if found.kept:
        to.print()
        kept = [(name, Text(why)) for name, why in list(found.kept.items())[:top]]
        print_table(to, ["STAYS", "BECAUSE"], kept)
        if len(found.kept) > top:
            to.print(f"… and {len(found.kept) - top} more (--top N shows N)")


def removal_text(found: Removal) -> str:
    """The same without colours."""
    return printed(lambda to: draw_removal(to, found))


def removal_headline(found: Removal) -> str:
    """One line: how many nodes can go."""
    if not found.nodes:
        return "No node can be removed"
    most = "No plan removes more" if len(found.nodes) == found.at_most else f"No plan removes more than {found.at_most}"
    moves = f"with {count_of(len(found.moves), 'move')}" if found.moves else "without a move"
    return f"{count_of(len(found.nodes), 'node')} can be removed {moves}. {most}."


def _names(names: list[str], limit: int = 6) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
