"""Common options of ``start`` and ``scenario run``: place, scheduler and narration of a story."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from mooring.api.errors import UsageError
from mooring.cli.options import (
    config_option,
    features_for,
    load_configuration,
    load_registry,
    plugin_option,
    version_option,
)

if TYPE_CHECKING:
    from mooring.sim.scenario import Scenario
    from mooring.sim.worlds import PlaySettings, World

F = TypeVar("F", bound=Callable[..., Any])

EMBEDDED, KUBERNETES = "embedded", "kubernetes"


def place_options(command: F) -> F:
    """Add ``--control-plane`` and ``--kubeconfig`` to a command; :class:`Place` says what they mean."""
    command = click.option("--kubeconfig", metavar="FILE", help="Use this cluster instead of starting one.")(command)
    return click.option(
        "--control-plane",
        type=click.Choice([EMBEDDED, KUBERNETES]),
        default=EMBEDDED,
        metavar="KIND",
        help="Use embedded (default) or kubernetes binaries.",
    )(command)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a story is played: on the embedded control plane, on real binaries, or on an existing cluster."""

    control_plane: str
    kubeconfig: str | None

    def __post_init__(self) -> None:
        if self.kubeconfig is not None and self.control_plane == KUBERNETES:
            raise UsageError("--kubeconfig and --control-plane exclude each other; give one of them")

    @property
    def is_embedded(self) -> bool:
        return self.kubeconfig is None and self.control_plane == EMBEDDED

    def remote_world(self, settings: PlaySettings, scenario: Scenario | None, kubeconfig_path: Path) -> World:
        """Return a world that is not embedded; the kubeconfig of a started one is written to ``kubeconfig_path``."""
        from mooring.net.kubeconfig import load_kubeconfig
        from mooring.sim.remote_world import ExistingWorld, KubernetesWorld

        if self.kubeconfig is not None:
            return ExistingWorld(settings, scenario, load_kubeconfig([self.kubeconfig]))
        return KubernetesWorld(settings, scenario, kubeconfig_path)


def scheduler_options(command: F) -> F:
    """Add ``--config``, ``--plugin`` and ``--kubernetes-version`` to a command, for :func:`with_scheduler`."""
    return config_option(plugin_option(version_option(command)))


def with_scheduler(
    scenario: Scenario, config_path: str | None, plugins: tuple[str, ...], kubernetes_version: str | None = None
) -> Scenario:
    """The story with the user's own plugins, and with another configuration or version if one is given."""
    from mooring.core.config.load import enabling
    from mooring.core.config.wire import to_wire

    _, own = load_registry(plugins)
    version = str(features_for(kubernetes_version or scenario.kubernetes_version).version)
    features = replace(scenario, kubernetes_version=version).features
    if config_path is not None:
        config = to_wire(load_configuration(config_path, own, features))
    else:
        from mooring.core.config.load import enabling

        config = enabling(scenario.config, own)
    return replace(
        scenario,
        config=config,
        plugin_files=(*scenario.plugin_files, *plugins),
        kubernetes_version=version,
    )


class Telling(msgspec.Struct, frozen=True):
    """Level and format of a story's narration."""

    quiet: bool
    verbose: int
    output: str

    def settings(self) -> PlaySettings:
        from mooring.sim.narration import NORMAL, QUIET, VERBOSE
        from mooring.sim.worlds import PlaySettings

        level = QUIET if self.quiet else VERBOSE if self.verbose else NORMAL
        is_terminal = sys.stdout.isatty() and self.output == "text"
        return PlaySettings(
            level=level,
            as_json=self.output == "json",
            colored=is_terminal and not os.environ.get("NO_COLOR"),
            columns=shutil.get_terminal_size().columns if is_terminal else 0,
            write=print_line,
        )


def telling_options(command: F) -> F:
    """Add ``-q``, ``-v`` and ``-o`` to a command, for :class:`Telling`."""
    command = click.option("-q", "--quiet", is_flag=True, help="Print only what the story says and expects.")(command)
    command = click.option("-v", "--verbose", count=True, help="Print every queue move and every score.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Print text, or one JSON object per line.",
    )(command)


def record_option(command: F) -> F:
    """Add ``--record`` to a command, as parameter ``record``, for :func:`recording`."""
    return click.option("--record", metavar="FILE", help="Write a record for `mooring replay`.")(command)


@contextlib.contextmanager
def recording(settings: PlaySettings, path: str | None, source: str, story: Scenario) -> Iterator[PlaySettings]:
    """Yield the settings with a recorder, which is always closed in the end."""
    if path is None:
        yield settings
        return
    from mooring.record.recorder import Recorder, WhileItCan

    recorder = Recorder.to_file(path, source=source, inputs=story.records, output=WhileItCan)
    try:
        yield replace(settings, observers=(*settings.observers, recorder))
    finally:
        recorder.close()


def print_line(text: str = "") -> None:
    """Print a line immediately, also into a file or a pipe: a story takes its time."""
    click.echo(text)
    sys.stdout.flush()
