"""Importing files: which format a file has, and several files that belong together as one import.

The content decides; a name's ending only selects MessagePack.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mooring.api import yaml
from mooring.api.codec import from_plain
from mooring.api.core import Node
from mooring.api.errors import InputError
from mooring.api.times import human_duration
from mooring.record.files import file_and_time, names_a_record
from mooring.sim.imports import openb, simkube
from mooring.sim.imports.imported import Imported, Omissions, read_json
from mooring.sim.imports.objects import import_manifests
from mooring.sim.imports.recorded import import_own_record
from mooring.sim.imports.simulator import import_export, import_record, is_export, is_record
from mooring.sim.imports.story import check_workloads
from mooring.sim.tables import SIMPLE, SIMPLE_NODE_FIELDS, TraceTable, column_names, nodes_of_table
from mooring.sim.workload import Arrival, Setting, Trace

_EXPORT = re.compile(r"^(?:pods|nodes):", re.MULTILINE)  # manifests have no such field at the top
MOST_LENGTH_S = 10 * 366 * 24 * 3600.0
FORMATS = (
    "openb CSV", "kube-scheduler-simulator record or export", "SimKube trace", "Kubernetes manifests",
    "a table or record of mooring",
)  # fmt: skip


def import_all(names: Sequence[str]) -> Imported:
    """Import files that belong together; a record may have a time: ``run.mrec@90s``."""
    records = [name for name in names if names_a_record(name)]
    if len(records) > 1:
        raise InputError(f"{', '.join(names)}: {_instead(records)}")
    tables = [name for name in names if is_own_table(name)]
    others = [name for name in names if name not in records and name not in tables]
    parts = [*map(import_own_record, records), *(import_table(Path(name)) for name in tables)]
    if others or not parts:
        parts.append(import_files(others))
    found = merged(parts, names)
    _check_not_empty(found, ", ".join(names))
    check_workloads(found)
    return found


def _check_not_empty(found: Imported, files: str) -> None:
    if found.is_empty:
        what = f"; found {found.not_simulated[0]}" if found.not_simulated else ""
        raise InputError(f"{files}: nothing to simulate; expected nodes, pods or workloads{what}")


def _instead(records: Sequence[str]) -> str:
    """Return what to write instead of several records: each of them is a cluster with its pods."""
    cluster, workload = records[:2]
    found = f"{len(records)} records; expected one, which has a cluster and the pods that come"
    if file_and_time(cluster)[0] == file_and_time(workload)[0]:
        return found
    return f"{found}, or a story with the steps cluster: {cluster} and workload: {{record: {workload}}}"


def import_story(names: Sequence[str]) -> Imported:
    """Import files that are a story by themselves, unlike those of a step, to which others may add nodes and pods."""
    found = import_all(names)
    if not found.has_a_cluster:
        raise InputError(
            f"{', '.join(names)}: nothing to simulate; expected nodes, pods or workloads; found only {_kinds(found)}"
        )
    return found


def _kinds(found: Imported) -> str:
    """``2 × Service, 1 × PriorityClass``"""
    counts = Counter(type(obj).__name__ for obj in found.objects)
    return ", ".join(f"{number} × {kind}" for kind, number in counts.items())


def import_files(paths: Sequence[str | os.PathLike[str]]) -> Imported:
    """Import files that belong together: a table of nodes and one of pods, or a trace and the cluster it ran on."""
    if not paths:
        raise InputError("no file to import; expected at least one")
    places = [Path(path) for path in paths]
    parts: list[Imported] = []
    manifests: list[Path] = []
    contents: dict[Path, bytes] = {}
    for path in places:
        if not path.is_dir():
            contents[path] = _read(path)
        part = _import_other(path, contents.get(path, b""))
        if part is None:
            manifests.append(path)
        else:
            parts.append(part)
    if manifests:
        parts.append(import_manifests(manifests, contents))  # together: they may refer to each other
    whole = merged(parts, places)
    files = ", ".join(str(path) for path in places)
    _check_not_empty(whole, files)
    if whole.length_s > MOST_LENGTH_S:
        raise InputError(f"{files}: {human_duration(whole.length_s)} from the first to the last; expected at most 10y")
    return whole


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _import_other(path: Path, data: bytes) -> Imported | None:
    """The import of a file that is not Kubernetes manifests; None for one that is, or a directory."""
    if path.is_dir():
        return None
    if path.suffix in (".sktrace", ".msgpack") or (data[:1] and 0x80 <= data[0] <= 0x8F):  # a MessagePack map
        return simkube.import_trace(path, simkube.decode_msgpack(path, data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}); expected one of: {', '.join(FORMATS)}"
        ) from None
    if text.lstrip()[:1] == "{":
        try:
            return _import_json(path, text)
        except InputError:
            if path.suffix not in (".yaml", ".yml"):
                raise
            return None  # YAML may also begin with a brace
    if path.suffix in (".yaml", ".yml"):
        return _import_yaml(path, text)
    columns = openb.column_names(text)
    if path.suffix == ".csv" or len(columns) > 2:
        return _import_csv(path, text, columns)
    return None


def _import_json(path: Path, text: str) -> Imported | None:
    first = text.lstrip().split("\n", 1)[0]
    if '"resource"' in first and '"event"' in first:
        return import_record(path, text)
    value = read_json(text, str(path))
    if is_record(value):
        return import_record(path, text)
    if simkube.is_trace(value):
        return simkube.import_trace(path, value)
    if is_export(value):
        return import_export(path, value)
    return None


def _import_yaml(path: Path, text: str) -> Imported | None:
    if not _EXPORT.search(text):
        return None
    documents = yaml.load_documents(text, str(path))
    if len(documents) != 1 or not is_export(documents[0].value):
        return None
    if documents[0].duplicates:
        raise InputError(f"{path}: {documents[0].duplicates[0]}")
    return import_export(path, documents[0].value)


def _import_csv(path: Path, text: str, columns: list[str]) -> Imported:
    if "sn" in columns:
        return openb.import_nodes(path, text)
    if "name" in columns or "num_gpu" in columns:
        return openb.import_pods(path, text)
    nodes, pods = ", ".join(openb.NODE_COLUMNS), ", ".join(openb.POD_COLUMNS)
    found = ", ".join(columns)[:200] or "nothing"
    raise InputError(
        f"{path}, line 1: columns {found}; expected openb's nodes ({nodes}) or pods ({pods}), "
        "or fields of nodes (name, cpu, memory, zone …) or pods (name, at, run, cpu …)"
    )


def merged(parts: Sequence[Imported], places: Sequence[str | Path]) -> Imported:
    """One import of several; the times of each count from its own start."""
    if len(parts) == 1:
        return parts[0]
    whole = Imported(" and ".join(dict.fromkeys(part.format for part in parts)))
    seen: set[tuple[str, str]] = set()
    for part in parts:
        pods = (each.pod for each in (*part.known_pods, *part.arrivals))
        those = dict.fromkeys((type(obj).__name__, obj.key) for obj in (*part.objects, *pods))
        for identity in those:
            if identity in seen:
                files = ", ".join(str(path) for path in places)
                raise InputError(f"{files}: {' '.join(identity)} is in two of them; there can be only one of that name")
        seen.update(those)
        whole.objects += part.objects
        whole.known_pods += part.known_pods
        whole.workloads += part.workloads
        whole.places += part.places
        whole.arrivals += part.arrivals
        whole.changes += part.changes
        whole.config = whole.config or part.config
        whole.kubernetes_version = whole.kubernetes_version or part.kubernetes_version
        whole.feature_gates = whole.feature_gates or part.feature_gates
        whole.started_at = part.started_at if whole.started_at is None else whole.started_at
        whole.records += part.records
        whole.not_simulated += part.not_simulated
    if any(part.objects for part in parts):
        whole.not_simulated = [each for each in whole.not_simulated if not each.startswith("nodes: ")]
    whole.arrivals.sort(key=lambda each: each.at_s)
    whole.changes.sort(key=lambda each: each.at_s)
    return whole


# --------------------------------------------------------------------------------------------------------------------
# Tables of nodes and of pods as an import: CSV files that need no fields in the steps ``nodes`` and ``workload``.

_OPENB = {"sn", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}
_OF_NODES = (*SIMPLE_NODE_FIELDS, "labels.", "capacity.")
_OF_PODS = (*SIMPLE, "at", "run", "labels.", "requests.")


def is_own_table(name: str) -> bool:
    """Report whether a file is a CSV table with columns that are named as the fields of nodes or pods."""
    if not name.endswith((".csv", ".csv.gz")) or not Path(name).is_file():
        return False
    try:
        columns = column_names(Path(name))
    except InputError:
        return False  # the reader reports errors
    return not _OPENB.intersection(columns) and any(_is_field(column, (*_OF_NODES, *_OF_PODS)) for column in columns)


def import_table(path: Path) -> Imported:
    """The nodes of a table, or its pods at their times."""
    columns = TraceTable.open(path).columns
    is_of_pods = any(_is_field(column, _OF_PODS) and not _is_field(column, _OF_NODES) for column in columns)
    fields = _OF_PODS if is_of_pods else _OF_NODES
    omissions = Omissions()
    for column in columns:
        if not _is_field(column, fields):
            omissions.add(f"column {column!r}: no field has this name; in a story, fields can name columns", 0)
    if is_of_pods:
        return Imported("table of pods", arrivals=_arrivals(path, columns), not_simulated=omissions.lines())
    nodes = [from_plain(Node, each) for each in nodes_of_table({"csv": str(path)}, path)]
    return Imported("table of nodes", objects=list(nodes), not_simulated=omissions.lines())


def _arrivals(path: Path, columns: list[str]) -> list[Arrival]:
    if "at" not in columns:
        raise InputError(
            f"{path}, line 1: no column 'at'; expected the arrival time of each pod, "
            f"or a story with the step workload: {{csv: {path.name}, every: 1s}}"
        )
    # The story that plays the import admits its pods: only there priority classes are known.
    rows = Trace({}, path).arrivals(Setting(0, (), lambda pod: None))
    arrivals: list[Arrival] = []
    before_s = 0.0
    for each in rows:
        problem = each.problem_after(before_s)
        if problem:
            rows.throw(InputError(problem))  # it knows the line
        arrivals.append(each)
        before_s = each.at_s
    return arrivals


def _is_field(column: str, fields: tuple[str, ...]) -> bool:
    """Report whether a column fills in one of these fields; one that ends in a dot is a mapping."""
    return any(column == field or (field.endswith(".") and column.startswith(field)) for field in fields)
