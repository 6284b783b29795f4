"""What is linted: the objects of manifests, with the pods that they make and the lines where their fields stand."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.api.checks import problems_in
from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.defaults import set_default_meta
from mooring.api.manifests import GROUPS, READ_KINDS, manifest_files
from mooring.api.meta import Object
from mooring.api.pod_templates import is_workload, made_by
from mooring.errors import InputError

FieldPath = tuple[str | int, ...]
STANDARD_INPUT = "-"
IGNORE = "mooring/lint-ignore"  # the annotation that switches rules off for one object
_SPEC: dict[str, FieldPath] = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
_TEMPLATE: FieldPath = ("spec", "template", "spec")


@dataclass(slots=True)
class Subject:
    """One object of a manifest."""

    file: str
    first_line: int
    value: Mapping[str, Any]
    lines: Mapping[FieldPath, int] = field(default_factory=dict)
    root: FieldPath = ()  # where the object stands in its document: in a List it is ("items", 3)
    obj: Object | None = None  # typed, if scheduling reads its kind
    pod: Pod | None = None  # itself, or the first pod that its controller makes
    problems: list[str] = field(default_factory=list)  # what an API server would refuse

    @property
    def kind(self) -> str:
        return str(self.value.get("kind"))

    @property
    def name(self) -> str:
        return str(_at(self.value, "metadata", "name") or _at(self.value, "metadata", "generateName") or "")

    @property
    def namespace(self) -> str:
        return str(_at(self.value, "metadata", "namespace") or "default")

    @property
    def title(self) -> str:
        space = _at(self.value, "metadata", "namespace")
        return f"{self.kind} {space}/{self.name}" if space else f"{self.kind} {self.name}"

    @property
    def pod_spec(self) -> FieldPath:
        """Where the spec of its pods stands."""
        return _SPEC.get(self.kind, _TEMPLATE)

    @property
    def copies(self) -> int:
        """How many pods run at a time, as far as the manifest says."""
        spec = self.value.get("spec")
        spec = spec if isinstance(spec, Mapping) else {}
        wanted = spec.get("parallelism" if self.kind == "Job" else "replicas", 1)
        return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 1

    @property
    def ignored(self) -> frozenset[str]:
        """The rules that the object itself switches off."""
        text = _at(self.value, "metadata", "annotations", IGNORE)
        return frozenset(name.strip() for name in text.split(",")) if isinstance(text, str) else frozenset()

    def line(self, *path: str | int) -> int:
        """The line of a field, or of the nearest one around it that is written down."""
        whole = (*self.root, *path)
        for length in range(len(whole), 0, -1):
            line = self.lines.get(whole[:length])
            if line is not None:
                return line
        return self.first_line


@dataclass(slots=True)
class Unreadable:
    """A file that is not YAML or JSON, or an object that cannot be."""

    file: str
    line: int
    message: str
    is_template: bool = False  # of a chart, not rendered


@dataclass(slots=True)
class Subjects:
    """All objects of all files."""

    found: list[Subject] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    files: int = 0
    skipped: int = 0


def read_subjects(paths: Iterable[str | Path]) -> Subjects:
    """Read files and directories; ``-`` is standard input. What cannot be read is a finding, not the end."""
    subjects = Subjects()
    for path in paths:
        if str(path) == STANDARD_INPUT:
            _read(STANDARD_INPUT, sys.stdin.buffer.read(), subjects)
            continue
        for file in manifest_files(Path(path)):
            try:
                content = file.read_bytes()
            except OSError as error:
                raise InputError(f"{file}: {(error.strerror or str(error)).lower()}") from None
            _read(str(file), content, subjects)
    return subjects


def _read(file: str, content: bytes, into: Subjects) -> None:
    into.files += 1
    try:
        documents = yaml.load_documents(content, lines=True)
    except InputError as error:
        into.unreadable.append(Unreadable(file, _line_in(str(error)), str(error), b"{{" in content))
        return
    for document in documents:
        lines = document.lines or {}
        for root, value in _objects(document.value, ()):
            if value is None:
                into.skipped += 1
                continue
            first = lines.get(root) or min((lines[(key,)] for key in value if (key,) in lines), default=document.line)
            subject = Subject(file, first, value, lines, root)
            _decode(subject)
            into.found.append(subject)


def _objects(value: Any, root: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any] | None]]:
    """The objects of a document; None for what is none, such as the values of a chart."""
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str) or not value["kind"]:
        yield root, None
        return
    items = value.get("items")
    if value["kind"].endswith("List") and isinstance(items, list):
        for i, item in enumerate(items):
            yield from _objects(item, (*root, "items", i))
        return
    yield root, value


def _decode(subject: Subject) -> None:
    """The typed object and its pod; what an API server would refuse is noted instead."""
    value, kind = subject.value, subject.kind
    version = value.get("apiVersion")
    struct = READ_KINDS.get(kind)
    try:
        if struct is not None and isinstance(version, str | None) and _group(version) in (*GROUPS[kind], None):
            subject.obj = _typed(struct, value, subject)
        if isinstance(subject.obj, Pod):
            subject.pod = subject.obj
        elif is_workload(kind):
            subject.pod = _typed(Pod, made_by(_named(value))[0], subject)
    except InputError as error:
        subject.problems.append(str(error))


def _named(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workload with a name, if the API server is to make one from ``generateName``."""
    metadata = workload.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name") or not metadata.get("generateName"):
        return workload
    return {**workload, "metadata": {**metadata, "name": f"{metadata['generateName']}xxxxx"}}


def _typed(struct: type[Any], value: Mapping[str, Any], subject: Subject) -> Any:
    obj = from_plain(struct, value)
    subject.problems += problems_in(obj)
    set_default_meta(obj)
    return obj


def _group(version: str | None) -> str | None:
    return None if version is None else version.rpartition("/")[0]


def _line_in(text: str) -> int:
    """The line that a message about a file names, or the first."""
    _, _, rest = text.partition("line ")
    digits = rest.split(",")[0].split(":")[0]
    return int(digits) if digits.isdigit() else 1


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
