"""``mooring ui``: the page, on a record, on two of them, or on a story."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.address_options import address_options
from mooring.cli.help import examples
from mooring.cli.output import keep_inputs
from mooring.cli.story_options import print_line
from mooring.errors import UsageError

if TYPE_CHECKING:
    from mooring.ui.answers import Stories
    from mooring.ui.server import Answering, PageServer
    from mooring.ui.shown import Shown


@click.command(
    epilog=examples("mooring ui run.mooring", "mooring ui preemption", "mooring ui --kubeconfig ~/.kube/config")
)
@click.argument("records", nargs=-1, metavar="FILE|STORY...")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Where to listen, on loopback.  [default: any]")
@click.option("--kubeconfig", metavar="FILE", help="Show the cluster that this file leads to; it is only read.")
@click.option(
    "--server", default="", metavar="URL", help="Show the page of mooring run --ui, such as https://127.0.0.1:10259."
)
@address_options
@click.option("--plugin", "plugins", multiple=True, metavar="FILE", help="Plugins of the recorded configuration.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page as one file (.html), the decisions (.csv, .parquet) or a trace for Perfetto (.json).",
)
@click.option("--open/--no-open", "opens", default=None, help="Open the browser.  [default: on a desktop]")
def ui(
    records: tuple[str, ...],
    port: int,
    kubeconfig: str | None,
    server: str,
    token_file: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
    plugins: tuple[str, ...],
    output: Path | None,
    opens: bool | None,
) -> int:
    """Show clusters and decisions in the browser: one record, or two side by side.

    A record is what mooring run --record, mooring record and mooring simulate write; one that still grows is followed.
    A story (see mooring scenario list) is played first, in virtual time. A cluster of your own: mooring start --ui.
    A running scheduler: mooring run --ui, and here --server with the kubeconfig of somebody who may get /ui/.
    """
    from mooring.ui.bundle import page_files

    if server:
        from mooring.cli.queue_source import Address
        from mooring.cli.ui_relay import relay_and_serve

        if records or output is not None:
            raise UsageError("--server shows a running scheduler; expected no records and no -o beside it")
        address = Address(server, kubeconfig or "", token_file, certificate_authority, insecure_skip_tls_verify)
        asyncio.run(relay_and_serve(address, port, opens))
        return 0
    if token_file or certificate_authority or insecure_skip_tls_verify:
        raise UsageError("--token-file, --certificate-authority and --insecure-skip-tls-verify belong to --server")
    if kubeconfig is not None and not records and output is None:
        from mooring.cli.ui_watch import watch_and_serve

        page_files()
        asyncio.run(watch_and_serve(kubeconfig, port, opens))
        return 0
    if kubeconfig is not None:
        raise UsageError("--kubeconfig shows a live cluster; expected no records and no -o beside it")
    if not 1 <= len(records) <= 2:
        raise UsageError("expected one record or two; a cluster to look at: mooring start --ui")
    if output is not None:
        keep_inputs(output, records)
    page_files()  # before anything is played
    from mooring.ui.opening import is_story, opened

    shown = [opened(each, plugins) for each in records]
    if output is not None:
        return _write(output, shown)
    stories = None
    if len(records) == 1 and is_story(records[0]):
        from mooring.cli.page_stories import BuiltInStories

        stories = BuiltInStories()
    asyncio.run(serve_until_interrupted(shown, port, opens, stories=stories))
    return 0


async def serve_until_interrupted(
    shown: list[Shown],
    port: int = 0,
    opens: bool | None = None,
    *,
    answers: Answering | None = None,
    stories: Stories | None = None,
) -> None:
    """Serve the page of these records, or with these answers, until Ctrl-C."""
    from mooring.ui.server import PageServer

    server = PageServer(shown, port=port, answers=answers, stories=stories)
    await server.start()
    announce(server, opens)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await server.stop()


def _write(path: Path, shown: list[Shown]) -> int:
    """Write the page as one file that opens without a server; or decisions, or a trace, by the file's ending."""
    from mooring.ui.exports import EXPORTS
    from mooring.ui.one_file import one_file

    if path.suffix in EXPORTS and len(shown) > 1:
        raise UsageError(f"{path}: expected one record; two of them make a page (.html)")
    try:
        if path.suffix in EXPORTS:
            path.write_bytes(EXPORTS[path.suffix][0](shown[0].timeline))
        else:
            path.write_text(one_file(shown), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    finally:
        for each in shown:
            each.close()
    print_line(f"Written: {path} ({path.stat().st_size / 1024:,.0f} KiB)")
    return 0


def write_page(path: Path, records: Sequence[str]) -> None:
    """Write the page of these records as one file."""
    from mooring.ui.bundle import page_files
    from mooring.ui.opening import opened

    page_files()  # before anything is read
    _write(path, [opened(each) for each in records])


def announce(server: PageServer, opens: bool | None) -> None:
    """Print the link, and open it where somebody sits in front of the screen."""
    print_line(f"The page: {server.link}")
    if opens or (opens is None and _has_desktop()):
        webbrowser.open(server.link)


def _has_desktop() -> bool:
    import os
    import sys

    return sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
