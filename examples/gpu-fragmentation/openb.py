"""The order of arrivals in the published study of GPU fragmentation (FGD, USENIX ATC'23).

The whole trace comes first, in random order. Then pods of the trace are drawn again until all of them together ask for
130 % of the GPUs.
"""

from __future__ import annotations

from typing import Any

from mooring.gpus.openb import arrival_order
from mooring.gpus.requests import gpus_of

Row = dict[str, str]


def arrivals(rows: list[Row], *, seed: int, nodes: list[Any]) -> list[Row]:
    """The rows of the trace in the order in which their pods arrive."""
    return arrival_order([_cleaned(row) for row in rows], seed, gpus=sum(map(gpus_of, nodes)))


def _cleaned(row: Row) -> Row:
    """A pod without a GPU has no share of one and asks for no model."""
    if float(row["num_gpu"] or 0) and float(row["gpu_milli"] or 0):
        return {**row, "gpu_spec": row.get("gpu_spec", "")}
    return {**row, "num_gpu": "", "gpu_milli": "", "gpu_spec": ""}
