"""``mooring run``: be a cluster's scheduler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from mooring.api.errors import UsageError
from mooring.api.version import __version__

if TYPE_CHECKING:
    from mooring.live.flags import Flags
    from mooring.live.observer import SchedulerObserver
    from mooring.live.serving import Pages

PAGE_RECORD_MB = 128  # of --ui without --record
EXAMPLE = """\
Example:
  mooring run --kubeconfig ~/.kube/config --leader-elect=false -v 2
  mooring run --config scheduler.yaml --plugin my_plugins.py --decision-log decisions.jsonl
A second scheduler beside the cluster's own: give its profile another schedulerName, and pods that name."""


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    short_help="Run as a scheduler of a cluster.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> int:
    """Run as a scheduler of a cluster: kube-scheduler's configuration, flags, events, metrics and endpoints.

    \b
    Example:
      mooring run --kubeconfig ~/.kube/config --leader-elect=false -v 2
    """
    from mooring.live.flags import help_text, parse_flags

    flags = parse_flags(arguments)
    if flags.switch("help"):
        click.echo(help_text(EXAMPLE))
        return 0
    if flags.text("version") not in ("false", ""):
        from mooring.core.config.versions import VERSIONS

        tags = ", ".join(version.tag for version in VERSIONS.values())
        click.echo(f"mooring {__version__} (decides as one of Kubernetes {tags})")
        return 0
    from mooring.live import logs
    from mooring.live.settings import load_settings

    logs.set_up(logging_format=flags.text("logging-format"), verbosity=flags.number("v"))
    settings = load_settings(flags)
    log = logs.get_logger("mooring.live")
    for line in (*settings.warnings, *flags.without_effect()):
        log.warning(line)
    if flags.text("write-config-to"):
        _write_config(flags.text("write-config-to"), settings)
        return 0
    from mooring.live.process import SchedulerProcess, run_in_loop
    from mooring.live.settings import for_cluster

    settings.client_config()  # mistakes are reported before anything starts

    async def run_as_the_cluster_is() -> int:
        of_cluster = await for_cluster(settings)
        log.info("Starting mooring", version=__version__, kubernetes=of_cluster.features.version.tag)
        with _page(flags) as (record, pages):
            async with _recording(flags, record) as observers:
                observers = (*observers, *tracing)
                process = SchedulerProcess(of_cluster, of_cluster.client_config, observers, pages=pages)
                return await process.run()

    with _tracing(flags) as tracing:
        return run_in_loop(run_as_the_cluster_is)


@contextlib.contextmanager
def _tracing(flags: Flags) -> Iterator[Sequence[SchedulerObserver]]:
    """Yield the observer of ``--tracing-config-file``."""
    path = flags.text("tracing-config-file")
    if not path:
        yield ()
        return
    from mooring.live.tracing import read_tracing_configuration, start_tracing

    observer, end = start_tracing(read_tracing_configuration(path))
    try:
        yield (observer,)
    finally:
        end()


@contextlib.contextmanager
def _page(flags: Flags) -> Iterator[tuple[str, Pages]]:
    """Yield the page of ``--ui``, and its record: a temporary one, if necessary."""
    record = flags.text("record")
    if not flags.switch("ui"):
        yield record, {}
        return
    import tempfile

    from mooring.show.server import MountedPage

    with contextlib.ExitStack() as stack:
        if not record:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-", ignore_cleanup_errors=True))
            except OSError as error:
                raise UsageError(f"--ui needs a place for its record: {error}; name one with --record FILE") from None
            record = os.path.join(folder, "run.mooring")
        page = MountedPage(record, "mooring run", flags.words("plugin"))
        stack.callback(page.close)
        yield record, {"/ui": page.answer}


@contextlib.asynccontextmanager
async def _recording(flags: Flags, path: str) -> AsyncIterator[Sequence[SchedulerObserver]]:
    """Yield the observer of ``--record``."""
    if not path:
        yield ()
        return
    from mooring.record.background import record_live, running

    recorder = record_live(
        path,
        max_bytes=(flags.number("record-max-size") if flags.text("record") else PAGE_RECORD_MB) << 20,
        max_age_s=flags.seconds("record-max-age"),
        keeps_annotations=flags.switch("record-annotations"),
    )
    async with running(recorder):
        yield (recorder,)


def _write_config(path: str, settings: object) -> None:
    from mooring.api import yaml
    from mooring.core.config.wire import to_wire
    from mooring.live.settings import Settings

    assert isinstance(settings, Settings)
    text = yaml.dump(to_wire(settings.config, leave_out=settings.features.version.later_fields))
    try:
        # It may hold keys and passwords of extenders, so only its owner may read it.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--write-config-to {path}: {error.strerror or error}") from None
