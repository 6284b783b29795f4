"""The option ``--plugin``: plugins of the user's own, beside those that come with mooring."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.errors import PluginError, UsageError

if TYPE_CHECKING:
    from mooring.framework.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


def plugin_option(command: F) -> F:
    """Add ``--plugin`` to a command, as parameter ``plugins``."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="A plugin of your own: file.py, file.py:Class, module:Class or an entry point. May be given repeatedly.",
    )(command)


def registry_with(plugins: Iterable[str]) -> Registry:
    """The plugins that come with mooring, the installed ones, and these."""
    from mooring.loading.plugins import load_installed, load_plugins
    from mooring.plugins.in_tree import in_tree_registry

    registry = in_tree_registry()
    try:
        load_plugins(plugins, registry)
    except PluginError as error:
        raise UsageError(str(error)) from None
    for problem in load_installed(registry):
        click.echo(f"warning: {problem}", err=True)
    return registry
