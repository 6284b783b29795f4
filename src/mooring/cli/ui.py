"""``mooring ui``: the page, on a record, on two of them, or on a story."""

from __future__ import annotations

from pathlib import Path

import click

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, address_options, examples
from mooring.cli.output import keep_inputs


@click.command(
    epilog=examples("mooring ui run.mooring", "mooring ui preemption", "mooring ui --kubeconfig ~/.kube/config")
)
@click.argument("records", nargs=-1, metavar="FILE|DUMP|STORY...")
@click.option("--port", default=0, type=Integers(0, 65535), help="Listen on this loopback port.  [default: any]")
@click.option("--kubeconfig", metavar="FILE", help="Show this live cluster, read-only.")
@click.option("--server", default="", metavar="URL", help="Show the page of mooring run --ui at this URL.")
@address_options
@click.option("--plugin", "plugins", multiple=True, metavar="FILE", help="Load plugins of the recorded configuration.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write .html, .csv, .parquet or a trace .json.",
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
    A dump (kubectl get nodes,pods,… -A -o json) is one instant: its map, why each pending pod waits, and what-ifs.
    A story (see mooring scenario list) is played first, in virtual time. A cluster of your own: mooring start --ui. A
    running scheduler: mooring run --ui, and here --server with the kubeconfig of a user who may get /ui/.
    """
    import asyncio

    from mooring.cli import pages
    from mooring.show.exports import page_files

    if server:
        from mooring.cli.queue import Address

        if records or output is not None:
            raise UsageError("--server shows a running scheduler; expected no records and no -o beside it")
        address = Address(server, kubeconfig or "", token_file, certificate_authority, insecure_skip_tls_verify)
        asyncio.run(pages.relay_and_serve(address, port, opens))
        return 0
    if token_file or certificate_authority or insecure_skip_tls_verify:
        raise UsageError("--token-file, --certificate-authority and --insecure-skip-tls-verify belong to --server")
    if kubeconfig is not None and not records and output is None:
        page_files()
        asyncio.run(pages.watch_and_serve(kubeconfig, port, opens))
        return 0
    if kubeconfig is not None:
        raise UsageError("--kubeconfig shows a live cluster; expected no records and no -o beside it")
    if not 1 <= len(records) <= 2:
        raise UsageError("expected one record or two; a cluster to look at: mooring start --ui")
    if output is not None:
        keep_inputs(output, records)
    page_files()  # before anything is played
    from mooring.show.shown import is_story, opened

    shown = [opened(each, plugins) for each in records]
    if output is not None:
        return pages.write_shown(output, shown)
    stories = pages.BuiltInStories() if len(records) == 1 and is_story(records[0]) else None
    asyncio.run(pages.serve_until_interrupted(shown, port, opens, stories=stories))
    return 0
