"""Nodes from a CSV file: a row per node, its fields as texts with ``{column}`` in them."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.defaults import set_default_meta
from mooring.api.errors import InputError, MooringError
from mooring.api.meta import ObjectMeta
from mooring.api.text import hint
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.validation import is_label, is_subdomain
from mooring.controlplane.types.kind import Object
from mooring.sim.objects import check_admissible, node, taint
from mooring.sim.step_fields import fields_of, mapping, texts

# --------------------------------------------------------------------------------------------------------------------
# Rows of CSV files, and texts with ``{column}`` that are filled in from a row.

Row = dict[str, str]
NUMBER = "i"
"""Name of the row's number, from 1, in ``{i}``."""
_PLACE = re.compile(r"\{([^{}]+)\}")


_UNREADABLE = (csv.Error, UnicodeDecodeError, OSError, EOFError)  # the last two: a broken .gz


@dataclass(slots=True)
class TraceTable:
    """A CSV file: its header, and its rows, each with the line at which it ends."""

    path: Path
    columns: list[str]

    @classmethod
    def open(cls, path: Path) -> TraceTable:
        """Read the header."""
        columns = column_names(path)
        for i, name in enumerate(columns):
            if name in columns[:i]:
                raise InputError(f"{path}, line 1: the column {name!r} occurs twice")
        return cls(path, columns)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows lazily: a trace may be larger than the memory."""
        columns, width = self.columns, len(self.columns)
        with _opened(self.path) as file:
            reader = csv.reader(file)
            next(reader, None)
            try:
                for values in reader:
                    if len(values) == width:
                        yield reader.line_num, dict(zip(columns, map(str.strip, values), strict=True))
                    elif any(values):
                        raise InputError(
                            f"{self.path}, line {reader.line_num}: {len(values)} values; "
                            f"expected {width}, as the header has columns"
                        )
            except _UNREADABLE as error:
                raise _unreadable(self.path, error, reader.line_num + 1) from None

    def count(self) -> int:
        """Return the approximate number of rows, for a progress bar."""
        with _opened(self.path) as file, contextlib.suppress(*_UNREADABLE):  # the reader of the rows reports where
            return max(0, sum(1 for _ in file) - 1)
        return 0

    def check(self, used: Iterable[str], what: str) -> None:
        """Check that every column used by a text exists."""
        for name in used:
            if name != NUMBER and name not in self.columns:
                raise InputError(
                    f"{self.path}, line 1: no column {name!r}, which {what} needs; {hint(name, self.columns)}"
                )


def column_names(path: Path) -> list[str]:
    """Return the header's names."""
    with _opened(path) as file:
        try:
            header = next(csv.reader(file), None)
        except _UNREADABLE as error:
            raise _unreadable(path, error, 1) from None
    if not header or not any(header):
        raise InputError(f"{path}, line 1: no header; expected the names of columns with commas between them")
    return [name.strip().lstrip("\ufeff") for name in header]


def _unreadable(path: Path, error: Exception, line: int) -> InputError:
    if isinstance(error, UnicodeDecodeError):  # read in pieces: the line is unknown
        return InputError(f"{path}: not UTF-8 text; expected CSV")
    return InputError(f"{path}, line {line}: not CSV: {error}")


def _opened(path: Path) -> io.TextIOBase:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def columns_in(value: Any) -> set[str]:
    """Return the columns in texts of ``value``."""
    if isinstance(value, str):
        return set(_PLACE.findall(value))
    if isinstance(value, Mapping):
        return set().union(*(columns_in(each) for pair in value.items() for each in pair))
    if isinstance(value, list):
        return set().union(*(columns_in(each) for each in value))
    return set()


Fill = Callable[[Mapping[str, str]], Any]


def filler(value: Any) -> Fill:
    """Return a function from a row to ``value`` with every ``{column}`` filled in.

    A mapping or list leaves out entries whose column is empty.
    """
    if isinstance(value, str):
        return _text_filler(value)
    if isinstance(value, Mapping):
        pairs = [(filler(str(key)), filler(item), bool(columns_in(item))) for key, item in value.items()]
        return lambda row: {
            key(row): found for key, fill, may_lack in pairs if not ((found := fill(row)) in ("", {}, []) and may_lack)
        }
    if isinstance(value, list):
        items = [(filler(item), bool(columns_in(item))) for item in value]
        return lambda row: [
            found for fill, may_lack in items if not ((found := fill(row)) in ("", {}, []) and may_lack)
        ]
    return lambda row: value


