"""What help pages share: examples that are never wrapped, and lists of commands whose sentences are whole."""

from __future__ import annotations

import click


def examples(*commands: str) -> str:
    """An epilog with commands to copy; click keeps the lines of a paragraph that begins with ``\\b``."""
    return "\n".join(("\b", "Example:", *(f"  {command}" for command in commands)))


class Group(click.Group):
    """A group whose list of commands has the first sentence of each in full; click would cut it at 45 characters."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            rows.append((name, command.get_short_help_str(limit=1000)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
