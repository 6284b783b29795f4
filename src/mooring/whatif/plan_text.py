"""How plans look in print."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.wording import count_of
from mooring.text_tables import print_table, printed
from mooring.whatif.adding import Plan
from mooring.whatif.removing import Removal

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