def _text_filler(text: str) -> Fill:
    parts = _PLACE.split(text)  # texts and names alternate
    if len(parts) == 1:
        return lambda row: text
    if len(parts) == 3 and not parts[0] and not parts[2]:
        name = parts[1]
        return lambda row: row[name]
    names = parts[1::2]
    pattern = "{}".join(text.replace("{", "{{").replace("}", "}}") for text in parts[0::2])

    def fill(row: Mapping[str, str]) -> str:
        values = [row[name] for name in names]
        if not any(values):
            return ""  # a unit with no number before it
        return pattern.format(*values)

    return fill


_FIELDS = {"csv", "arrange", "name", "cpu", "memory", "pods", "zone", "zones", "labels", "taints", "capacity"}
SIMPLE_NODE_FIELDS = ("name", "cpu", "memory", "pods", "zone")
"""Fields that are one text: a column of that name fills them in."""


def nodes_of_table(value: Any, path: Path, arrange: Callable[[list[Row]], Iterable[Row]] | None = None) -> list[Object]:
    """Return the nodes of a CSV file, in the order of its rows, or as ``arrange`` returns them."""
    fields = fields_of(value, _FIELDS)
    del fields["csv"]
    fields.pop("arrange", None)
    table = TraceTable.open(path)
    fields = {**{name: f"{{{name}}}" for name in SIMPLE_NODE_FIELDS if name in table.columns}, **fields}
    zones = texts(fields.pop("zones", []), "zones")
    for group in ("labels", "capacity"):
        columns = {name.partition(".")[2]: f"{{{name}}}" for name in table.columns if name.startswith(f"{group}.")}
        fields[group] = {**columns, **mapping(fields.get(group), group)}
    fields["taints"] = texts(fields.get("taints", []), "taints")
    fields.setdefault("name", "node{i}")
    table.check(sorted(columns_in(fields)), "nodes")
    if not columns_in(fields) - {NUMBER}:
        raise InputError(f"{path}, line 1: no column that a field names; there are {', '.join(table.columns)}")
    fill = filler(fields)
    made: list[Object] = []
    lines: dict[str, int] = {}
    rows: Iterable[tuple[int, Row]] = table.rows()
    if arrange is not None:
        rows = enumerate(map(dict, arrange([row for _, row in rows])), 2)
    checked: set[str] = set()  # many rows are equal but for the name
    for number, (line, row) in enumerate(rows, 1):
        row["i"] = str(number)
        try:
            filled, zone = fill(row), zones[(number - 1) % len(zones)] if zones else ""
            made.append(_node(filled, zone))
            name = made[-1]["metadata"]["name"]
            rest = repr((zone, {**filled, "name": ""}))
            if rest not in checked or not is_label(name):  # such a name is allowed wherever a name is
                check_admissible(NODES, made[-1], from_plain(Node, made[-1]))
                checked.add(rest)
            if name in lines:
                raise InputError(f"node {name} is already in line {lines[name]}; there can be only one of that name")
            lines[name] = line
        except MooringError as error:
            raise InputError(f"{path}, line {line}: {error}") from None
    if not made:
        raise InputError(f"{path}: no row after the header; expected one per node")
    return made


def _node(fields: dict[str, Any], zone: str) -> Object:
    if not fields.get("name"):
        raise InputError("a node without a name")
    rest: dict[str, Any] = {name: str(fields[name]) for name in ("cpu", "memory", "pods") if fields.get(name)}
    capacity = {key: str(each) for key, each in fields.get("capacity", {}).items() if str(each) != "0"}
    labels = {key: str(each) for key, each in fields.get("labels", {}).items()}
    zone = str(fields.get("zone") or zone)
    return node(
        str(fields["name"]), zone=zone, labels=labels, capacity=capacity, taints=fields.get("taints", ()), **rest
    )


# --------------------------------------------------------------------------------------------------------------------
# The shape of a workload's pods: requests and placement, as fields with ``{column}``.

FIELDS = {"name", "namespace", "cpu", "memory", "requests", "labels", "annotations", "priority", "priorityClassName",
          "nodeSelector", "tolerations", "schedulerName", "spec"}  # fmt: skip
SIMPLE = ("name", "namespace", "cpu", "memory", "priority", "priorityClassName", "schedulerName")
"""Fields that are one text: a column of that name fills them in."""
IMAGE = "registry.k8s.io/pause:3.10"

Admit = Callable[[Pod], None]


