"""The openb tables: a production GPU cluster's nodes and pods as CSV (FGD, USENIX ATC'23).

| column | becomes |
|---|---|
| nodes: sn, cpu_milli, memory_mib | name and allocatable of a Node, with the study's pod limit |
| nodes: gpu, model | allocatable ``alibabacloud.com/gpu-count`` and ``gpu-milli``, label ``gpu-card-model`` |
| pods: cpu_milli, memory_mib | requests |
| pods: num_gpu, gpu_milli | a request of ``alibabacloud.com/gpu-milli`` in total; two annotations |
| pods: gpu_spec | required node affinity to these models; annotation ``gpu-card-model`` |
| pods: creation_time | the time of arrival; the first one is second 0 |
| pods: deletion_time, scheduled_time | the run time: from one to the other |

These are the names of resources and annotations that the study's own manifests use.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from mooring.api.core import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceList,
    ResourceRequirements,
)
from mooring.api.defaults import Admission, set_defaults
from mooring.api.errors import InputError
from mooring.api.meta import ObjectMeta
from mooring.api.well_known import HOSTNAME
from mooring.core.plugins.gpus.requests import COUNT as GPU_COUNT
from mooring.core.plugins.gpus.requests import MILLI as GPU_MILLI
from mooring.core.plugins.gpus.requests import MODEL as GPU_MODEL
from mooring.sim.imports.imported import Imported, Omissions
from mooring.sim.workload import Arrival

# --------------------------------------------------------------------------------------------------------------------
# CSV files with a header, read strictly: every mistake is reported with its file and line.

MOST = 2**43 - 1  # of any number: in MiB it still fits 63 bits as bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table. ``where`` is its file and line."""

    where: str
    values: dict[str, str]

    def text(self, column: str) -> str:
        """What stands in a column that must not be empty."""
        found = self.values[column]
        if not found:
            raise InputError(f"{self.where}: {column}: empty, expected text")
        return found

    def number(self, column: str, *, default: int | None = None) -> int:
        """A whole number, 0 or more; ``default`` stands for an empty or absent column."""
        found = self.values.get(column, "")
        if not found and default is not None:
            return default
        # Only ASCII digits: int() also takes "1_000" and "٣".
        if not (found.isascii() and found.isdigit()):
            kind = "a negative number" if found[:1] == "-" and found[1:].isdigit() else repr(found[:40])
            raise InputError(f"{self.where}: {column}: {kind}, expected a whole number, 0 or more")
        if len(found) > 15 or int(found) > MOST:
            raise InputError(f"{self.where}: {column}: {found[:20]}, expected at most {MOST}")
        return int(found)


def read_table(path: Path, text: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows below the header, which must name these columns and may name more; empty lines are skipped."""
    lines = csv.reader(text.splitlines(keepends=True), strict=True)
    header: list[str] = []
    has_rows = False
    try:
        for values in lines:
            where = f"{path}, line {lines.line_num}"
            if not values:
                continue
            if not header:
                header = _header(values, columns, where)
                continue
            if len(values) != len(header):
                raise InputError(f"{where}: {len(values)} values where the header has {len(header)} columns")
            has_rows = True
            yield Row(where, dict(zip(header, (value.strip() for value in values), strict=True)))
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num}: {error}; expected comma-separated values") from None
    if not header:
        raise InputError(f"{path}: an empty file; expected a line that names the columns: {', '.join(columns)}")
    if not has_rows:
        raise InputError(f"{path}: nothing below the header; expected a row for each node or pod")


def column_names(text: str) -> list[str]:
    """The names in the first line that is not empty, without a check."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return [name.strip() for name in first.split(",")]


def _header(values: list[str], columns: Sequence[str], where: str) -> list[str]:
    names = [value.strip() for value in values]
    for column in columns:
        if column not in names:
            found = ", ".join(names)[:200]
            raise InputError(f"{where}: no column {column!r}; found {found}; expected {', '.join(columns)}")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: the column {name!r} occurs twice")
    return names


PODS_PER_NODE = 1001  # the study's limit
WHOLE_GPU = 1000
MOST_NAME = 63  # a node's name is also a label
MOST_RUN_S = 10 * 365 * 24 * 3600
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MODEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def import_nodes(path: Path, text: str) -> Imported:
    """A table of nodes."""
    nodes = [_node(row) for row in _distinct(read_table(path, text, NODE_COLUMNS), "sn")]
    set_defaults(nodes)
    return Imported("openb nodes", objects=list(nodes))


def _node(row: Row) -> Node:
    name, gpus, model = row.text("sn"), row.number("gpu"), row.values["model"]
    _check_model(row, "model", model)
    amounts: ResourceList = {
        "cpu": f"{row.number('cpu_milli')}m",
        "memory": f"{row.number('memory_mib')}Mi",
        "pods": str(PODS_PER_NODE),
    }
    labels = {HOSTNAME: name}
    if gpus:
        amounts |= {GPU_COUNT: str(gpus), GPU_MILLI: str(gpus * WHOLE_GPU)}
        labels |= {GPU_MODEL: model} if model else {}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels), status=NodeStatus(capacity=amounts, allocatable=dict(amounts))
    )


