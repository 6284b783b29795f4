"""How the explanation of a pod group looks on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.explanation.group import GroupExplanation
from mooring.text_tables import print_table

MAX_PODS = 20


def draw_group(to: Console, found: GroupExplanation, *, suggestions: int = 8) -> None:
    """Print the decision for a person: one sentence, then the pods, then what would help."""
    to.print(f"[{'green' if found.is_scheduled else 'red'}]{escape(found.headline)}[/]")
    if found.message:
        to.print(escape(found.message))
    if found.decided is None:
        return
    to.print()
    rows = [
        (Text(pod.key), Text(found.nodes.get(pod.key, "-")), Text(found.refusals.get(pod.key, "")))
        for pod in found.pods[:MAX_PODS]
    ]
    print_table(to, ["POD", "NODE" if found.is_scheduled else "WOULD FIT ON", "WHY NOT"], rows)
    if len(found.pods) > MAX_PODS:
        to.print(f"… and {len(found.pods) - MAX_PODS} more (-o json has all)")
    if found.decided.victims:
        to.print()
        to.print("Room can be made for the group by evicting:")
        for victim in found.decided.victims:
            to.print(f"  {escape(victim.pod.key)} (priority {victim.priority})")
    for note in found.rest.notes if found.rest is not None else ():
        to.print(f"Note: {escape(note)}")
    if found.suggestions:
        to.print()
        to.print("[bold]What would help the next pod[/bold], the smallest change first; each was tried:")
        for suggestion in found.suggestions[:suggestions]:
            to.print(f"  [green]{escape(suggestion.text)}[/green]")
