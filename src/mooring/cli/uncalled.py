"""Commands that think a decision through call nobody: what the configuration's extenders would say is missing."""

from __future__ import annotations

from collections.abc import Iterable

import click

from mooring.urls import without_password


def warn_uncalled(urls: Iterable[str], where: str) -> None:
    """Say in one line, on standard error, which extenders are left out."""
    names = ", ".join(map(without_password, urls))
    if names:
        click.echo(f"warning: {where}: extenders are not called here, their verdicts are missing: {names}", err=True)
