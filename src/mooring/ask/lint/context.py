"""Context of rules: the other objects, and the cluster with only the pods that run on every node."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mooring.api import yaml
from mooring.api.checks import pod_name_problem, problems_in
from mooring.api.codec import from_plain
from mooring.api.core import Pod, Taint
from mooring.api.defaults import SYSTEM_PRIORITIES, Admission, set_default_meta
from mooring.api.errors import InputError
from mooring.api.manifests import GROUPS, READ_KINDS, manifest_files, read_bytes
from mooring.api.meta import Object
from mooring.api.pod_templates import is_workload, made_by
from mooring.api.workloads import PriorityClass
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.session import Configuration, PluginReference
from mooring.core.state.node_rows import Mask, NodeRows

# --------------------------------------------------------------------------------------------------------------------
# The linted objects, with their pods and the lines of their fields.

FieldPath = tuple[str | int, ...]
STANDARD_INPUT = "-"
GIVEN = "the given manifest"
IGNORE = "mooring/lint-ignore"  # the annotation that disables rules for one object
_SPEC: dict[str, FieldPath] = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
_TEMPLATE: FieldPath = ("spec", "template", "spec")


@dataclass(slots=True)
class Subject:
    """One object of a manifest."""

    file: str
    first_line: int
    value: Mapping[str, Any]
    lines: Mapping[FieldPath, int] = field(default_factory=dict)
    root: FieldPath = ()  # position of the object in its document: in a List it is ("items", 3)
    obj: Object | None = None  # typed, if scheduling reads its kind
    pod: Pod | None = None  # itself, or the first pod of its controller
    problems: list[str] = field(default_factory=list)  # what an API server would reject

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
        return f"{self.kind} {space}/{self.name}" if space else f"{self.kind} {self.name}".strip()

    @property
    def pod_spec(self) -> FieldPath:
        """Path of its pods' spec."""
        return _SPEC.get(self.kind, _TEMPLATE)

    def pod_field(self, name: str) -> Any:
        """Return a field of its pods' spec as written; None if missing."""
        return None if self.pod is None else _at(self.value, *self.pod_spec, name)

    @property
    def copies(self) -> int:
        """Number of pods that run at a time, as far as the manifest says."""
        wanted = _at(self.value, "spec", "parallelism" if self.kind == "Job" else "replicas")
        return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 1

    @property
    def ignored(self) -> frozenset[str]:
        """Rules that the object itself disables."""
        text = _at(self.value, "metadata", "annotations", IGNORE)
        return frozenset(name.strip() for name in text.split(",")) if isinstance(text, str) else frozenset()

    def line(self, *path: str | int) -> int:
        """Return the line of a field, or of the nearest written field around it."""
        whole = (*self.root, *path)
        for length in range(len(whole), 0, -1):
            line = self.lines.get(whole[:length])
            if line is not None:
                return line
        return self.first_line


@dataclass(slots=True)
class Unreadable:
    """A file that is not YAML or JSON, or an invalid object."""

    file: str
    line: int
    message: str
    is_template: bool = False  # a chart's, not rendered


@dataclass(slots=True)
class Subjects:
    """All objects of all files."""

    found: list[Subject] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    files: int = 0
    skipped: int = 0


def read_subjects(paths: Iterable[str | Path | bytes]) -> Subjects:
    """Read files, directories and the bytes of manifests; ``-`` is standard input. Unreadable ones become findings."""
    subjects = Subjects()
    for path in paths:
        if isinstance(path, bytes):
            _read(GIVEN, path, subjects)
            continue
        if str(path) == STANDARD_INPUT:
            _read(STANDARD_INPUT, sys.stdin.buffer.read(), subjects)
            continue
        for file in manifest_files(Path(path)):
            _read(str(file), read_bytes(file), subjects)
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
    """Yield the objects of a document; None for other values, such as the values of a chart."""
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
    """Decode the typed object and its pod, or note what an API server would reject."""
    value, kind = subject.value, subject.kind
    version = value.get("apiVersion")
    struct = READ_KINDS.get(kind)
    try:
        if struct is not None and isinstance(version, str | None) and _group(version) in (*GROUPS[kind], None):
            subject.obj = _typed(struct, value, subject)
        if isinstance(subject.obj, Pod):
            subject.pod = subject.obj
            problem = pod_name_problem(subject.obj.name)
            subject.problems += [problem] if problem else []
        elif is_workload(kind):
            subject.pod = _typed(Pod, made_by(_named(value))[0], subject)
    except InputError as error:
        subject.problems.append(str(error))


