"""``mooring bench``: measurements, with numbers for people and for programs."""

from __future__ import annotations

import itertools
import platform
from functools import partial
from typing import Any

import click
from rich.console import Console

from mooring.cli.bench_growth import growth
from mooring.cli.bench_gym import gym
from mooring.cli.bench_perf import perf, profile
from mooring.cli.bench_simulate import simulate
from mooring.cli.bench_soak import soak
from mooring.cli.configuration import features_for, version_option
from mooring.cli.help import Group
from mooring.cli.output import emit, output_option, print_table
from mooring.cli.progress import progress
from mooring.version import __version__

WORKLOADS = ("plain", "spread", "affinity", "anti-affinity", "mixed", "preemption", "volumes", "gang")


@click.group(cls=Group)
def bench() -> None:
    """Measure mooring and say what it costs.

    \b
    Example:
      mooring bench decide --nodes 5000 --workload spread
      mooring bench perf SchedulingBasic/5000Nodes
    """


bench.add_command(growth)
bench.add_command(gym)
bench.add_command(perf)
bench.add_command(profile)
bench.add_command(simulate)
bench.add_command(soak)


def _machine() -> dict[str, str]:
    import numpy

    return {
        "mooring": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "system": platform.platform(terse=True),
    }


@bench.command()
@click.option("--nodes", type=click.IntRange(1, 100_000), default=5000, show_default=True, help="Nodes in the cluster.")
@click.option("--pods", type=click.IntRange(1), default=1000, show_default=True, help="Pods to place per row.")
@click.option("--running", type=click.IntRange(0), default=0, show_default=True, help="Pods that run there already.")
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(WORKLOADS),
    multiple=True,
    help="What pods ask for; repeat for several.",
)
@click.option("--memory", is_flag=True, help="Also the memory that 5,000 nodes with 150,000 pods take.")
@version_option
@output_option()
def decide(
    nodes: int,
    pods: int,
    running: int,
    workloads: tuple[str, ...],
    memory: bool,
    kubernetes_version: str | None,
    output: str,
) -> None:
    """Time decisions on generated clusters, in this process, every feasible node scored.

    Each workload is measured twice: with pods of one template ("alike", where caches help) and with a template per
    pod (where none does). In the workload "gang" all pods are one pod group, decided in one go as Kubernetes 1.37 does;
    times are per pod.

    \b
    Example:
      mooring bench decide --nodes 5000 --pods 2000 --workload plain --workload spread
    """
    from mooring.bench.decisions import Result, measure, measure_state

    features = features_for(kubernetes_version)
    wanted = workloads or ("plain", "spread", "affinity", "mixed")
    plan: list[dict[str, Any]] = [
        {"workload": name, "nodes": nodes, "running": running, "alike": alike, "pods": _capped(name, pods)}
        for name in wanted
        for alike in (True, False)
        if alike or name not in ("preemption", "volumes")
    ]
    results: list[Result] = []
    with progress("pods") as show:
        for i, row in enumerate(plan, 1):
            pods_are = "alike" if row["alike"] else "each of its own template"
            part = f"{i}/{len(plan)} {row['workload']}, {nodes:,} nodes, pods {pods_are}"
            show(part, 0, row["pods"])
            results.append(measure(progress=partial(show, part), features=features, **row))
    state = measure_state(5000, 150_000) if memory else None
    value = {"machine": _machine(), "results": [result.to_dict() for result in results], "state": state}

    def draw(out: Console) -> None:
        print_table(
            out,
            ["workload", "nodes", "running", "pods alike", "median µs", "p99 µs", "CPU s / 1,000 pods", "peak MiB"],
            [
                [
                    result.workload,
                    f"{result.nodes:,}",
                    f"{result.running_pods:,}",
                    "yes" if result.alike else "no",
                    f"{result.median_us:,.0f}",
                    f"{result.p99_us:,.0f}",
                    f"{result.cpu_s_per_1000:.3f}",
                    f"{result.peak_mib:,.0f}",
                ]
                for result in results
            ],
        )
        if state is not None:
            out.print(
                f"state of {state['nodes']:,.0f} nodes and {state['running_pods']:,.0f} pods: "
                f"{state['state_mib']:,.0f} MiB, built in {state['build_cpu_s']} CPU seconds"
            )

    emit(value, output, draw)


@bench.command()
@click.option("--nodes", type=click.IntRange(1, 50_000), default=5000, show_default=True, help="Nodes per request.")
@click.option("--calls", type=click.IntRange(1), default=50, show_default=True, help="Calls per measurement.")
@click.option("--clients", type=click.IntRange(1, 64), default=2, show_default=True, help="Clients at a time.")
@output_option()
def extender(nodes: int, calls: int, clients: int, output: str) -> None:
    """Time an extender written with the SDK, and a naive one beside it, over HTTP.

    \b
    Example:
      mooring bench extender --nodes 5000
    """
    from mooring.bench.extender import PARTS, run
    from mooring.bench.extender import draw as draw_result

    begun = itertools.count()
    with progress("parts") as show:
        result = run(nodes, calls, clients, progress=lambda part: show(part, next(begun), PARTS))
    emit({"machine": _machine(), **result}, output, lambda out: draw_result(result, out.print))


def _capped(workload: str, pods: int) -> int:
    """Preempting decisions are slow, and 200 of them are enough to measure."""
    return min(pods, 200) if workload == "preemption" else pods
