"""``mooring start``: an API server, fake nodes, controllers and the scheduler in one process, and a first story."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, examples, kubeconfig_place
from mooring.cli.story_options import (
    Place,
    Telling,
    place_options,
    print_line,
    record_option,
    recording,
    scheduler_options,
    telling_options,
    with_scheduler,
)

if TYPE_CHECKING:
    from mooring.cli.pages import StartPage
    from mooring.sim.player import PlayResult
    from mooring.sim.scenario import Scenario
    from mooring.sim.worlds import World


_INTERRUPTED = 130


@click.command(epilog=examples("mooring start --scenario preemption --keep"))
@click.option("--scenario", "story", metavar="FILE|NAME", help="Play this story, not first-placement.")
@click.option("--nodes", metavar="N", type=Integers(0, 10_000), help="Start N empty nodes (up to 10000), no story.")
@click.option("--port", default=0, type=Integers(0, 65535), help="Serve the API on this port.  [default: any]")
@click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR", help="Store the cluster in this directory.")
@click.option("--tls/--no-tls", default=True, help="Serve HTTPS; kubectl sends tokens only then.")
@place_options
@scheduler_options
@click.option(
    "--write-kubeconfig", type=click.Path(path_type=Path), metavar="FILE", help="Write a kubeconfig for kubectl here."
)
@click.option("--keep", is_flag=True, help="Stay up after the story, until Ctrl-C.")
@click.option("--once", is_flag=True, help="End after the story.")
@record_option
@click.option("--ui", "shows_page", is_flag=True, help="Show the cluster in the browser and stay up.")
@click.option("--example", is_flag=True, help="Explain two pods of an example and exit.")
@telling_options
def start(
    story: str | None,
    nodes: int | None,
    port: int,
    data_dir: Path | None,
    tls: bool,
    control_plane: str,
    kubeconfig: str | None,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    write_kubeconfig: Path | None,
    keep: bool,
    once: bool,
    record: str | None,
    shows_page: bool,
    example: bool,
    quiet: bool,
    verbose: int,
    output: str,
) -> int:
    """Start a cluster in this process, schedule a first pod and say why it went to its node."""
    if example:
        show_first_example(output)
        return 0
    if (keep or shows_page) and once:
        raise UsageError(f"--{'keep' if keep else 'ui'} and --once exclude each other; give one of them")
    place = Place(control_plane, kubeconfig)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    page = None
    if shows_page or (is_terminal and not once and output == "text" and place.is_embedded):
        from mooring.cli.pages import start_page

        page = start_page(is_ours=place.is_embedded, is_asked_for=shows_page)
    from mooring.sim.library import FIRST, find
    from mooring.sim.scenario import NO_STORY
    from mooring.sim.worlds import EmbeddedWorld, Listening

    scenario = find(story) if story is not None else find(FIRST) if nodes is None else None
    stays = keep or shows_page or (not once and is_terminal)
    settings = Telling(quiet, verbose, output).settings()
    setting = with_scheduler(scenario or NO_STORY, config_path, plugins, kubernetes_version)
    if page is not None:
        settings = page.observing(settings, setting)
    with _place_for(data_dir, write_kubeconfig) as path, recording(settings, record, "scheduler", setting) as settings:
        show = _Shown(path, stays, output == "text", place.is_embedded, page)

        async def main() -> int:
            if place.is_embedded:
                listening = Listening(port=port, use_tls=tls, data_dir=data_dir, kubeconfig_path=path)
                world: World = EmbeddedWorld(settings, setting, listening=listening)
            else:
                world = place.remote_world(settings, setting, path)
            return await _run(world, scenario, nodes or 0, story is None and data_dir is not None, show)

        return asyncio.run(main())


@contextlib.contextmanager
def _place_for(data_dir: Path | None, wanted: Path | None) -> Iterator[Path]:
    """Yield the path of the kubeconfig: the user's, beside the data, or in a temporary directory."""
    if data_dir is not None:
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--data-dir {data_dir}: {error.strerror or error}") from None
        if not os.access(data_dir, os.W_OK):
            raise UsageError(f"--data-dir {data_dir}: Permission denied; expected a writable directory")
    if data_dir is not None and wanted is None:
        yield data_dir / "kubeconfig"
        return
    with kubeconfig_place(wanted) as path:
        yield path


