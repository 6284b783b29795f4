"""``mooring bench perf`` and ``mooring bench profile``: Kubernetes' scheduler benchmark, and where the time goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from mooring.api.errors import UsageError
from mooring.cli.output import Numbers, Show, emit, output_option, print_table, progress

if TYPE_CHECKING:
    from mooring.bench.perf.definitions import Definitions, PerfWorkload
    from mooring.bench.perf.report import PerfResult

F = TypeVar("F", bound=Callable[..., Any])
QUICK, NIGHTLY = "quick", "performance"


def _options(command: F) -> F:
    """Options that both commands take."""
    for option in reversed(
        (
            click.option(
                "--dir",
                "directory",
                type=click.Path(file_okay=False, path_type=Path),
                help="Definitions in scheduler_perf's format.  [default: our own]",
            ),
            click.option(
                "--kubeconfig", type=click.Path(dir_okay=False), help="A cluster to run on instead of the embedded one."
            ),
            click.option("--no-scheduler", is_flag=True, help="A scheduler runs there already; start none here."),
            click.option(
                "--scheduler-pid", type=click.IntRange(1), help="That scheduler's process, for CPU and memory."
            ),
            click.option("--http", "over_http", is_flag=True, help="Reach the embedded API server over loopback HTTP."),
            click.option(
                "--stall",
                "stall_s",
                type=Numbers(1.0),
                default=120.0,
                show_default=True,
                help="Give a workload up when nothing has happened for so many seconds.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("names", nargs=-1, metavar="[CASE[/WORKLOAD]]...")
@_options
@click.option(
    "--label", "labels", multiple=True, help="Workloads with these labels: performance,-short. Repeat for or."
)
@click.option("--list", "only_list", is_flag=True, help="Say which workloads there are, and run none.")
@click.option("--compare", type=click.Path(path_type=Path), help="An earlier -o json to print ratios with.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write throughput over time to this SVG file.")
@click.option("--save", type=click.Path(path_type=Path), help="Also write the results as JSON to this file.")
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

    Names may hold "*". Without names and labels, the quick workloads of our own run, or the nightly ones of --dir.
    Each workload has a process of its own with an API server, a scheduler and the load in it, so the CPU time counts
    all three; with --kubeconfig only the scheduler and the load are there. The exit code is 1 if a workload fails or
    misses its threshold.

    \b
    Example:
      mooring bench perf SchedulingBasic/5000Nodes -o json > before.json
      mooring bench perf SchedulingBasic/5000Nodes --compare before.json
    """
    from mooring.bench.perf import plot as plots
    from mooring.bench.perf import report

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
            results += _run(definitions, workload, options, show, f"{i + 1}/{len(chosen)} ")[0]
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


@click.command()
@click.argument("name", metavar="CASE[/WORKLOAD]")
@_options
@click.option(
    "--with",
    "sampler",
    type=click.Choice(["auto", "py-spy", "own"]),
    default="auto",
    show_default=True,
    help="Who looks: py-spy from outside, or a sampler of our own.",
)
@click.option("--svg", type=click.Path(path_type=Path), help="Where the flame graph goes.  [default: CASE.svg]")
@click.option("--stacks", type=click.Path(path_type=Path), help="Also write collapsed stacks for other tools.")
@output_option()
@click.pass_context
def profile(
    ctx: click.Context,
    name: str,
    directory: Path | None,
    kubeconfig: str | None,
    no_scheduler: bool,
    scheduler_pid: int | None,
    over_http: bool,
    stall_s: float,
    sampler: str,
    svg: Path | None,
    stacks: Path | None,
    output: str,
) -> None:
    """Draw a flame graph of what is measured in a workload, and say whose time it is.

    A case without a workload stands for its largest quick one. Only the measured part is looked at, not the filling of
    the cluster before it.

    \b
    Example:
      mooring bench profile SchedulingBasic/5000Nodes --svg basic.svg
    """
    from mooring.bench.perf import profiling, report
    from mooring.bench.perf.profiling import collapsed, flame_graph

    definitions = _definitions(directory)
    workload = _one(definitions, name)
    options = _run_options(kubeconfig, no_scheduler, scheduler_pid, over_http, stall_s)
    svg = svg or Path(f"{workload.case}.svg")
    for path in (svg, stacks):
        if path is not None:
            _check_writable(path)
    with progress("pods") as show:
        results, found, profiler = _run(definitions, workload, options, show, "", sampler)
    result = results[0]
    if not result.error:
        title = f"{workload.full_name}: {result.throughput.average:,.0f} pods/s, by {profiler}"
        svg.write_text(flame_graph(found, title), encoding="utf-8")
        if stacks is not None:
            stacks.write_text(collapsed(found), encoding="utf-8")
    cpu_us = (result.cpu_s_per_1000 or 0.0) * 1000
    parts = [
        {"part": part, "share": round(share, 4), "us_per_pod": round(share * cpu_us, 1)}
        for part, share in profiling.breakdown(found)
    ]
    functions = [
        {"function": frame, "own": round(own, 4), "all": round(total, 4)}
        for frame, own, total in profiling.hottest(found)
    ]
    value = {
        **report.document(results, report.about()),
        "profiler": profiler,
        "flame_graph": str(svg),
        "parts": parts,
        "functions": functions,
    }

    def draw(out: Console) -> None:
        if result.error:
            out.print(result.error, markup=False)
            return
        rows = [[str(part["part"]), f"{part['share']:.1%}", f"{part['us_per_pod']:,.0f}"] for part in parts]
        print_table(out, ["whose time", "share", "CPU µs/pod"], rows)
        out.print()
        rows = [[str(f["function"]), f"{f['own']:.1%}", f"{f['all']:.1%}"] for f in functions]
        print_table(out, ["function", "itself", "with what it calls"], rows)
        out.print()
        out.print(
            f"{workload.full_name}: {result.throughput.average:,.0f} pods/s; flame graph by {profiler}: {svg}",
            markup=False,
        )

    emit(value, output, draw)
    if result.error:
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
        raise UsageError(
            "--no-scheduler: there is no scheduler in the embedded cluster; --kubeconfig says where one is"
        )
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


def _one(definitions: Definitions, name: str) -> PerfWorkload:
    chosen = definitions.select([name])
    if len(chosen) > 1:
        chosen = [workload for workload in chosen if QUICK in workload.labels] or chosen
    return max(chosen, key=lambda workload: sum(v for v in workload.params.values() if isinstance(v, int)))


def _check_writable(path: Path) -> None:
    """Refuse a path whose folder does not exist, before a long run begins."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: no such directory")


def _run(
    definitions: Definitions,
    workload: PerfWorkload,
    options: Any,
    show: Show,
    prefix: str,
    sampler: str = "",
) -> tuple[list[PerfResult], dict[str, int], str]:
    from mooring.bench.perf.worker import run_isolated

    return run_isolated(
        definitions.directory,
        workload,
        options,
        on_progress=lambda state: show(prefix + workload.full_name, state.bound, state.expected, state.stage),
        profile=sampler,
    )


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
