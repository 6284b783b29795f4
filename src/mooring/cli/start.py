"""``mooring start``: the first thing a new user runs. The engine is not wired up yet, and it says so."""

from __future__ import annotations

import click

from mooring.errors import MooringError


@click.command(epilog="Example: mooring start")
def start() -> None:
    """Schedule a first pod on an example cluster and say why."""
    raise MooringError("this version cannot schedule yet; try: mooring config defaults")