def import_pods(path: Path, text: str) -> Imported:
    """A table of pods. In a table without times all pods arrive at the start, in the table's order."""
    omissions = Omissions()
    shapes: dict[tuple[int, int, int, int, str], Pod] = {}
    arrivals = [_arrival(row, shapes, omissions) for row in _distinct(read_table(path, text, POD_COLUMNS), "name")]
    first_s = min((arrival.at_s for arrival in arrivals), default=0.0)
    arrivals = [Arrival(each.at_s - first_s, each.pod, each.run_s) for each in arrivals]
    arrivals.sort(key=lambda each: each.at_s)  # stable: pods of one second stay in the order of the table
    if any(each.pod.metadata.annotations for each in arrivals):
        omissions.add("which GPU of its node a pod gets: without the plugin GpuShare a node's GPUs are one amount", 0)
    return Imported("openb pods", arrivals=arrivals, not_simulated=omissions.lines())


def _arrival(row: Row, shapes: dict[tuple[int, int, int, int, str], Pod], omissions: Omissions) -> Arrival:
    gpus = row.number("num_gpu")
    milli = row.number("gpu_milli") if gpus else 0
    if milli > WHOLE_GPU or (gpus and not milli):
        raise InputError(f"{row.where}: gpu_milli: {milli}, expected 1 to {WHOLE_GPU}, a part of one GPU")
    models = row.values.get("gpu_spec", "") if gpus else ""
    for model in models.split("|") if models else ():
        _check_model(row, "gpu_spec", model, can_lack=False)
    shape = (row.number("cpu_milli"), row.number("memory_mib"), gpus, milli, models)
    like = shapes.get(shape)
    if like is None:
        like = shapes[shape] = _shape(*shape)
    # Pods of one shape share their spec, as copies of one template do.
    pod = copy(like)
    pod.metadata = copy(like.metadata)
    pod.metadata.annotations = dict(like.metadata.annotations)
    pod.metadata.name = row.text("name")
    pod.metadata.namespace, pod.metadata.uid = "default", f"pod:default/{pod.metadata.name}"
    for column, why in (("qos", "nothing that scheduling reads"), ("pod_phase", "an outcome of the recorded cluster")):
        if row.values.get(column):
            omissions.add(f"{column} of a pod: {why}")
    arrived_s = row.number("creation_time", default=0)
    return Arrival(float(arrived_s), pod, _run_s(row, arrived_s, omissions))


def _run_s(row: Row, arrived_s: int, omissions: Omissions) -> float | None:
    if not row.values.get("deletion_time"):
        return None
    ended_s = row.number("deletion_time")
    started_s = row.number("scheduled_time", default=arrived_s)
    if not row.values.get("scheduled_time"):
        omissions.add("pod without scheduled_time: its run time is taken to begin at creation_time")
    for name, later_s, earlier, earlier_s in (
        ("deletion_time", ended_s, "creation_time", arrived_s),
        ("scheduled_time", started_s, "creation_time", arrived_s),
        ("deletion_time", ended_s, "scheduled_time", started_s),
    ):
        if later_s < earlier_s:
            raise InputError(f"{row.where}: {name} {later_s} is before {earlier} {earlier_s}; it cannot be earlier")
    if ended_s - started_s > MOST_RUN_S:
        raise InputError(f"{row.where}: deletion_time {ended_s}; expected at most ten years after {started_s}")
    return float(ended_s - started_s)


def _check_model(row: Row, column: str, model: str, *, can_lack: bool = True) -> None:
    """A model is the value of a label."""
    if (model or not can_lack) and not (len(model) <= MOST_NAME and _MODEL.fullmatch(model)):
        raise InputError(
            f"{row.where}: {column}: {model[:80]!r} is not a model; expected at most {MOST_NAME} letters, digits, '-', "
            "'_' and '.', a letter or digit first and last, such as V100M32"
        )


_ADMISSION = Admission(())


def _shape(cpu_milli: int, memory_mib: int, gpus: int, milli: int, models: str) -> Pod:
    requests: ResourceList = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    annotations: dict[str, str] = {}
    affinity: Affinity | None = None
    if gpus:
        requests[GPU_MILLI] = str(gpus * milli)
        annotations = {GPU_COUNT: str(gpus), GPU_MILLI: str(milli)}
    if models:
        annotations[GPU_MODEL] = models
        wanted = NodeSelectorRequirement(key=GPU_MODEL, operator="In", values=models.split("|"))
        term = NodeSelectorTerm(match_expressions=[wanted])
        affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[term])))
    container = Container(name="main", resources=ResourceRequirements(requests=requests, limits=_limits(requests)))
    pod = Pod(
        metadata=ObjectMeta(name="shape", namespace="default", annotations=annotations),
        spec=PodSpec(containers=[container], affinity=affinity),
    )
    _ADMISSION.admit_pod(pod)
    return pod


def _limits(requests: ResourceList) -> ResourceList:
    """An extended resource needs a limit, and it equals the request."""
    return {GPU_MILLI: requests[GPU_MILLI]} if GPU_MILLI in requests else {}


def _distinct(rows: Iterable[Row], column: str) -> Iterable[Row]:
    """The rows, of which no two may have the same name, and none one that Kubernetes refuses."""
    seen: dict[str, str] = {}
    for row in rows:
        name = row.text(column)
        if len(name) > MOST_NAME or not _NAME.fullmatch(name):
            raise InputError(
                f"{row.where}: {column}: {name[:80]!r} is not a name; expected at most {MOST_NAME} lower case letters, "
                "digits, '-' and '.', a letter or digit first and last, such as openb-pod-0001"
            )
        line = row.where.rpartition(", ")[2]
        earlier = seen.setdefault(name, line)
        if earlier != line:
            raise InputError(f"{row.where}: {name} is already in {earlier}; there can be only one of that name")
        yield row