def _named(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the workload with a name, if the API server would create one from ``generateName``."""
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
    """Return the line in a message about a file, or the first."""
    _, _, rest = text.partition("line ")
    digits = rest.split(",")[0].split(":")[0]
    return int(digits) if digits.isdigit() else 1


def _at(value: Any, *path: str | int) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class LintContext:
    """The manifests and the cluster that they are for; ``cluster`` is None if there is none."""

    def __init__(
        self,
        subjects: list[Subject],
        cluster: Cluster | None,
        config: Configuration = None,
        plugins: Iterable[PluginReference] = (),
        kubernetes_version: str | None = None,
    ) -> None:
        self._version = kubernetes_version
        self.subjects = subjects
        self.cluster = cluster
        self._config, self._plugins = config, tuple(plugins)
        self._objects: dict[type[Any], Mapping[str, Any]] = {}
        self._asked: tuple[Pod, dict[str, Mask]] | None = None  # rules ask about the same pod in sequence
        self._complete_pods()

    def _complete_pods(self) -> None:
        """Complete pods as an API server would, so that they are as the scheduler would see them."""
        others: list[Object] = [] if self.cluster is None else list(self.cluster.state.objects)
        others += [each.obj for each in self.subjects if each.obj is not None and not isinstance(each.obj, Pod)]
        admission = Admission(others)
        for subject in self.subjects:
            pod = subject.pod
            if pod is None or subject.problems:
                continue
            if pod.spec.priority_class_name not in self.priorities:
                pod.spec.priority_class_name = ""  # a rule reports it; the rest of the pod can still be checked
            try:
                admission.admit_pod(pod)
            except InputError as error:
                subject.problems.append(str(error))

    # ---- other objects -----------------------------------------------------------------------------------------

    def all(self, kind: type[Any]) -> Mapping[str, Any]:
        """Return all objects of a kind, of manifests and of the cluster, by key. Manifests take precedence."""
        if kind not in self._objects:
            theirs = () if self.cluster is None else self.cluster.state.objects.all(kind)
            ours = (subject.obj for subject in self.subjects if isinstance(subject.obj, kind))
            self._objects[kind] = {obj.key: obj for obj in (*theirs, *ours)}
        return self._objects[kind]

    @cached_property
    def priorities(self) -> Mapping[str, int]:
        """Every priority class by name."""
        return {**SYSTEM_PRIORITIES, **{each.name: each.value for each in self.all(PriorityClass).values()}}

    @cached_property
    def pods_in(self) -> Mapping[str, list[Pod]]:
        """The pods of the cluster, by namespace."""
        found: dict[str, list[Pod]] = {}
        for pod in () if self.cluster is None else (*self.cluster.pods, *self.cluster.pending):
            found.setdefault(pod.namespace, []).append(pod)
        return found

    # ---- the cluster -------------------------------------------------------------------------------------------

    @cached_property
    def empty(self) -> Cluster:
        """The cluster with only the pods of DaemonSets, including those in the manifests: the most room for a pod."""
        assert self.cluster is not None
        daemons = [pod for pod in self.cluster.pods if _is_daemon(pod)]
        empty = Cluster().take_over([*self.cluster.nodes, *daemons, *self.cluster.state.objects])
        empty.release = self.cluster.release
        running = {(pod.namespace, owner.name) for pod in daemons if (owner := pod.metadata.controller()) is not None}
        for subject in self.subjects:
            pod = subject.pod
            if subject.kind != "DaemonSet" or pod is None or subject.problems:
                continue
            if (pod.namespace, subject.name) not in running:
                self._run_everywhere(pod, empty)
        return empty

    def _run_everywhere(self, daemon: Pod, cluster: Cluster) -> None:
        """Place a pod on each node that the DaemonSet selects, whether there is room or not."""
        scheduler = Scheduler(cluster, self._config, self._plugins, kubernetes_version=self._version)
        allowed = _passing(scheduler, "NodeAffinity", daemon) & _passing(scheduler, "TaintToleration", daemon)
        names = [info.name for info, here in zip(cluster.state.nodes().infos, allowed, strict=True) if here]
        for name in names:
            twin = copy(daemon)
            twin.metadata = copy(daemon.metadata)
            twin.metadata.name = twin.metadata.uid = f"{daemon.name}-{name}"
            cluster.bind(twin, name)

    @cached_property
    def scheduler(self) -> Scheduler:
        scheduler = Scheduler(self.empty, self._config, self._plugins, kubernetes_version=self._version)
        scheduler.session.engine.batching.is_enabled = False
        scheduler.session.takes_all = True
        return scheduler

    def scheduler_with(self, config: Mapping[str, Any]) -> Scheduler:
        """Return a scheduler of the whole cluster under another configuration."""
        assert self.cluster is not None
        return Scheduler(self.cluster, config, self._plugins, kubernetes_version=self._version)

    @property
    def nodes(self) -> NodeRows:
        return self.empty.state.nodes()

    @cached_property
    def node_labels(self) -> list[dict[str, str]]:
        """The labels of each node."""
        return [node.labels for node in self.empty.nodes]

    @cached_property
    def label_keys(self) -> frozenset[str]:
        """Every label key of a node."""
        return frozenset(key for labels in self.node_labels for key in labels)

    @cached_property
    def taints(self) -> list[Taint]:
        """Every taint of a node, without duplicates."""
        found = {
            (taint.key, taint.value, taint.effect): taint for node in self.empty.nodes for taint in node.spec.taints
        }
        return list(found.values())

    def passes(self, plugin: str, pod: Pod) -> Mask:
        """Return where this plugin accepts the pod; everywhere if the profile does not have it."""
        if self._asked is None or self._asked[0] is not pod:
            self._asked = (pod, {})
        known = self._asked[1]
        if plugin not in known:
            known[plugin] = _passing(self.scheduler, plugin, pod)
        return known[plugin]

    def decide(self, pod: Pod) -> ScheduleResult:
        """Decide about the pod without other pods in the way.

        Ignored is what may change later: other pods that it needs, unbound claims, gates.
        """
        alone = deepcopy(pod)
        spec = alone.spec
        spec.scheduling_gates, spec.volumes, spec.resource_claims = [], [], []
        if spec.affinity is not None:
            spec.affinity.pod_affinity = None
        return self.scheduler.session.decide(alone, detail=False)


def _passing(scheduler: Scheduler, name: str, pod: Pod) -> Mask:
    cluster = scheduler.cluster.state
    nodes, info, state = cluster.nodes(), cluster.info(pod), CycleState()
    plugin = scheduler.session.profile_for(pod).plugins.get(name)
    mask = np.ones(len(nodes), np.bool_)
    if plugin is None:
        return mask
    if "preFilter" in plugin.points:
        answer = plugin.pre_filter(state, info, nodes)
        if isinstance(answer, PreFilterResult):
            if answer.node_names is not None:
                mask &= np.array([node.name in answer.node_names for node in nodes.infos], np.bool_)
        elif answer.is_skip:
            return mask
        elif not answer.is_success:
            return np.zeros(len(nodes), np.bool_)
    verdict = plugin.filter(state, info, nodes) if "filter" in plugin.points else None
    return mask if verdict is None else mask & (verdict.ids == 0)


def _is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller()
    return owner is not None and owner.kind == "DaemonSet"
