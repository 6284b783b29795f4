"""``mooring simulate``: a story with its workloads in virtual time, as fast as it can be computed."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console

from mooring.api.errors import InputError, MooringError, UsageError
from mooring.api.memory import without_collecting
from mooring.api.text import count_of
from mooring.cli.options import examples
from mooring.cli.output import emit, output_option, print_facts, print_table
from mooring.cli.story_options import scheduler_options, with_scheduler

if TYPE_CHECKING:
    from mooring.sim.result import Simulation


MOST_REASONS = 10


@click.command(
    epilog=examples(
        "mooring simulate preemption",
        "mooring simulate monday.mrec@90s --config other.yaml",
        "mooring simulate examples/gpu-fragmentation/openb.yaml --set nodes=NODES.csv --set pods=PODS.csv --seed 42",
    )
)
@click.argument("stories", nargs=-1, required=True, metavar="FILE|NAME...")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the file; repeatable.")
@click.option("--seed", default=0, metavar="N", show_default=True, help="Set the random seed.")
@click.option("--until", metavar="TIME", help="Stop after this time, e.g. 36h.")
@scheduler_options
@click.option("--record", "record_path", metavar="FILE", help="Write a record for replay, report and ui.")
@click.option("--ui", "shows_page", is_flag=True, help="Show it in the browser until Ctrl-C.")
@click.option("--placements", is_flag=True, help="Add the node of every pod to JSON and YAML.")
@output_option()
def simulate(
    stories: tuple[str, ...],
    settings: tuple[str, ...],
    seed: int,
    until: str | None,
    config_path: str | None,
    plugins: tuple[str, ...],
    kubernetes_version: str | None,
    record_path: str | None,
    shows_page: bool,
    placements: bool,
    output: str,
) -> int:
    """Play stories with their workloads in virtual time, and say what became of the pods.

    A story is a scenario file, or a record at a time (run.mrec@90s), from which it continues. Pods of its workloads
    bypass the API server, so that a day takes seconds. Exit code 0: all expectations held; 1: one did not.
    """
    with without_collecting():  # imports create no garbage
        from mooring.cli.output import progress
        from mooring.sim.library import find
        from mooring.sim.simulate import run_scenario
        from mooring.sim.step_fields import parse_settings, seconds

    given = parse_settings(settings)
    until_s = None if until is None else seconds(until, "--until")
    if (record_path is not None or shows_page) and len(stories) > 1:
        raise UsageError(f"--{'ui' if shows_page else 'record'}: expected one story, a record is of one cluster")
    found = [with_scheduler(find(each, given), config_path, plugins, kubernetes_version) for each in stories]
    results: list[Simulation] = []
    with contextlib.ExitStack() as whole:
        wait = None
        if shows_page and record_path is None:
            folder = whole.enter_context(tempfile.TemporaryDirectory(prefix="mooring-"))
            record_path = os.path.join(folder, "simulation.mooring")
        with contextlib.ExitStack() as stack:
            show = stack.enter_context(progress("pods" if until_s is None else "s", eta=True))
            recorder = None
            if record_path is not None:
                from mooring.record.recorder import Recorder

                recorder = Recorder.to_file(record_path, source="simulation", inputs=found[0].records)
                stack.callback(recorder.close)
            if shows_page and record_path is not None:
                from mooring.cli.pages import page_during_run

                wait = whole.enter_context(page_during_run(record_path, found[0]))
            for each in found:
                try:
                    result = run_scenario(
                        each,
                        until_s=until_s,
                        seed=seed,
                        observers=() if recorder is None else (recorder,),
                        keeps_placements=placements,
                        on_progress=partial(show, each.name) if sys.stderr.isatty() else None,
                    )
                except (MooringError, click.ClickException):
                    raise
                except Exception as error:
                    raise InputError(f"{each.source}: the story failed: {type(error).__name__}: {error}") from error
                if result.is_mistake:
                    break
                results.append(result)
                if result.was_interrupted:
                    break
        values = [result.to_dict() for result in results]

        def draw(out: Console) -> None:
            for result in results:
                _draw(out, result)

        if results:
            emit(values[0] if len(found) == 1 else values, output, draw)
        if result.is_mistake:
            raise InputError(result.failure)
        if result.was_interrupted:
            raise KeyboardInterrupt
        if wait is not None:
            wait()
    return 0 if all(result.held for result in results) else 1


def _draw(out: Console, result: Simulation) -> None:
    out.print(f"{result.name}: {result.title}" if result.title else result.name, markup=False)
    waits = ", ".join(f"{name} {_duration(each)}" for name, each in result.waiting_s.items())
    came = f"{result.arrived:,} arrived, " if result.arrived else ""  # those of workloads
    pods = f"{came}{result.placed:,} placed, {len(result.pending):,} pending"
    print_facts(
        out,
        {
            "pods": pods + (f", {result.ended:,} ended" if result.ended else ""),
            "attempts": f"{result.attempts:,}{_overload(result)}"
            + (f", {count_of(result.evicted, 'pod')} evicted" if result.evicted else ""),
            "waiting": waits,
            "allocated": _allocated(result),
            **_gpus(result),
            "cost": _cost(result),
            "quota": _queues(result),
            "time": f"{_duration(result.ended_at_s)}" + (" (interrupted)" if result.was_interrupted else ""),
            "expected": _expected(result),
        },
    )
    reasons = list(result.pending_reasons().items())
    if reasons:
        rows = [(f"{count:,}", text) for text, count in reasons[:MOST_REASONS]]
        if len(reasons) > MOST_REASONS:
            rest = reasons[MOST_REASONS:]
            rows.append((f"{sum(count for _, count in rest):,}", f"{len(rest):,} other messages"))
        print_table(out, ("PENDING", "WHY"), rows)


def _gpus(result: Simulation) -> dict[str, str]:
    """Return the share of allocated GPUs when the last pod has arrived, and the demand until then.

    Where pods end, total demand says nothing about how full the cluster could be.
    """
    if not result.gpu_allocation or result.ended:
        return {}
    demand, allocated = list(result.gpu_allocation.items())[-1]
    return {"GPUs": f"{allocated:.2f} % allocated when pods had asked for {demand} %"}


MANY_ATTEMPTS = 20  # for each pod, on average


def _overload(result: Simulation) -> str:
    """Return a note if nearly all attempts are futile, and take nearly all of the time."""
    each = result.attempts // max(1, result.placed + len(result.pending))
    return f" ({each:,} for each pod: all that wait are tried when one ends)" if each >= MANY_ATTEMPTS else ""


def _allocated(result: Simulation) -> str:
    """Return the requested shares of resources, on average and at the end."""
    row = {} if result.measures is None else result.measures.row
    shares = [
        f"{name} {row.get(f'allocated.{name}', 0):.1%} ({at_end:.1%} at the end)"
        for name, at_end in result.allocated_at_end.items()
        if at_end or row.get(f"allocated.{name}")
    ]
    return f"{', '.join(shares) or 'nothing'} of {result.nodes:,} node{'s' if result.nodes != 1 else ''}"


def _cost(result: Simulation) -> str:
    cost = 0.0 if result.measures is None else float(result.measures.row.get("cost", 0))
    return f"{cost:,.2f}" if cost else ""


def _expected(result: Simulation) -> str:
    if result.failure:
        return f"NOT as expected: {result.failure}"
    return f"{result.expectations} of {result.expectations} held" if result.expectations else ""


def _queues(result: Simulation) -> str:
    """What has become of queued Jobs, one line for each ClusterQueue."""
    from mooring.sim.result import quantiles

    lines = []
    for name, each in sorted(result.queues.items()):
        waits = quantiles(each.waited_s)
        waited = f", waited p50 {_duration(waits['p50'])}, max {_duration(waits['max'])}" if waits else ""
        lines.append(
            f"{name}: {each.admitted:,} admitted, {each.preempted:,} preempted, {each.pending:,} pending{waited}"
        )
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    from mooring.api.times import format_duration

    return format_duration(round(seconds, 3))
