"""``mooring bench growth``: what a decision costs on larger and larger clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from mooring.api.errors import UsageError
from mooring.api.text import hint
from mooring.cli.options import Integers
from mooring.cli.output import emit, output_option, print_table, progress, to_json

if TYPE_CHECKING:
    from mooring.bench.growth import Curve, GrowthPlan, Measured, Size

NODES, PODS, BOTH = "nodes", "pods", "both"


MOST = 1_000_000


def _sizes(_: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Numbers with commas between them."""
    if value is None:
        return None
    least = 1 if param.name == NODES else 0
    parts = value.split(",")
    for part in parts:
        if not part.strip().isdecimal() or not least <= int(part) <= MOST:
            raise UsageError(f"--{param.name}: {part!r} is not a number from {least} to {MOST}; write 500,1000")
    return tuple(int(part) for part in parts)


@click.command()
@click.option(
    "--by", type=click.Choice([BOTH, NODES, PODS]), default=BOTH, show_default=True, help="Choose what grows."
)
@click.option("--nodes", callback=_sizes, metavar="N,N,...", help="Use these node counts.  [default: 500 to 20,000]")
@click.option("--pods", callback=_sizes, metavar="N,N,...", help="Use these pod counts.  [default: 0 to 200,000]")
@click.option(
    "--pods-per-node",
    type=Integers(0, 100),
    default=10,
    show_default=True,
    help="Set the running pods when nodes grow.",
)
@click.option(
    "--fixed-nodes",
    type=Integers(1),
    default=5000,
    show_default=True,
    help="Set nodes when running pods grow.",
)
@click.option("--kind", "kinds", multiple=True, help="Measure this kind; repeatable.  [default: all]")
@click.option(
    "--decisions",
    type=Integers(20),
    default=450,
    show_default=True,
    help="Decide N times per kind and size.",
)
@click.option("--resume", type=click.Path(path_type=Path), help="Skip the sizes in this earlier --save file.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write the curves to this SVG file.")
@click.option("--before", type=click.Path(path_type=Path), help="Plot this earlier --save file beside, by nodes.")
@click.option("--save", type=click.Path(path_type=Path), help="Write results as JSON after each size.")
@output_option()
def growth(
    by: str,
    nodes: tuple[int, ...] | None,
    pods: tuple[int, ...] | None,
    pods_per_node: int,
    fixed_nodes: int,
    kinds: tuple[str, ...],
    decisions: int,
    resume: Path | None,
    plot: Path | None,
    before: Path | None,
    save: Path | None,
    output: str,
) -> None:
    """Measure how the cost of a decision grows with nodes and with running pods.

    Costs are CPU time, every feasible node scored: for pods of one template, where caches help, and for a template
    each, where none does. The power says how a cost grows: 0 is flat, 1 is linear. Each size runs in its own process,
    which also reports the memory of a node and of a running pod.

    \b
    Example:
      mooring bench growth --save growth.json --plot growth.svg
      mooring bench growth --by pods --kind spread
      mooring bench growth --resume growth.json --plot growth.svg
    """
    from mooring.bench import growth as growing
    from mooring.bench import growth_plot
    from mooring.bench.perf import report

    unknown = [kind for kind in kinds if kind not in growing.KINDS]
    if unknown:
        raise UsageError(f"--kind: no kind {unknown[0]!r}; {hint(unknown[0], growing.KINDS)}")
    for path in (plot, save):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: no such directory")
    plan = growing.GrowthPlan(
        nodes=() if by == PODS else nodes or growing.NODE_SIZES,
        pods=() if by == NODES else pods or growing.POD_SIZES,
        pods_per_node=pods_per_node,
        fixed_nodes=fixed_nodes,
    )
    older = growing.curves(growing.read(before)[0], plan) if before is not None else []
    chosen = kinds or tuple(growing.KINDS)
    about = report.about()
    known, earlier = growing.read(resume) if resume is not None else ([], about)
    found = {each.size: each for each in known if _has_all(each, growing.kinds_at(each.size, chosen))}
    sizes = [size for size in plan.sizes() if size not in found]
    if not sizes:  # nothing is measured now: what is shown was measured then
        about = earlier

    def value() -> dict[str, object]:
        return growing.document(_in_order(found, plan), plan, about)

    with progress("decisions") as show:
        for i, size in enumerate(sizes):
            advance = partial(show, f"{i + 1}/{len(sizes)} {size}")
            advance(0, 1)
            found[size] = growing.run(size, chosen, decisions, progress=advance)
            if save is not None:
                save.write_text(to_json(value()) + "\n", encoding="utf-8")
    if save is not None and not sizes:
        save.write_text(to_json(value()) + "\n", encoding="utf-8")
    measured = _in_order(found, plan)
    curves = growing.curves(measured, plan)
    if plot is not None:
        plot.write_text(growth_plot.growth(curves, plan, report.about_line(about), older), encoding="utf-8")

    def draw(out: Console) -> None:
        for what, title in ((NODES, "nodes"), (PODS, "running pods")):
            shown = [curve for curve in curves if curve.by == what]
            if shown:
                _draw_curves(out, title, shown)
        _draw_memory(out, measured, growing.memory(measured))
        out.print(report.about_line(about), style="dim")

    emit(value(), output, draw)


def _has_all(measured: Measured, kinds: Sequence[str]) -> bool:
    return {(cost.kind, cost.alike) for cost in measured.costs} >= {
        (k, alike) for k in kinds for alike in (True, False)
    }


def _in_order(found: dict[Size, Measured], plan: GrowthPlan) -> list[Measured]:
    return [found[size] for size in plan.sizes() if size in found]


def _draw_curves(out: Console, title: str, curves: Sequence[Curve]) -> None:
    sizes = sorted({size for curve in curves for size in curve.sizes})
    columns = ["pods", "alike", *(f"{size:,} {title if i == 0 else ''}".strip() for i, size in enumerate(sizes))]
    rows = []
    for curve in curves:
        cells = {
            size: f"{low:,.0f} / {median:,.0f}"
            for size, low, median in zip(curve.sizes, curve.p5_us, curve.median_us, strict=True)
        }
        rows.append(
            [
                curve.kind,
                "yes" if curve.alike else "no",
                *(cells.get(size, "-") for size in sizes),
                _power(curve.exponent),
                _power(curve.steepest),
                f"{curve.ratio:.2f}×",
            ]
        )
    out.print(f"by {title}: CPU µs per decision, 5th percentile / median")
    print_table(out, [*columns, "power", "steepest", "last by first"], rows)
    out.print()


def _power(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _draw_memory(out: Console, measured: Sequence[Measured], per_object: dict[str, float]) -> None:
    rows = [
        [
            f"{each.size.nodes:,}",
            f"{each.size.running_pods:,}",
            f"{each.nodes_mib:,.1f}",
            f"{each.pods_mib:,.1f}",
            f"{each.peak_mib:,.0f}",
            f"{each.build_cpu_s:.1f}",
            f"{each.reference_us:,.0f}",
        ]
        for each in measured
    ]
    print_table(
        out, ["nodes", "running pods", "nodes MiB", "pods MiB", "peak MiB", "CPU s to build", "reference µs"], rows
    )
    parts = [
        f"{per_object[key]:.2f} KiB per {name}"
        for key, name in (("kib_per_node", "node"), ("kib_per_pod", "running pod"))
        if key in per_object
    ]
    out.print(", ".join(parts))
