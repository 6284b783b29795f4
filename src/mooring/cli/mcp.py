"""``mooring mcp``: serve questions about one cluster to programs that speak the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.asked_scheduler import asked_scheduler, scheduler_options

if TYPE_CHECKING:
    from mooring.surface.scheduler import Scheduler


@click.command()
@scheduler_options
def mcp(**asked: Any) -> int:
    """Serve questions about one cluster over MCP, on standard input and output.

    The questions are: which pods are pending and why, explain a pod, how many more fit, what a loss would do, what if
    something changed, and which pods another configuration would move. All of them only read. A live cluster is read
    anew for each question.

    \b
    Example:
      mooring mcp --cluster dump.json
      mooring mcp --kubeconfig ~/.kube/config --context staging
    """
    from mooring.cli.mcp_tools import make_server

    first = asked_scheduler("mcp", "json", **asked)  # a mistake in the options is said now, not with the first question
    is_dump = bool(asked["dumps"])

    def find() -> Scheduler:
        return first if is_dump else asked_scheduler("mcp", "json", **asked)

    make_server(find).run("stdio")
    return 0
