"""The result of an import: the cluster at the start, arriving pods, later changes, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mooring.api import yaml
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.api.text import count_of
from mooring.sim.workload import Arrival

Workload: TypeAlias = Mapping[str, Any]
"""A Deployment, Job or the like, as on the wire: its controller creates pods."""


@dataclass(frozen=True, slots=True)
class ImportedChange:
    """An object or a workload that is added, changed or removed at a time, in seconds from the start.

    A pod among these arrives on its node or is removed, unless ``came_as`` is set.
    """

    at_s: float
    obj: Object | Workload
    is_gone: bool = False
    grace_s: int | None = 0  # of a removed pod; None: its own
    where: str = ""  # the place of a workload in its file
    came_as: Pod | None = None  # the pod as it arrived, if this is a change of its labels and spec


@dataclass(slots=True)
class Imported:
    """A file of another tool, in a form that a simulation can play. Lists with times are in order of time.

    ``not_simulated`` names what the format has and a simulation does not use, with its number of occurrences.
    """

    format: str
    objects: list[Object] = field(default_factory=list)  # the cluster at the start; its pods are bound or pending
    known_pods: list[Arrival] = field(default_factory=list)  # pods of the start whose run times or histories are known
    workloads: list[Workload] = field(default_factory=list)  # those without pods among the objects
    places: list[str] = field(default_factory=list)  # where each of the workloads stands
    arrivals: list[Arrival] = field(default_factory=list)
    changes: list[ImportedChange] = field(default_factory=list)
    config: Mapping[str, Any] | None = None  # a KubeSchedulerConfiguration
    kubernetes_version: str = ""  # of its decisions, if the format has it
    feature_gates: Mapping[str, bool] = field(default_factory=dict)  # the same
    started_at: float | None = None  # time of second 0, in seconds since 1970, if known
    records: list[str] = field(default_factory=list)  # the records among its files, which no record may replace
    not_simulated: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.objects or self.known_pods or self.workloads or self.arrivals or self.changes)

    @property
    def has_a_cluster(self) -> bool:
        """Whether there are nodes or pods, now or later. Services and PriorityClasses alone are none."""
        return bool(self.known_pods or self.workloads or self.arrivals or self.changes) or any(
            isinstance(obj, Node | Pod) for obj in self.objects
        )

    @property
    def length_s(self) -> float:
        """Time of the last event."""
        last_arrival_s = self.arrivals[-1].at_s if self.arrivals else 0.0
        return max(last_arrival_s, self.changes[-1].at_s if self.changes else 0.0)

    def summary(self) -> str:
        """``1213 nodes, 8152 pods that arrive over 149d``, or what else there is."""
        nodes = sum(isinstance(obj, Node) for obj in self.objects)
        pods = sum(isinstance(obj, Pod) for obj in self.objects)
        others = len(self.objects) - nodes - pods
        parts = [
            count_of(nodes, "node"),
            count_of(pods + len(self.known_pods), "pod"),
            count_of(others, "other object"),
            count_of(len(self.workloads), "workload"),
            f"{count_of(len(self.arrivals), 'pod')} that arrive{'s' if len(self.arrivals) == 1 else ''}",
            count_of(len(self.changes), "change"),
        ]
        return ", ".join(part for part in parts if not part.startswith("0 ")) or "nothing"


class Omissions:
    """Counts what is left out, by a text that says what and why."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """Count; ``what`` begins with a singular noun or the name of a field, and says why it is left out."""
        self._counts[what] += count

    def lines(self) -> list[str]:
        """Return a line for each, in order of first occurrence: ``212 × binding that …``."""
        return [f"{count} × {what}" if count else what for what, count in self._counts.items()]


# --------------------------------------------------------------------------------------------------------------------
# JSON texts, read so that every mistake is reported with its file and line.


def read_lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield each non-empty line: its place for errors, and the value. A truncated line is an error."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, read_json(line, where)


def read_json(text: str, where: str) -> Any:
    """Decode one value: bounded depth, no duplicate keys, nothing that cannot be encoded again."""
    found = yaml.load_json(text)
    if found is None:
        raise InputError(f"{where}: {_problem(text)}")
    if found.duplicates:
        raise InputError(f"{where}: {found.duplicates[0]}")
    return found.value


def _problem(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} of it, " if error.lineno > 1 else ""
        return f"{line}column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}; expected JSON"
    except (ValueError, RecursionError):
        pass
    return "nested too deeply, or half a character (\\ud800); expected JSON of Kubernetes objects"
