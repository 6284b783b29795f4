"""The options ``--config`` and ``--plugin``: how the scheduler of a command is configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.api.release import UNKNOWN, Release
from mooring.cli.streams import say
from mooring.errors import PluginError, UsageError

if TYPE_CHECKING:
    from mooring.config.features import Features
    from mooring.config.types import KubeSchedulerConfiguration
    from mooring.framework.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Add ``--config`` to a command, as parameter ``config_path``."""
    return click.option(
        "--config",
        "config_path",
        metavar="FILE",
        help="A KubeSchedulerConfiguration; without it the default, in which every --plugin is enabled.",
    )(command)


def version_option(command: F) -> F:
    """Add ``--kubernetes-version`` to a command, as parameter ``kubernetes_version``."""
    return click.option(
        "--kubernetes-version",
        metavar="1.36|1.37",
        help="Decide as kube-scheduler of this version.  [default: the cluster's if something says it, or 1.36]",
    )(command)


def features_for(kubernetes_version: str | None, release: Release = UNKNOWN) -> Features:
    """The version that was asked for, or the nearest to a cluster's release, with a warning if it is another one."""
    from mooring.config.features import Features
    from mooring.config.versions import nearest_version, parse_version

    if kubernetes_version is not None:
        return Features(parse_version(kubernetes_version))
    version, warning = nearest_version(release)
    if warning:
        say(f"warning: {warning}")
    return Features(version)


def plugin_option(command: F) -> F:
    """Add ``--plugin`` to a command, as parameter ``plugins``."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="A plugin of your own: file.py, file.py:Class, module:Class or an entry point. May be given repeatedly.",
    )(command)


def load_registry(plugins: Iterable[str]) -> tuple[Registry, list[str]]:
    """Load these plugins beside the in-tree and the installed ones; return all of them, and the names of these."""
    from mooring.engine.in_tree import in_tree_registry
    from mooring.loading.plugins import load_installed, load_plugins

    registry = in_tree_registry()
    try:
        names = load_plugins(plugins, registry)
    except PluginError as error:
        raise UsageError(str(error)) from None
    for problem in load_installed(registry):
        say(f"warning: {problem}")
    return registry, names


def load_configuration(
    path: str | None, own: Sequence[str] = (), features: Features | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in a file, or the default one with the user's own plugins enabled.

    Warnings go to standard error: what changed since an old version, extenders, plugins that no profile enables.
    """
    from mooring.config.load import config_from_dict, load_config_file
    from mooring.config.own_plugins import enabling, unused

    features = features or features_for(None)
    if path is None:
        return config_from_dict(enabling(None, own), features)
    loaded = load_config_file(path, features)
    warnings = [*loaded.warnings, *unused(loaded.config, own, path)]
    for warning in warnings:
        say(f"warning: {warning}")
    warn_of_extenders((extender.shown_url for extender in loaded.config.extenders), path)
    return loaded.config


def warn_of_extenders(urls: Iterable[str], where: str) -> None:
    """Say in one line that the configuration has extenders, which this command does not call."""
    names = ", ".join(urls)
    if names:
        say(f"warning: {where}: extenders are not called here, their verdicts are missing: {names}")
