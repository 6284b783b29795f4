"""``mooring bench simulate``: what simulations cost."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from mooring.cli.help import examples
from mooring.cli.output import emit, output_option, print_table
from mooring.cli.progress import progress
from mooring.errors import MooringError, UsageError

PARTS = ("like", "week", "openb")


@click.command(
    epilog=examples(
        "mooring bench simulate --part like --part week --pods 20000",
        "mooring bench simulate --part openb --openb-nodes NODES.csv --openb-pods PODS.csv --policy FGD",
        "mooring bench simulate --part week --pods 1000000 --record",
    )
)
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="What to measure; repeat for several.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Nodes in the cluster.")
@click.option("--pods", type=click.IntRange(1), default=20_000, show_default=True, help="Pods of like and of week.")
@click.option("--openb", "story", default="examples/gpu-fragmentation/openb.yaml", metavar="FILE", show_default=True)
@click.option("--openb-nodes", metavar="FILE", help="openb_node_list_gpu_node.csv; openb is left out without it.")
@click.option("--openb-pods", metavar="FILE", help="openb_pod_list_default.csv")
@click.option("--policy", "policies", default=("default",), multiple=True, help="Of openb; repeat for several.")
@click.option("--record", "is_recorded", is_flag=True, help="Measure each part again with a record of it.")
@click.option("--seed", default=42, show_default=True, metavar="N")
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
    """Measure simulations in CPU time, each in a process of its own.

    like: pods of one template, all at once. week: pods that arrive within a simulated week and end again. openb: the
    GPU trace with kube-scheduler's default profile, or with the policies that are named.
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
                    raise MooringError(f"{part}: the measurement broke off with exit code {process.exit_code}")
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
