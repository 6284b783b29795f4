"""How a tuning looks on a terminal, and as text."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.wording import count_of
from mooring.text_tables import print_table
from mooring.tuning.points import Point, Tuning

_UNBOUNDED = 1_000_000  # text is not wrapped


def draw(to: Console, found: Tuning) -> None:
    """Print the best points beside the default, in the search and on the hold-out part, and which one is chosen."""
    goals = ", ".join(map(str, found.objectives))
    failed = f", {len(found.failed)} of them impossible" if found.failed else ""
    tried = len(found.points) + len(found.failed)
    to.print(f"{count_of(tried, 'configuration')} tried on {escape(found.story)} for {escape(goals)}{failed}.")
    to.print()
    names = [each.name for each in found.objectives]
    held = any(point.held_out is not None for point in found.points)
    columns = ["POINT", *names, *(f"{name}, held out" for name in names if held), "CHANGES"]
    fixed = [point for point in found.points if not point.values and not point.is_best]
    print_table(to, columns, [_row(point, found, held) for point in (*fixed, *found.best)])
    to.print()
    to.print(_verdict(found))


def text(found: Tuning) -> str:
    """The same without colours."""
    page = StringIO()
    draw(Console(file=page, width=_UNBOUNDED, highlight=False, soft_wrap=True, emoji=False), found)
    return page.getvalue().rstrip()


def _row(point: Point, found: Tuning, held: bool) -> list[str | Text]:
    cells: list[str | Text] = [Text(point.name, style="bold green" if point is found.chosen else "")]
    cells += [f"{value:.6g}" for value in point.found]
    if held:
        cells += [f"{value:.6g}" for value in point.held_out or ()] or ["-"] * len(found.objectives)
    cells.append(", ".join(f"{_short(name)} {value}" for name, value in point.values.items()) or "none")
    return cells


def _short(name: str) -> str:
    """``weights.NodeResourcesFit`` as the plugin's name, arguments with theirs."""
    return name.partition(".")[2] or name


def _verdict(found: Tuning) -> str:
    told = ""
    if found.default.lacks:
        lacking = ", ".join(found.default.lacks)
        told = f"The default is shown for comparison only: it lacks {escape(lacking)}.\n"
    old, new = found.reference.name, found.chosen.name
    if found.chosen is found.reference:
        return f"{told}No point is better than {old}."
    told += f"[green]{escape(new)} is chosen[/green]: of the best points it is nearest to all objectives"
    if found:
        return f"{told}; it is better than {old}."
    return f"{told}. [red]On the hold-out part it is no better than {old}[/red]: do not use it."
