"""``mooring bench``: measurements, as tables and JSON."""

from __future__ import annotations

import platform
from functools import partial
from typing import Any

import click
from rich.console import Console

from mooring.api.errors import MooringError, UsageError
from mooring.api.version import __version__
from mooring.cli.bench_growth import growth
from mooring.cli.bench_perf import perf
from mooring.cli.options import Group, Integers, examples, features_for, version_option
from mooring.cli.output import emit, output_option, print_table, progress

# --------------------------------------------------------------------------------------------------------------------
# ``mooring bench gym``: steps per second of the environment for learned policies.


@click.command()
@click.option(
    "--nodes",
    type=Integers(1, 100_000),
    multiple=True,
    default=(100, 1213),
    show_default=True,
    help="Use N nodes; repeatable.",
)
@click.option("--steps", type=Integers(1), default=5000, show_default=True, help="Measure N steps.")
@output_option()
def gym(nodes: tuple[int, ...], steps: int, output: str) -> None:
    """Time the steps of the environment in mooring.sim.gym, on one core.

    A step makes an observation, the mask of feasible nodes and a reward. Actions are drawn from those that the mask
    allows. The time is CPU time of this process.

    \b
    Example:
      mooring bench gym --nodes 100
    """
    try:
        from mooring.bench.environment import measure
    except ImportError as error:
        raise UsageError(str(error)) from None

    results = [measure(each, steps) for each in nodes]

    def draw(out: Console) -> None:
        rows = [
            [f"{each.nodes:,}", f"{each.steps:,}", f"{each.steps_per_s:,.0f}", f"{each.reset_ms:,.0f}"]
            for each in results
        ]
        print_table(out, ["nodes", "steps", "steps / CPU s", "reset ms"], rows)

    emit({"results": [each.to_dict() for each in results]}, output, draw)


# --------------------------------------------------------------------------------------------------------------------
# ``mooring bench simulate``: the cost of simulations.

PARTS = ("like", "week", "openb")


