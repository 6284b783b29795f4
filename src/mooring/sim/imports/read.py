"""Import files by what is in them; a name's ending only says whether bytes are MessagePack."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.api.times import human_duration
from mooring.sim.imports import openb, simkube
from mooring.sim.imports.imported import Imported, read_json
from mooring.sim.imports.objects import import_manifests
from mooring.sim.imports.openb import column_names
from mooring.sim.imports.simulator import import_export, import_record, is_export, is_record

_EXPORT = re.compile(r"^(?:pods|nodes):", re.MULTILINE)  # manifests have no such field at the top
MOST_LENGTH_S = 10 * 366 * 24 * 3600.0
FORMATS = (
    "openb CSV", "kube-scheduler-simulator record or export", "SimKube trace", "Kubernetes manifests",
    "a table or record of mooring",
)  # fmt: skip


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
        parts.append(import_manifests(manifests, contents))  # together: they may be about each other
    whole = merged(parts, places)
    files = ", ".join(str(path) for path in places)
    if whole.is_empty:
        found = f"; found {whole.not_simulated[0]}" if whole.not_simulated else ""
        raise InputError(f"{files}: nothing to simulate; expected nodes, pods or workloads{found}")
    if whole.length_s > MOST_LENGTH_S:
        raise InputError(f"{files}: {human_duration(whole.length_s)} from the first to the last; at most 10y is right")
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
            return None  # YAML may begin with a brace, too
    if path.suffix in (".yaml", ".yml"):
        return _import_yaml(path, text)
    columns = column_names(text)
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
