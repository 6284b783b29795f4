"""Workload definitions in scheduler_perf's format: test cases, their steps, and the numbers to run them with.

A directory holds ``<topic>/performance-config.yaml`` files (also in subfolders). Paths inside a file are relative to
that file's folder. All mistakes in a file are reported when it is read, before anything runs.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.api.text import hint
from mooring.api.times import parse_duration
from mooring.core.config.load import read_file

FILE_NAME = "performance-config.yaml"

# What a field holds: int, number, text, bool, duration, file, texts, files, labels, map, op.
_SELECTOR = {"namespaces": "texts", "labelSelector": "labels"}
OPCODES: Mapping[str, Mapping[str, str]] = {
    "createNodes": {
        "count": "int",
        "nodeTemplatePath": "file",
        "labelNodePrepareStrategy": "map",
        "nodeAllocatableStrategy": "map",
        "uniqueNodeLabelStrategy": "map",
    },
    "createNamespaces": {"prefix": "text", "count": "int", "namespaceTemplatePath": "file"},
    "createPods": {
        "count": "int",
        "namespace": "text",
        "podTemplatePath": "file",
        "skipWaitToCompletion": "bool",
        "collectMetrics": "bool",
        "persistentVolumeTemplatePath": "file",
        "persistentVolumeClaimTemplatePath": "file",
        "steadyState": "bool",
        "duration": "duration",
    },
    "createPodSets": {"count": "int", "namespacePrefix": "text", "createPodsOp": "op"},
    "createAny": {"templatePath": "file", "count": "int", "namespace": "text"},
    "updateAny": {
        "templatePath": "file",
        "count": "int",
        "namespace": "text",
        "updatePerSecond": "number",
        "subresources": "texts",
    },
    "deletePods": {
        "namespace": "text",
        "labelSelector": "labels",
        "deletePodsPerSecond": "number",
        "skipWaitToCompletion": "bool",
    },
    "churn": {
        "mode": "text",
        "number": "int",
        "templatePaths": "files",
        "intervalMilliseconds": "number",
        "namespace": "text",
    },
    "barrier": {**_SELECTOR, "stageRequirement": "text"},
    "sleep": {"duration": "duration"},
    "startCollectingMetrics": {**_SELECTOR, "name": "text"},
    "stopCollectingMetrics": {},
    "createResourceDriver": {"driverName": "text", "nodes": "text", "maxClaimsPerNode": "int"},
    "allocResourceClaims": {"namespace": "text"},
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "createNodes": ("count",),
    "createNamespaces": ("prefix", "count"),
    "createPods": ("count",),
    "createPodSets": ("count", "namespacePrefix", "createPodsOp"),
    "createAny": ("templatePath",),
    "updateAny": ("templatePath", "count"),
    "deletePods": ("namespace",),
    "churn": ("mode", "templatePaths"),
    "sleep": ("duration",),
    "createResourceDriver": ("driverName", "nodes", "maxClaimsPerNode"),
    "allocResourceClaims": ("namespace",),
}
_CHOICES = {("churn", "mode"): ("create", "recreate"), ("barrier", "stageRequirement"): ("Scheduled", "Attempted")}
_CASE_FIELDS = frozenset(
    ("name", "workloadTemplate", "workloads", "defaultPodTemplatePath", "featureGates", "schedulerConfigPath", "labels")
)
_WORKLOAD_FIELDS = frozenset(("name", "params", "featureGates", "labels", "threshold"))


@dataclass(frozen=True, slots=True)
class WorkloadStep:
    """One step with its parameters taken from the workload; ``index`` is its position, used in its namespace."""

    opcode: str
    index: int
    values: Mapping[str, Any]
    where: str

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    @property
    def namespace(self) -> str:
        return str(self.values.get("namespace") or f"namespace-{self.index}")


@dataclass(frozen=True, slots=True)
class PerfWorkload:
    """A test case with its parameters."""

    case: str
    name: str
    topic: str
    params: Mapping[str, Any]
    labels: frozenset[str]
    threshold: float | None
    feature_gates: Mapping[str, bool]
    steps: tuple[WorkloadStep, ...]
    default_pod_template: Path | None = None
    scheduler_config: Path | None = None

    @property
    def full_name(self) -> str:
        return f"{self.case}/{self.name}"


@dataclass(frozen=True, slots=True)
class Definitions:
    """All workloads of a directory, in the order of its files."""

    directory: Path
    workloads: tuple[PerfWorkload, ...]
    files: tuple[Path, ...] = field(default=())

    def select(self, names: Sequence[str] = (), labels: Sequence[str] = ()) -> list[PerfWorkload]:
        """Return workloads by ``CASE`` or ``CASE/WORKLOAD`` (with ``*``) that have the labels.

        Each of ``labels`` is a list like ``performance,-short``, all of which must match. One matching list is enough.
        """
        chosen = [w for w in self.workloads if not names or any(_is_named(w, name) for name in names)]
        for name in names:
            if not any(_is_named(w, name) for w in self.workloads):
                raise UsageError(f"no workload {name!r} in {self.directory}; --list shows what there is")
        if labels:
            chosen = [w for w in chosen if any(_has_labels(w, wanted) for wanted in labels)]
        if not chosen:
            raise UsageError(f"no workload has the labels {' or '.join(labels)}; --list shows what there is")
        return chosen


def _is_named(workload: PerfWorkload, pattern: str) -> bool:
    case, slash, name = pattern.partition("/")
    return fnmatch.fnmatchcase(workload.case, case) and (not slash or fnmatch.fnmatchcase(workload.name, name))


def _has_labels(workload: PerfWorkload, wanted: str) -> bool:
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    return all(
        word[1:] not in workload.labels if word.startswith("-") else word.lstrip("+") in workload.labels
        for word in words
    )


def load(directory: Path) -> Definitions:
    """Read every definition below a directory."""
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory; expected one with */{FILE_NAME} in it")
    files = tuple(sorted(directory.rglob(FILE_NAME)))
    if not files:
        raise UsageError(f"{directory}: no {FILE_NAME} in or below it")
    workloads: list[PerfWorkload] = []
    for path in files:
        workloads += load_file(path, topic="/".join(path.parent.relative_to(directory).parts))
    return Definitions(directory, tuple(workloads), files)


def load_file(path: Path, topic: str = "") -> list[PerfWorkload]:
    cases = yaml.load(read_file(path), str(path))
    if not isinstance(cases, list):
        raise InputError(f"{path}: expected a list of test cases")
    workloads: list[PerfWorkload] = []
    for i, case in enumerate(cases):
        if not isinstance(case, dict):
            raise InputError(f"{path}: [{i}]: expected a test case with name, workloadTemplate and workloads")
        workloads += _Case(path, topic, case).workloads()
    return workloads


class _Case:
    def __init__(self, path: Path, topic: str, case: dict[str, Any]) -> None:
        self._path, self._topic, self._case = path, topic, case
        self._name = str(case.get("name") or "")
        self._at = f"{path}: {self._name or 'a test case without a name'}"
        if not self._name:
            raise InputError(self._at)
        _only(self._at, case, _CASE_FIELDS)

    def workloads(self) -> list[PerfWorkload]:
        steps, workloads = self._case.get("workloadTemplate"), self._case.get("workloads")
        if not isinstance(steps, list) or not isinstance(workloads, list):
            raise InputError(f"{self._at}: workloadTemplate and workloads are lists")
        return [self._workload(steps, workload) for workload in workloads]

    def _workload(self, steps: list[Any], workload: Any) -> PerfWorkload:
        if not isinstance(workload, dict) or not workload.get("name"):
            raise InputError(f"{self._at}: a workload has a name and params")
        name = str(workload["name"])
        at = f"{self._path}: {self._name}/{name}"
        _only(at, workload, _WORKLOAD_FIELDS)
        params = workload.get("params") or {}
        default_pod, config = self._case.get("defaultPodTemplatePath"), self._case.get("schedulerConfigPath")
        return PerfWorkload(
            case=self._name,
            name=name,
            topic=self._topic,
            params=params,
            labels=frozenset([*(self._case.get("labels") or ()), *(workload.get("labels") or ())]),
            threshold=_threshold(workload.get("threshold"), self._topic, at),
            feature_gates={**(self._case.get("featureGates") or {}), **(workload.get("featureGates") or {})},
            steps=tuple(_unrolled(_Steps(self._path, params, at).read(steps))),
            default_pod_template=_file(self._path, default_pod, at) if default_pod else None,
            scheduler_config=_file(self._path, config, at) if config else None,
        )


class _Steps:
    """Reads the steps of a case with the parameters of one workload."""

    def __init__(self, path: Path, params: Mapping[str, Any], at: str) -> None:
        self._path, self._params, self._at = path, params, at

    def read(self, steps: Iterable[Any]) -> list[WorkloadStep]:
        return [self.step(step, i, f"{self._at}: workloadTemplate[{i}]") for i, step in enumerate(steps)]

    def step(self, raw: Any, index: int, where: str) -> WorkloadStep:
        if not isinstance(raw, dict) or raw.get("opcode") not in OPCODES:
            found = raw.get("opcode") if isinstance(raw, dict) else raw
            raise InputError(f"{where}.opcode: expected one of {', '.join(OPCODES)}, found {found!r}")
        opcode = str(raw["opcode"])
        known = OPCODES[opcode]
        values: dict[str, Any] = {}
        for key, value in raw.items():
            if key == "opcode":
                continue
            name = key
            if key not in known and key.endswith("Param"):
                name, value = key.removesuffix("Param"), self._param(value, f"{where}.{key}")
            if name not in known:
                raise InputError(f"{where}.{key}: {opcode} has no such field; it has {', '.join(known)}")
            values[name] = self._value(known[name], value, index, f"{where}.{key}")
        for name in _REQUIRED.get(opcode, ()):
            if name not in values:
                raise InputError(f"{where}: {opcode} needs {name}")
        for (of, name), choices in _CHOICES.items():
            if of == opcode and name in values and values[name] not in choices:
                raise InputError(f"{where}.{name}: expected {' or '.join(choices)}, found {values[name]!r}")
        return WorkloadStep(opcode, index, values, where)

    def _param(self, reference: Any, where: str) -> Any:
        name = str(reference)
        if not name.startswith("$"):
            raise InputError(f"{where}: expected $ and the name of a param, found {name!r}")
        if name[1:] not in self._params:
            raise InputError(f"{where}: the workload has no param {name[1:]!r}")
        return self._params[name[1:]]

    def _value(self, kind: str, value: Any, index: int, where: str) -> Any:
        if kind == "op":
            return self.step({"opcode": "createPods", **value} if isinstance(value, dict) else value, index, where)
        if kind == "file":
            return _file(self._path, value, where)
        if kind == "files":
            return tuple(_file(self._path, item, where) for item in _list(value, where))
        if kind == "texts":
            return tuple(str(item) for item in _list(value, where))
        if kind == "duration":
            return _duration(value, where)
        if kind == "labels":
            return _labels(value, where)
        wanted: dict[str, tuple[type | tuple[type, ...], str]] = {
            "int": (int, "a number"),
            "number": ((int, float), "a number"),
            "bool": (bool, "true or false"),
            "text": (str, "a name"),
            "map": (dict, "a map"),
        }
        types, what = wanted[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if not fits or (kind in ("int", "number") and value < 0):
            raise InputError(f"{where}: expected {what}, found {value!r}")
        return value


def _unrolled(steps: Iterable[WorkloadStep]) -> list[WorkloadStep]:
    """Replace every createPodSets by its createPods steps; positions are counted afterwards."""
    found: list[WorkloadStep] = []
    for step in steps:
        if step.opcode != "createPodSets":
            found.append(WorkloadStep(step.opcode, len(found), step.values, step.where))
            continue
        inner: WorkloadStep = step.values["createPodsOp"]
        for i in range(step.values["count"]):
            values = {**inner.values, "namespace": f"{step.values['namespacePrefix']}-{i}"}
            found.append(WorkloadStep(inner.opcode, len(found), values, step.where))
    return found


def _only(at: str, found: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in found:
        if key not in known:
            raise InputError(f"{at}: {key}: no such field; {hint(key, sorted(known))}")


def _threshold(value: Any, topic: str, at: str) -> float | None:
    """Return the least average throughput: a number, or a map from topics to numbers."""
    if isinstance(value, dict):
        value = value.get(topic.rpartition("/")[2], value.get(topic.partition("/")[0]))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{at}: threshold: expected a number of pods per second, found {value!r}")
    return float(value)


def _file(path: Path, name: Any, where: str) -> Path:
    found = path.parent / str(name)
    if not found.is_file():
        raise InputError(f"{where}: {name}: no such file beside {path}")
    return found


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, found {value!r}")
    return value


def _labels(value: Any, where: str) -> dict[str, str]:
    """Return a label selector, given either as a plain map or with matchLabels."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a map of labels, found {value!r}")
    labels = value.get("matchLabels", value)
    return {str(key): str(item) for key, item in labels.items()}


def _duration(value: Any, where: str) -> float:
    try:
        return parse_duration(str(value))
    except ValueError as error:
        raise InputError(f"{where}: expected a duration such as 10s, found {value!r}: {error}") from None
