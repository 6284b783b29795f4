"""The order of arrivals in the published study of GPU fragmentation (FGD, USENIX ATC'23).

The whole trace comes first, in random order. Then pods of the trace are drawn again until all of them together ask for
130 % of the GPUs. Nodes get a number before their names that is drawn by lot: of equally good nodes the first one wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.gpus.openb import arrival_order, node_prefixes, read_pods
from mooring.gpus.requests import gpus_of

Row = dict[str, str]


def arrivals(rows: list[Row], *, seed: int, nodes: list[Any]) -> list[Row]:
    """The rows of the trace in the order in which their pods arrive."""
    return arrival_order([_cleaned(row) for row in rows], seed, gpus=sum(map(gpus_of, nodes)))


def nodes(rows: list[Row], *, seed: int, parameters: dict[str, Any]) -> list[Row]:
    """The rows of the nodes, with numbers before their names, in the order of these."""
    by_name = sorted(rows, key=lambda row: row["sn"])
    gpus = sum(int(float(row["gpu"] or 0)) for row in by_name)
    prefixes = node_prefixes(read_pods(Path(parameters["pods"])), seed, gpus=gpus, nodes=len(by_name))
    named = [{**row, "sn": f"{prefix:04d}-{row['sn']}"} for prefix, row in zip(prefixes, by_name, strict=True)]
    return sorted(named, key=lambda row: row["sn"])


def _cleaned(row: Row) -> Row:
    """A pod without a GPU has no share of one and asks for no model."""
    if float(row["num_gpu"] or 0) and float(row["gpu_milli"] or 0):
        return {**row, "gpu_spec": row.get("gpu_spec", "")}
    return {**row, "num_gpu": "", "gpu_milli": "", "gpu_spec": ""}
