"""The order of arrivals in the published study of GPU fragmentation (FGD, USENIX ATC'23).

The whole trace comes first, in random order. Then pods of the trace are drawn again until all of them together ask for
130 % of the GPUs. Nodes get a number before their names that is drawn by lot: of equally good nodes the first one wins.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from mooring.api.errors import InputError
from mooring.core.plugins.gpus.openb import arrival_order, node_prefixes, read_pods
from mooring.core.plugins.gpus.requests import gpus_of

Row = dict[str, str]


def arrivals(rows: list[Row], *, seed: int, nodes: list[Any]) -> list[Row]:
    """The rows of the trace in the order in which their pods arrive."""
    return arrival_order([_cleaned_pod(row) for row in rows], seed, gpus=sum(map(gpus_of, nodes)))


def nodes(rows: list[Row], *, seed: int, parameters: dict[str, Any]) -> list[Row]:
    """The rows of the nodes in the order of their names, with numbers before these."""
    by_name = sorted((_whole(row, "cpu_milli", "memory_mib", "gpu") for row in rows), key=lambda row: row["sn"])
    gpus = sum(int(row["gpu"]) for row in by_name)
    prefixes, _ = node_prefixes(read_pods(Path(parameters["pods"])), seed, gpus=gpus, nodes=len(by_name))
    return [{**row, "sn": f"{prefix:04d}-{row['sn']}"} for prefix, row in zip(prefixes, by_name, strict=True)]


def _cleaned_pod(row: Row) -> Row:
    """A pod without a GPU has no share of one and asks for no model."""
    row = _whole(row, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    if row["num_gpu"] == "0" or row["gpu_milli"] == "0":
        return {**row, "num_gpu": "", "gpu_milli": "", "gpu_spec": ""}
    return {**row, "gpu_milli": str(min(1000, int(row["gpu_milli"]))), "gpu_spec": row.get("gpu_spec", "")}


@lru_cache(maxsize=4096)
def _whole_text(text: str) -> str:
    return str(int(float(text or 0)))


def _whole(row: Row, *columns: str) -> Row:
    """The row with whole numbers in these columns: some programs write 1000.0, or nothing for 0."""
    found = dict(row)
    for column in columns:
        try:
            found[column] = _whole_text(row[column])
        except KeyError:
            raise InputError(f"no column {column}; there are {', '.join(row)}") from None
        except ValueError:
            name = row.get("name") or row.get("sn")
            raise InputError(f"{name}: {column}: {row[column]!r}, expected a number") from None
    return found