class _Shown:
    """Prints how to reach the cluster and how the story ended; prints nothing for JSON output."""

    def __init__(
        self, kubeconfig: Path, stays: bool, is_text: bool, is_embedded: bool, page: StartPage | None = None
    ) -> None:
        self.page = page
        self.stays = stays
        self._is_embedded = is_embedded
        self.is_waiting = False  # the story is over, and the cluster stays up
        self._kubeconfig = kubeconfig
        self._is_text = is_text

    def up(self, world: Any) -> None:
        if self._is_text and hasattr(world, "plane"):
            print_line(f"The API server listens at {world.plane.url}. In another terminal:")
            print_line(f"    export KUBECONFIG={shlex.quote(str(self._kubeconfig))}")
            print_line("    kubectl get pods -A -o wide -w")
            print_line()

    def ended(self, result: PlayResult | None) -> None:
        if not self._is_text:
            return
        from mooring.sim.narration import many

        print_line()
        if result is not None:
            print_line(
                f"As expected: {many(result.expectations, 'expectation')} held."
                if result.held
                else result.verdict[0].upper() + result.verdict[1:]
            )
        if self.stays:
            print_line("The cluster stays up; Ctrl-C ends it. Try in the other terminal:")
            print_line("    kubectl create deployment web --image=nginx --replicas=3")
            if self._is_embedded:
                print_line("    mooring queue    # pods that wait, and why")
            print_line("No container runs here: from now on, pods of Jobs complete after 1 s, and")
            print_line("deleted pods are gone at once. Annotations of a pod say otherwise:")
            print_line("mooring/completes-after: 10m, mooring/terminates-after: 30s.")
        else:
            print_line("More: mooring scenario list; a cluster that stays, in the browser: mooring start --ui")


async def _run(world: World, scenario: Scenario | None, nodes: int, may_skip: bool, show: _Shown) -> int:
    """Play the story, stay if asked to, and shut everything down, also after a signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    work = asyncio.ensure_future(_work(world, scenario, nodes, may_skip, show, stop))
    waiting = asyncio.ensure_future(stop.wait())
    await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not show.is_waiting:
        work.cancel()  # in the middle of the story
    with contextlib.suppress(asyncio.CancelledError):
        return await work
    return _INTERRUPTED


async def _work(
    world: World, scenario: Scenario | None, nodes: int, may_skip: bool, show: _Shown, stop: asyncio.Event
) -> int:
    async with world, contextlib.AsyncExitStack() as stack:
        show.up(world)
        if show.page is not None:
            await stack.enter_async_context(show.page.served(world))
        result = None
        if nodes:
            from mooring.sim.scenario import node

            for i in range(1, nodes + 1):
                await world.cluster.apply(node(f"node{i}"))
        if scenario is not None and may_skip and await world.cluster.list("nodes"):
            print_line("The cluster is as it was when it was last stopped; a story is played where you name one.")
        elif scenario is not None:
            from mooring.sim.player import play

            result = await play(world, scenario)
        if show.stays:
            # In an interactive cluster, commands should not take as long as in the story.
            options = msgspec.structs.replace(world.kubelets.options, job_runs_s=1.0, terminates_after_s=0.0)
            world.kubelets.options = options
        show.ended(result)
        if show.stays:
            show.is_waiting = True
            await stop.wait()
        return 0 if result is None else result.exit_code


# --------------------------------------------------------------------------------------------------------------------
# ``mooring start --example``: one pod finds its node, another learns what it lacks; nothing is started.


def show_first_example(output: str) -> None:
    """Explain two pods on a small cluster that comes with mooring; as JSON, in one line each."""
    import json
    from importlib import resources

    from mooring.api import yaml
    from mooring.ask.scheduler import Scheduler, load
    from mooring.cli.output import console, plain
    from mooring.core.explain.why import draw

    data = resources.files("mooring.cli") / "data"
    scheduler = Scheduler(load((data / "first-cluster.yaml").read_bytes()))
    pods = [yaml.load((data / name).read_bytes(), name) for name in ("first-pod.yaml", "second-pod.yaml")]
    if output == "json":
        for pod in pods:
            click.echo(json.dumps(plain(scheduler.explain(pod).to_dict()), ensure_ascii=False))
        return
    to = console()
    to.print("A cluster of 5 nodes in 2 zones; worker-4 is cordoned, gpu-1 takes only pods that tolerate its taint.")
    for pod in pods:
        to.print()
        draw(to, scheduler.explain(pod), top=5, suggestions=4)
    to.print()
    to.print("Your own cluster: kubectl get nodes,pods,pvc,pv,sc,pdb,pc -A -o json > dump.json")
    to.print("                  mooring explain --cluster dump.json --pod web.yaml")
