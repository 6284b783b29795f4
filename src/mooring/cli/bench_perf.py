"""``mooring bench perf``: Kubernetes' scheduler benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from mooring.api.errors import UsageError
from mooring.cli.options import Integers, Numbers
from mooring.cli.output import emit, output_option, print_table, progress

if TYPE_CHECKING:
    from mooring.bench.perf.definitions import Definitions, PerfWorkload
    from mooring.bench.perf.report import PerfResult
    from mooring.bench.perf.runner import BenchProgress

QUICK, NIGHTLY = "quick", "performance"


@click.command()
@click.argument("names", nargs=-1, metavar="[CASE[/WORKLOAD]]...")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Read scheduler_perf definitions.  [default: our own]",
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Run on this cluster, not on the embedded one.")
@click.option("--no-scheduler", is_flag=True, help="Use the scheduler that already runs there.")
@click.option("--scheduler-pid", type=Integers(1), help="Measure CPU and memory of this process.")
@click.option("--http", "over_http", is_flag=True, help="Reach the embedded API server over loopback HTTP.")
@click.option(
    "--stall",
    "stall_s",
    type=Numbers(1.0),
    default=120.0,
    show_default=True,
    help="Give up after N s without progress.",
)
@click.option("--label", "labels", multiple=True, help="Select workloads by label: performance,-short.")
@click.option("--list", "only_list", is_flag=True, help="List the workloads and exit.")
@click.option("--compare", type=click.Path(path_type=Path), help="Print ratios to this earlier -o json.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write throughput over time to this SVG file.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the results as JSON to this file.")
@output_option()
@click.pass_context
def perf(
    ctx: click.Context,
    names: tuple[str, ...],
    directory: Path | None,
    kubeconfig: str | None,
    no_scheduler: bool,
    scheduler_pid: int | None,
    over_http: bool,
    stall_s: float,
    labels: tuple[str, ...],
    only_list: bool,
    compare: Path | None,
    plot: Path | None,
    save: Path | None,
    output: str,
) -> None:
    """Run scheduler_perf workloads and say what they bring and cost.

    Names may contain "*". Without names and labels, our quick workloads run, or the nightly ones of --dir. Each
    workload runs in its own process with an API server, a scheduler and the load, so the CPU time counts all three;
    with --kubeconfig only the scheduler and the load. The exit code is 1 if a workload fails or misses its threshold.

    \b
    Example:
      mooring bench perf SchedulingBasic/5000Nodes -o json > before.json
      mooring bench perf SchedulingBasic/5000Nodes --compare before.json
    """
    from mooring.bench.perf import plot as plots
    from mooring.bench.perf import report
    from mooring.bench.perf.worker import run_isolated

    definitions = _definitions(directory)
    if not names and not labels and not only_list:
        labels = (NIGHTLY if directory is not None else QUICK,)
    chosen = definitions.select(names, labels)
    if only_list:
        _list(chosen, output)
        return
    options = _run_options(kubeconfig, no_scheduler, scheduler_pid, over_http, stall_s)
    earlier = report.read(compare) if compare is not None else None
    for path in (plot, save):
        if path is not None:
            _check_writable(path)
    about = report.about()
    results: list[PerfResult] = []
    with progress("pods") as show:
        for i, workload in enumerate(chosen):
            part = f"{i + 1}/{len(chosen)} {workload.full_name}"

            def on_progress(state: BenchProgress, part: str = part) -> None:
                show(part, state.bound, state.expected, state.stage)

            results += run_isolated(definitions.directory, workload, options, on_progress)
    value = report.document(results, about)
    if plot is not None:
        plot.write_text(plots.throughput(results, report.about_line(about)), encoding="utf-8")
    if save is not None:
        from mooring.cli.output import to_json

        save.write_text(to_json(value) + "\n", encoding="utf-8")

    def draw(out: Console) -> None:
        print_table(out, report.COLUMNS, report.rows(results))
        for line in (report.about_line(about), *report.footnotes(results)):
            out.print(line, style="dim")
        if earlier is not None:
            out.print()
            print_table(out, report.COMPARED, report.compare(results, earlier))

    emit(value, output, draw)
    if any(result.error or result.is_passed is False for result in results):
        ctx.exit(1)


# ---- pieces --------------------------------------------------------------------------------------------------------


def _definitions(directory: Path | None) -> Definitions:
    from mooring.bench.perf.definitions import load
    from mooring.bench.workloads import DIRECTORY

    return load(DIRECTORY if directory is None else directory)


def _run_options(
    kubeconfig: str | None, no_scheduler: bool, scheduler_pid: int | None, over_http: bool, stall_s: float
) -> Any:
    from mooring.bench.perf.runner import RunOptions

    if no_scheduler and not kubeconfig:
        raise UsageError("--no-scheduler: there is no scheduler in the embedded cluster; give --kubeconfig")
    if scheduler_pid and not no_scheduler:
        raise UsageError("--scheduler-pid: only with --no-scheduler; otherwise the scheduler is in this process")
    if over_http and kubeconfig:
        raise UsageError("--http: only for the embedded cluster; the one of --kubeconfig is reached as that file says")
    return RunOptions(
        kubeconfig=str(Path(kubeconfig).absolute()) if kubeconfig else "",
        with_scheduler=not no_scheduler,
        scheduler_pid=scheduler_pid or 0,
        over_http=over_http,
        stall_s=stall_s,
    )


def _check_writable(path: Path) -> None:
    """Reject a path whose folder does not exist, before a long run begins."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: no such directory")


def _list(workloads: Sequence[PerfWorkload], output: str) -> None:
    value = [
        {
            "name": workload.full_name,
            "topic": workload.topic,
            "labels": sorted(workload.labels),
            "threshold": workload.threshold,
            "params": dict(workload.params),
        }
        for workload in workloads
    ]

    def draw(out: Console) -> None:
        rows = [
            [
                workload.full_name,
                workload.topic,
                ",".join(sorted(workload.labels)),
                "" if workload.threshold is None else f"{workload.threshold:g}",
                " ".join(f"{name}={item}" for name, item in workload.params.items()),
            ]
            for workload in workloads
        ]
        print_table(out, ["workload", "topic", "labels", "threshold", "params"], rows)

    emit(value, output, draw)
