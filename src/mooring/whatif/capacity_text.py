"""How the answer to a question about capacity looks in print."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.wording import count_of
from mooring.text_tables import print_table, printed
from mooring.whatif.capacity import Capacity

MAX_NODES = 10


def draw(to: Console, found: Capacity, top: int = MAX_NODES) -> None:
    """Print what was asked, how many fit, where, and what stops the next one."""
    colour = "green" if found.is_enough else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.stopped_by is not None:
        which = f" ({found.stopped_pod})" if found.stopped_pod else ""
        to.print(f"The next one{escape(which)} is stopped by:")
        to.print(f"  {escape(found.stopped_by)}")
    if found.nodes:
        to.print()
        _draw_nodes(to, found, top)
    if found.reasons:
        to.print()
        rows = [(str(count), Text(reason)) for reason, count in found.reasons.items()]
        print_table(to, ["NODES", "REFUSE THE NEXT ONE BECAUSE"], rows)
    if found.preempted:
        to.print()
        to.print(f"{count_of(len(found.preempted), 'pod')} would be preempted: {escape(_names(found.preempted))}")
    if found.one_more_node:
        to.print()
        kinds = [(str(each.fits), Text(each.kind), str(each.nodes), each.like) for each in found.one_more_node]
        print_table(to, ["MORE", "WITH ONE MORE NODE OF", "NODES", "SUCH AS"], kinds)
    for i, note in enumerate(found.notes):
        if not i:
            to.print()
        to.print(f"Note: {escape(note)}")


def text(found: Capacity) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Capacity) -> str:
    """One line: how many fit."""
    number = f"{found.fits} more" if found.copies is None else f"{found.fits} of {found.copies}"
    pods = " and ".join(pod if share == 1 else f"{share} {pod}" for pod, share in found.asked.items())
    what = pods if list(found.asked.values()) == [1] else f"sets of {pods}"
    where = f", on {count_of(len(found.nodes), 'node')}" if found.nodes else ""
    return f"{number} {what} {'fits' if found.fits == 1 else 'fit'}{where}"


def _draw_nodes(to: Console, found: Capacity, top: int) -> None:
    """Nodes that get the same number stand in one line."""
    by_number: dict[int, list[str]] = {}
    for node, number in found.nodes.items():
        by_number.setdefault(number, []).append(node)
    rows = [
        (str(number), str(len(nodes)), _names(nodes)) for number, nodes in sorted(by_number.items(), reverse=True)[:top]
    ]
    print_table(to, ["PODS EACH", "NODES", "WHICH"], rows)
    if len(by_number) > top:
        to.print(f"… and {len(by_number) - top} more (-o json has them all)")


def _names(names: list[str], limit: int = 6) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
