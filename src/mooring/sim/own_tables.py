"""Tables of nodes and of pods as an import: CSV files that the steps ``nodes`` and ``workload`` need no fields for."""

from __future__ import annotations

from pathlib import Path

from mooring.api.codec import from_plain
from mooring.api.core import Node
from mooring.errors import InputError
from mooring.importing.imported import Arrival, Imported, Omissions
from mooring.sim import node_table, pod_shape
from mooring.sim.rows import Table, column_names
from mooring.sim.workload import Setting, Trace

_OPENB = {"sn", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
_OF_NODES = (*node_table.SIMPLE, "labels.", "capacity.")
_OF_PODS = (*pod_shape.SIMPLE, "at", "run", "labels.", "requests.")


def is_own_table(name: str) -> bool:
    """Whether a file is a CSV table with columns that are named as the fields of nodes or pods."""
    if not name.endswith((".csv", ".csv.gz")) or not Path(name).is_file():
        return False
    try:
        columns = column_names(Path(name))
    except InputError:
        return False  # whoever reads it says what is wrong with it
    return not _OPENB.intersection(columns) and any(_is_field(column, (*_OF_NODES, *_OF_PODS)) for column in columns)


def import_table(path: Path) -> Imported:
    """The nodes of a table, or its pods at their times."""
    columns = Table.open(path).columns
    is_of_pods = any(_is_field(column, _OF_PODS) and not _is_field(column, _OF_NODES) for column in columns)
    fields = _OF_PODS if is_of_pods else _OF_NODES
    omissions = Omissions()
    for column in columns:
        if not _is_field(column, fields):
            omissions.add(f"column {column!r}: no field has this name; in a story, fields can name columns", 0)
    if is_of_pods:
        return Imported("table of pods", arrivals=_arrivals(path, columns), not_simulated=omissions.lines())
    nodes = [from_plain(Node, each) for each in node_table.nodes_of_table({"csv": str(path)}, path)]
    return Imported("table of nodes", objects=list(nodes), not_simulated=omissions.lines())


def _arrivals(path: Path, columns: list[str]) -> list[Arrival]:
    if "at" not in columns:
        raise InputError(
            f"{path}, line 1: no column 'at'; expected the time at which each pod comes, "
            f"or a story with the step workload: {{csv: {path.name}, every: 1s}}"
        )
    # The story that plays the import admits its pods: only there the classes of priorities are known.
    rows = Trace({}, path).arrivals(Setting(0, (), lambda pod: None))
    arrivals: list[Arrival] = []
    before_s = 0.0
    for each in rows:
        problem = each.problem_after(before_s)
        if problem:
            rows.throw(InputError(problem))  # it knows the line
        arrivals.append(Arrival(each.at_s, each.pod, each.run_s))
        before_s = each.at_s
    return arrivals


def _is_field(column: str, fields: tuple[str, ...]) -> bool:
    """Whether a column fills in one of these fields; one that ends in a dot is a mapping."""
    return any(column == field or (field.endswith(".") and column.startswith(field)) for field in fields)