@click.command(
    epilog=examples(
        "mooring bench simulate --part like --part week --pods 20000",
        "mooring bench simulate --part openb --openb-nodes NODES.csv --openb-pods PODS.csv --policy FGD",
        "mooring bench simulate --part week --pods 1000000 --record",
    )
)
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Measure this part; repeatable.")
@click.option("--nodes", type=Integers(1, 10_000), default=1000, show_default=True, help="Set the number of nodes.")
@click.option("--pods", type=Integers(1), default=20_000, show_default=True, help="Use N pods in like and week.")
@click.option(
    "--openb",
    "story",
    default="examples/gpu-fragmentation/openb.yaml",
    metavar="FILE",
    help="Play this, not the example's openb.yaml.",
)
@click.option("--openb-nodes", metavar="FILE", help="Read openb's nodes from this CSV file.")
@click.option("--openb-pods", metavar="FILE", help="Read openb's pods from this CSV file.")
@click.option(
    "--policy", "policies", default=("default",), multiple=True, help="Use this policy for openb; repeatable."
)
@click.option("--record", "is_recorded", is_flag=True, help="Measure each part again with a record.")
@click.option("--seed", default=42, show_default=True, metavar="N", help="Set the random seed.")
@output_option()
def simulate(
    parts: tuple[str, ...],
    nodes: int,
    pods: int,
    story: str,
    openb_nodes: str | None,
    openb_pods: str | None,
    policies: tuple[str, ...],
    is_recorded: bool,
    seed: int,
    output: str,
) -> None:
    """Measure simulations in CPU time, each in its own process.

    like: pods of one template, all at once. week: pods that arrive within a simulated week and end again. openb: the
    GPU trace of examples/gpu-fragmentation/openb.yaml with kube-scheduler's default profile, or with the policies that
    are named.
    """
    from mooring.bench.own_process import own_process
    from mooring.bench.simulations import like, week

    has_openb = openb_nodes is not None and openb_pods is not None
    if "openb" in parts and not has_openb:
        raise UsageError("--part openb: its files are missing; give --openb-nodes and --openb-pods")
    wanted = parts or tuple(part for part in PARTS if part != "openb" or has_openb)
    trace = {"nodes": openb_nodes, "pods": openb_pods}
    stories: dict[str, tuple[Any, dict[str, Any]]] = {}
    if "like" in wanted:
        stories["like"] = like(pods, nodes), {}
    if "week" in wanted:
        stories["week"] = week(pods, nodes), {}
    for policy in policies if "openb" in wanted else ():
        stories["openb" if policy == "default" else f"openb {policy}"] = story, {**trace, "policy": policy}
    results: dict[str, dict[str, Any]] = {}
    with progress("parts") as show:
        for number, (part, (of_story, parameters)) in enumerate(stories.items()):
            show(part, number, len(stories))
            request = {"story": of_story, "parameters": parameters, "seed": seed}
            for records in (False, True) if is_recorded else (False,):
                with own_process("mooring.bench.simulations", {**request, "isRecorded": records}) as process:
                    found = next(process.answers(), {})
                if not found:
                    raise MooringError(f"{part}: the measurement ended with exit code {process.exit_code}")
                if records:
                    record = {"cpuSeconds": found["cpuSeconds"], "peakMiB": found["peakMiB"], **found["record"]}
                    results[part]["record"] = record
                else:
                    results[part] = found

    def draw(out: Console) -> None:
        columns = ("pods", "nodes", "attempts", "CPU s", "pods / CPU s", "simulated h", "peak MiB")
        rows = [
            (
                part,
                f"{each['arrived']:,}",
                f"{each['nodes']:,}",
                f"{each['attempts']:,}",
                f"{each['cpuSeconds']:,.2f}",
                f"{each['podsPerCpuSecond']:,}",
                f"{each['simulatedSeconds'] / 3600:,.1f}",
                f"{each['peakMiB']:,}",
            )
            for part, each in results.items()
        ]
        print_table(out, ("part", *columns), rows)
        if is_recorded:
            out.print()
            print_table(out, ("part", "recorded CPU s", "more", "MiB", "bytes / attempt", "open CPU s"), recorded())

    def recorded() -> list[tuple[str, ...]]:
        return [
            (
                part,
                f"{each['record']['cpuSeconds']:,.2f}",
                f"{each['record']['cpuSeconds'] / each['cpuSeconds'] - 1:.0%}",
                f"{each['record']['bytes'] / (1 << 20):,.1f}",
                f"{each['record']['bytesPerAttempt']:,.0f}",
                f"{each['record']['openCpuSeconds']:,.2f}",
            )
            for part, each in results.items()
        ]

    emit(results, output, draw)


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
bench.add_command(simulate)


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
@click.option("--nodes", type=Integers(1, 1_000_000), default=5000, show_default=True, help="Set the number of nodes.")
@click.option("--pods", type=Integers(1), default=1000, show_default=True, help="Place N pods per row.")
@click.option("--running", type=Integers(0), default=0, show_default=True, help="Start with N running pods.")
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(WORKLOADS),
    multiple=True,
    metavar="NAME",
    help="Choose what pods request; repeatable.",
)
@click.option("--alike", is_flag=True, help="Use only pods of one template.")
@click.option("--memory", is_flag=True, help="Measure memory at 5,000 nodes, too.")
@version_option
@output_option()
def decide(
    nodes: int,
    pods: int,
    running: int,
    workloads: tuple[str, ...],
    alike: bool,
    memory: bool,
    kubernetes_version: str | None,
    output: str,
) -> None:
    """Time decisions on generated clusters, in this process, every feasible node scored.

    Workloads: plain, spread, affinity and mixed, which are the default; anti-affinity, preemption, volumes and gang.
    Each is measured twice: with pods of one template ("alike", where caches help) and with a template per
    pod (where none does). In the workload "gang" all pods are one pod group, decided in one go as Kubernetes 1.37 does;
    times are per pod.

    \b
    Example:
      mooring bench decide --nodes 5000 --pods 2000 --workload plain --workload spread
      mooring bench decide --nodes 1000000 --pods 1000000 --workload plain --alike
    """
    from mooring.bench.decisions import DecisionMeasurement, measure, measure_state

    features = features_for(kubernetes_version)
    wanted = workloads or ("plain", "spread", "affinity", "mixed")
    plan: list[dict[str, Any]] = [
        {"workload": name, "nodes": nodes, "running": running, "alike": are_alike, "pods": _capped(name, pods)}
        for name in wanted
        for are_alike in (True, False)
        if are_alike or not (alike or name in ("preemption", "volumes"))
    ]
    results: list[DecisionMeasurement] = []
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


def _capped(workload: str, pods: int) -> int:
    """Limit preempting decisions, which are slow: 200 of them are enough to measure."""
    return min(pods, 200) if workload == "preemption" else pods