class TracePodShape:
    """Creates pods. Those that differ only by name share everything else."""

    def __init__(self, fields: Mapping[str, Any], *, default_name: str) -> None:
        self._fields = dict(fields)
        pattern = str(self._fields.pop("name", default_name))
        self._namespace = filler(str(self._fields.pop("namespace", "") or "default"))
        for name in ("requests", "labels", "annotations", "nodeSelector", "spec"):
            mapping(self._fields.get(name), name)
        for each in texts(self._fields.get("tolerations", []), "tolerations"):
            _toleration(each)
        self.columns = columns_in(self._fields) | columns_in(pattern) | columns_in(str(fields.get("namespace", "")))
        self._kind_columns = sorted(columns_in(self._fields) - {"i"})
        self._is_numbered = "i" in columns_in(self._fields)
        self._name, self._fill = filler(pattern), filler(self._fields)
        self._kinds: dict[tuple[str, ...], Pod] = {}
        self._spaces: set[str] = set()

    def pod(self, row: Mapping[str, str], admit: Admit) -> Pod:
        """Return the pod of a row; ``admit`` completes it as an API server would."""
        columns = self._kind_columns
        key = tuple([row[name] for name in columns])
        kind = self._kinds.get(key)
        if kind is None or self._is_numbered:
            kind = self._made(self._fill(row), admit)
            self._kinds[key] = kind
        name, space = self._name(row), self._namespace(row) or "default"
        if not is_subdomain(name):
            raise InputError(f"name: expected lower case letters, digits, '-' and '.', found {name!r}")
        if space not in self._spaces:
            if not is_label(space):
                raise InputError(f"namespace: expected lower case letters, digits and '-', found {space!r}")
            self._spaces.add(space)
        meta = kind.metadata
        pod = kind.__copy__()
        pod.metadata = ObjectMeta(
            name=name, namespace=space, uid=f"pod:{space}/{name}", labels=meta.labels, annotations=meta.annotations
        )
        return pod

    @staticmethod
    def _made(fields: Mapping[str, Any], admit: Admit) -> Pod:
        made = manifest(fields)
        pod: Pod = from_plain(Pod, made)
        check_admissible(PODS, made, pod)
        set_default_meta(pod)
        admit(pod)
        return pod


def manifest(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod with these fields, as a manifest."""
    spec: dict[str, Any] = {**mapping(fields.get("spec"), "spec")}
    requests = {
        **{name: fields[name] for name in ("cpu", "memory") if fields.get(name)},
        **{name: each for name, each in mapping(fields.get("requests"), "requests").items() if str(each) != "0"},
    }
    containers = [dict(each) for each in spec.get("containers") or [{"name": "main", "image": IMAGE}]]
    if requests:
        resources = dict(containers[0].get("resources") or {})
        resources["requests"] = {**(resources.get("requests") or {}), **requests}
        extended = {name: each for name, each in requests.items() if "/" in name}
        if extended:
            resources["limits"] = {**(resources.get("limits") or {}), **extended}  # an API server wants both
        containers[0]["resources"] = resources
    spec["containers"] = containers
    for name in ("priorityClassName", "schedulerName"):
        if fields.get(name):
            spec[name] = str(fields[name])
    if str(fields.get("priority", "")):
        spec["priority"] = _whole(fields["priority"], "priority")
    if fields.get("tolerations"):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *map(_toleration, fields["tolerations"])]
    _select_nodes(spec, mapping(fields.get("nodeSelector"), "nodeSelector"))
    meta: dict[str, Any] = {"name": "pod", "namespace": "default"}
    for name in ("labels", "annotations"):
        if fields.get(name):
            meta[name] = {key: str(each) for key, each in mapping(fields[name], name).items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _select_nodes(spec: dict[str, Any], labels: Mapping[str, Any]) -> None:
    """Set a node selector for one value, or a required node affinity for several with | between them."""
    several = {key: str(each).split("|") for key, each in labels.items() if "|" in str(each)}
    single = {key: str(each) for key, each in labels.items() if key not in several and str(each)}
    if single:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **single}
    if not several:
        return
    if (spec.get("affinity") or {}).get("nodeAffinity"):
        raise InputError("nodeSelector: several values and spec.affinity.nodeAffinity exclude each other")
    terms = [{"key": key, "operator": "In", "values": values} for key, values in several.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    spec["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": affinity}


def _toleration(text: str) -> dict[str, Any]:
    """Parse ``key=value:Effect``, or ``key:Effect`` for any value, as taints are written."""
    if "{" in text:
        return {}
    wanted = taint(text)
    return {**wanted, "operator": "Equal" if "value" in wanted else "Exists"}


def _whole(value: Any, name: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise InputError(f"{name}: expected a whole number, found {value!r}") from None
    if not -(2**31) <= number < 2**31:
        raise InputError(f"{name}: expected a whole number of 32 bits, found {value!r}")
    return number
