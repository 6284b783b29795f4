"""Options of commands that ask a running scheduler's endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--token-file", default="", metavar="FILE", help="A token to show instead."),
    click.option(
        "--certificate-authority", default="", metavar="FILE", help="Trust the scheduler's certificate by this."
    ),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not check the scheduler's certificate."),
)


def address_options(command: F) -> F:
    """How to trust a scheduler, and what to show it beside a kubeconfig's credentials."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
