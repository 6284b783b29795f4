"""``mooring shadow``: decide beside a cluster's own scheduler, and compare. Nothing is written to the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from mooring.api.errors import ParseError, UsageError
from mooring.api.times import parse_seconds
from mooring.cli.options import Integers, features_for, load_configuration, load_registry, plugin_option, version_option
from mooring.cli.output import console, emit, output_option
from mooring.cli.streams import say

if TYPE_CHECKING:
    from mooring.ask.shadow.judge import ShadowVerdict
    from mooring.ask.shadow.shadow import InOrder, Shadow
    from mooring.cli.watched_cluster import WatchedRecord
    from mooring.core.config.features import Features

STEP_S = 0.5
SLICE_S = 0.1  # until the cluster's events are processed again
END_S = 20.0  # for the last verdicts
FLUSH_STEPS = 4
SHOWN = 6  # of the latest differences


@click.command()
@click.option("--kubeconfig", metavar="FILE", default="", help="Use this kubeconfig.  [default: kubectl's]")
@click.option("--context", metavar="NAME", default="", help="Use this context of the kubeconfig.")
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    help="Compare this configuration with the cluster's.",
)
@click.option(
    "--cluster-config",
    metavar="FILE",
    help="Set the cluster scheduler's configuration.",
)
@plugin_option
@version_option
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Compare with this scheduler; repeatable.",
)
@click.option("--for", "duration", metavar="DURATION", help="Stop after this time, e.g. 10m.")
@click.option("--record", "record_path", metavar="FILE", help="Write a record for mooring replay and ui.")
@click.option(
    "--max-size",
    type=Integers(1),
    default=1024,
    show_default=True,
    help="Stop recording after N MiB.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Write the result as a page.",
)
@click.option("--top", type=Integers(1), default=20, show_default=True, help="Show N differences.")
@output_option()
def shadow(duration: str | None, report_path: Path | None, top: int, output: str, **asked: Any) -> int:
    """Compare decisions with a cluster's own scheduler, until Ctrl-C.

    Each pod that the scheduler binds or rejects is also decided here, from the state that the scheduler saw. The
    cluster is only read: get, list and watch. deploy/shadow has a role for that. With --config another configuration is
    compared with what really happens. Exit code 0: all decisions agree, or differ because kube-scheduler samples nodes;
    1: at least one differs for another cause; 2: the input cannot be used.

    \b
    Example:
      mooring shadow --for 10m
      mooring shadow --config tomorrow.yaml --report tomorrow.html --record today.mrec
      mooring shadow --scheduler-name my-scheduler --cluster-config my-scheduler.yaml -o json
    """
    from mooring.ask.shadow.summary import draw
    from mooring.show.report_page import shadow_page

    try:
        seconds = None if duration is None else parse_seconds(duration)
    except ParseError as error:
        raise UsageError(f"--for {duration}: {error}; write 90s or 10m") from None
    if report_path is not None:
        if report_path.suffix.lower() != ".html":
            raise UsageError(f"--report {report_path}: expected a name that ends in .html")
        _write(report_path, "", "a")  # an unwritable file is reported now, not after the watch
    if not all(asked["names"]):
        raise UsageError("--scheduler-name: expected the name of a scheduler, found none")
    watch = _Watch(output, seconds=seconds, **asked)
    asyncio.run(watch.run())
    summary = watch.shadow.summary
    emit({**watch.facts_for_programs, **summary.to_dict()}, output, lambda to: draw(to, summary, top))
    if report_path is not None:
        _write(report_path, shadow_page(summary, watch.facts))
        say(f"The page is {report_path}.")
    return 1 if summary.differing else 0


def _write(path: Path, text: str, mode: Literal["w", "a"] = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None


@dataclass(slots=True)
class _Watch:
    """One watch of a cluster, from the first list to the end."""

    output: str
    seconds: float | None
    kubeconfig: str
    context: str
    config_path: str | None
    cluster_config: str | None
    plugins: tuple[str, ...]
    kubernetes_version: str | None
    names: tuple[str, ...]
    record_path: str | None
    max_size: int
    shadow: Shadow = None  # type: ignore[assignment]
    _recording: WatchedRecord | None = None
    _is_record_told: bool = False
    _latest: deque[ShadowVerdict] = None  # type: ignore[assignment]
    _server: str = ""
    _version: str = ""
    _started: float = 0.0
    _ended: float = 0.0

    async def run(self) -> None:
        from mooring.ask.shadow.shadow import InOrder
        from mooring.cli.watched_cluster import SYNC_S, watched
        from mooring.net.kubeconfig import find_config
        from mooring.net.rest import RestClient, server_version, user_agent

        config = find_config(self.kubeconfig, context=self.context)
        async with RestClient(config, agent=user_agent("mooring", "shadow")) as client:
            release = (await server_version(client, timeout_s=SYNC_S)).release
            features = features_for(self.kubernetes_version, release)
            self._server, self._version = ".".join(map(str, release)), str(features.version)
            self._prepare(features)
            in_order = InOrder(self.shadow, time.monotonic)
            also = [] if self._recording is None else [self._recording]
            try:
                async with watched(client, in_order, *also) as (informers, reach):
                    self.shadow.is_listing = lambda: informers.is_listing
                    self._started = time.time()
                    say(f"Watching {', '.join(self.names)}; Ctrl-C ends it.")
                    await self._until_the_end(in_order)
                    self.shadow.summary.unheard_s = reach.lost_s
            finally:
                self._ended = time.time()
                in_order.pass_on(is_all=True)
                self.shadow.settle(is_over=True, for_s=END_S)
                if self._recording is not None:
                    self._recording.close()
                    self._tell_of_record(self._recording)

    def _prepare(self, features: Features) -> None:
        from mooring.api.clock import SystemClock
        from mooring.ask.shadow.judge import Judge
        from mooring.ask.shadow.scene import Scene
        from mooring.ask.shadow.shadow import Shadow
        from mooring.cli.watched_cluster import WatchedRecord

        registry, own = load_registry(self.plugins)
        compares = self.config_path is not None or bool(own)
        theirs = load_configuration(self.cluster_config, (), features)
        scene, clock = Scene(), SystemClock()
        judge = Judge(scene, theirs, features, clock, registry)
        ours = Judge(scene, load_configuration(self.config_path, own, features), features, clock, registry)
        self.names = self.names or tuple(dict.fromkeys([*judge.names, *(ours.names if compares else ())]))
        self._latest = deque(maxlen=SHOWN)
        self.shadow = Shadow(scene, judge, ours if compares else None, self.names, time.time, tell=self._tell)
        if self.record_path is not None:
            self._recording = WatchedRecord(self.record_path, self.max_size << 20, theirs, features)

    def _tell(self, verdict: ShadowVerdict) -> None:
        """Show a difference immediately, and mark it in the record."""
        from mooring.ask.shadow.summary import line

        if verdict.agrees:
            return
        self._latest.append(verdict)
        if self._recording is not None:
            self._recording.note(line(verdict))
        if not sys.stderr.isatty():
            say(line(verdict))

    def _tell_of_record(self, record: WatchedRecord) -> None:
        """Report the record once it has ended."""
        if record.is_open or self._is_record_told:
            return
        self._is_record_told = True
        if record.failure is not None:
            say(f"The record ends here, the comparison continues: {record.failure}")
        else:
            say(f"The record is {self.record_path}; mooring replay {self.record_path} opens it.")

    async def _until_the_end(self, in_order: InOrder) -> None:
        """Return after the given time, or at Ctrl-C."""
        from rich.live import Live

        from mooring.ask.shadow.summary import live

        is_shown = sys.stderr.isatty()
        view = Live(console=console(stderr=True), transient=True, auto_refresh=False) if is_shown else None
        steps = 0
        with view or contextlib.nullcontext(), contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(self.seconds):
                while True:
                    in_order.pass_on()
                    is_busy = self.shadow.settle(for_s=SLICE_S)
                    if view is not None:
                        view.update(live(self.shadow.summary, self._latest), refresh=True)
                    steps += 1
                    if self._recording is not None and steps % FLUSH_STEPS == 0:
                        self._recording.flush()
                        self._tell_of_record(self._recording)
                    await asyncio.sleep(SLICE_S / 2 if is_busy else STEP_S)

    # ---- what was watched ----------------------------------------------------------------------------------------

    @property
    def facts_for_programs(self) -> dict[str, Any]:
        return {
            "schedulerNames": list(self.names),
            "server": self._server,
            "kubernetes": self._version,
            "clusterConfiguration": self.cluster_config,
            "configuration": self.config_path,
            "plugins": list(self.plugins),
            "seconds": round(self._ended - self._started, 3) if self._started else 0,
        }

    @property
    def facts(self) -> dict[str, str]:
        """For people."""
        compared = ", ".join(filter(None, (self.config_path, *self.plugins)))
        facts = {
            "schedulers": ", ".join(self.names),
            "server": self._server,
            "decided as": self._version,
            "configuration of the cluster's scheduler": self.cluster_config or "the default",
            "compared with it": compared,
            "seconds watched": f"{self._ended - self._started:.0f}" if self._started else "0",
        }
        return {name: text for name, text in facts.items() if text}
