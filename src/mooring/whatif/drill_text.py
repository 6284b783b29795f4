"""How a drill looks in print."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.text_tables import print_table, printed
from mooring.whatif.drill import Drill
from mooring.whatif.losing import Loss

TOP = 10
MAX_NAMES = 6


def draw(to: Console, found: Drill, top: int = TOP) -> None:
    """Print the verdict, the losses with the worst first, and what the worst one does."""
    colour = "green" if found.is_safe else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    to.print()
    print_table(
        to,
        ["LOST", "PODS", "UNPLACED", "LOST VOLUMES", "BROKEN BUDGETS", "PREEMPTED", "USE OF THE REST"],
        [_row(loss) for loss in found.losses[:top]],
    )
    if len(found.losses) > top:
        to.print(f"… and {len(found.losses) - top} more (--top N shows N)")
    worst = found.losses[0]
    if not worst.is_harmless or worst.preempted:
        _draw_worst(to, worst)


def text(found: Drill) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Drill) -> str:
    """One line: whether everything that was tried can be lost."""
    harmful, total = len(found.harmful), len(found.losses)
    if total == 1:
        return f"Losing {_lost(found.losses[0])} does {'harm' if harmful else 'no harm'}"
    key = found.lose.removeprefix("label=")
    one, many = (f"value of {key}", f"values of {key}") if key != found.lose else (key, f"{key}s")
    if found.n == 2:
        one, many = f"pair of {many}", f"pairs of {many}"
    if not harmful:
        return f"Safe: any {one} can be lost ({total} were tried)"
    return f"Not safe: losing {harmful} of {total} {many} does harm"


def _row(loss: Loss) -> list[str | Text]:
    use = ", ".join(f"{resource} {percent:g}%" for resource, percent in loss.use.items())
    numbers = (
        len(loss.unplaced),
        len(loss.lost_volumes),
        len(loss.broken_budgets),
        len(loss.preempted),
    )
    return [Text(_lost(loss)), str(loss.pods), *(str(number) for number in numbers), use]


def _lost(loss: Loss) -> str:
    return " and ".join(loss.lost)


def _draw_worst(to: Console, loss: Loss) -> None:
    to.print()
    to.print(f"[bold]Without {escape(_lost(loss))}[/bold]")
    by_message: dict[str, list[str]] = {}
    for pod, message in loss.unplaced.items():
        by_message.setdefault(message, []).append(pod)
    for message, pods in by_message.items():
        to.print(f"  no place for {escape(_names(pods))}:")
        to.print(f"    {escape(message)}")
    for what, names in (
        ("volumes lost, because no other node can reach them", loss.lost_volumes),
        ("budgets broken until pods run again", loss.broken_budgets),
        ("preempted", [f"{pod} (for {whom})" for pod, whom in loss.preempted.items()]),
        ("without a controller, so somebody has to make them anew", loss.bare_pods),
        ("gone with their nodes, as DaemonSets' and static pods are", loss.node_pods),
    ):
        if names:
            to.print(f"  {what}: {escape(_names(names))}")


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
