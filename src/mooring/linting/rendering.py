"""How findings look on a terminal, and as text."""

from __future__ import annotations

from collections import Counter
from io import StringIO

from rich.console import Console
from rich.markup import escape

from mooring.api.wording import count_of
from mooring.linting.findings import Finding, Findings, Severity

_UNBOUNDED = 1_000_000  # text is not wrapped
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def draw(to: Console, found: Findings) -> None:
    """Print each finding with its place and its fix, and then how many there are."""
    for finding in found:
        _draw(to, finding)
    counts = Counter(finding.severity for finding in found)
    told = ", ".join(count_of(counts[severity], str(severity)) for severity in sorted(counts, reverse=True))
    looked = (
        f"{count_of(found.objects, 'object')} in {count_of(found.files, 'file')}, {count_of(len(found.rules), 'rule')}"
    )
    colour = "green" if not told else "red"
    to.print(f"[{colour}]{told or 'Nothing found'}[/{colour}]: {looked}.")
    if found.without_cluster:
        to.print(f"Not asked, for want of a cluster: {', '.join(found.without_cluster)}.")


def text(found: Findings) -> str:
    """The same without colours."""
    page = StringIO()
    draw(Console(file=page, width=_UNBOUNDED, highlight=False, soft_wrap=True, emoji=False), found)
    return page.getvalue().rstrip()


def _draw(to: Console, finding: Finding) -> None:
    colour = _COLOURS[finding.severity]
    to.print(
        f"[bold]{escape(finding.file)}:{finding.line}[/bold] [{colour}]{finding.severity}[/{colour}] {finding.rule}"
    )
    about = f"{finding.object}: " if finding.object else ""
    to.print(f"  {escape(about + finding.message)}")
    to.print(f"  [dim]fix:[/dim] {escape(finding.fix)}")
    to.print()
