"""Scenarios as YAML: a title, an optional scheduler configuration, and steps.

```yaml
title: A pod waits for room
steps:
- nodes: {count: 2, cpu: "2"}                      # node1, node2
- apply:
  - {apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: a, image: x, resources: …}]}}
- expect: {pod: big, pending: Insufficient cpu}
- advance: 30s
- patch: {target: node/node1, patch: {metadata: {labels: {disk: ssd}}}}
- delete: node/node2
- wait: {for: deployment/web, condition: Available, within: 1m}
- expect: {pod: big, node: node1, within: 30s}
```

A file with ``soak`` is a story of several schedulers with faults. ``tests/faults`` plays it, not this package.

Every mistake is one line with the step's number, what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError, MooringError, ParseError
from mooring.api.pod_templates import is_workload
from mooring.api.text import hint
from mooring.api.times import parse_time
from mooring.api.well_known import ZONE
from mooring.core.config.plugin_loading import load_module
from mooring.core.config.versions import DEFAULT_VERSION
from mooring.record.files import file_and_time
from mooring.sim.backend import PATCH_TYPES, Ref, kind_of
from mooring.sim.expectations import Step, expectation
from mooring.sim.imports.imported import Imported
from mooring.sim.imports.story import ImportStep, cluster_of, workload_of
from mooring.sim.objects import check_workload
from mooring.sim.scenario import DEFAULT_TIMEOUT_S, Scenario, ScenarioCluster, documents, node
from mooring.sim.step_fields import (
    SEED,
    described,
    fields_of,
    mapping,
    parameter_values,
    seconds,
    substituted,
    texts,
    whole_number,
)
from mooring.sim.tables import Row, nodes_of_table
from mooring.sim.workload import TRACE_FIELDS, Generated, Trace, Workload

MAX_NODES = 10_000
TO_THE_END = "end"
PROPAGATIONS = ("Background", "Foreground", "Orphan")
_TOP = frozenset(
    ("name", "title", "description", "parameters", "config", "plugins", "steps", "kubernetesVersion", "featureGates")
) | {"startsAt", "soak"}
_PLAYED_BY_THE_SOAK = "a story with faults is played in a checkout: python -m tests.faults.soak --story FILE"


def load_scenario_file(path: Path, given: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario; an invalid file raises InputError. ``given`` sets its parameters."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    return parse_scenario(text, source=str(path), folder=path.parent, name=path.stem, given=given)


def parse_scenario(
    text: str | bytes, *, source: str, folder: Path, name: str, given: Mapping[str, Any] | None = None
) -> Scenario:
    return scenario_of(yaml.load(text, source), source=source, folder=folder, name=name, given=given)


def scenario_of(
    value: Any, *, source: str, folder: Path, name: str, given: Mapping[str, Any] | None = None
) -> Scenario:
    """Return the scenario of a file's content. Other files that it names are in ``folder``."""
    if not isinstance(value, Mapping) or not isinstance(value.get("steps"), list):
        raise InputError(f"{source}: not a scenario; expected a mapping with a list of steps")
    unknown = sorted(set(map(str, value)) - _TOP)
    if unknown:
        raise InputError(f"{source}: unknown field {unknown[0]!r}; {hint(unknown[0], sorted(_TOP))}")
    if "soak" in value:
        raise InputError(f"{source}: {_PLAYED_BY_THE_SOAK}")
    try:
        values = parameter_values(value.get("parameters"), given or {})
        for_config = {"seed": SEED, **values}
        value = {
            key: each if key == "parameters" else substituted(each, for_config if key == "config" else values)
            for key, each in value.items()
        }
    except MooringError as error:
        raise type(error)(f"{source}: {error}") from None
    steps = []
    for number, step in enumerate(value["steps"], 1):
        where = f"{Path(source).name}: steps[{number - 1}]"
        try:
            steps.append((where, _StepReader(folder, values).read(step)))
        except MooringError as error:
            raise InputError(f"{where}: {error}") from None

    async def play(cluster: ScenarioCluster) -> None:
        for where, step in steps:
            cluster.place = where
            try:
                await step(cluster)
            except MooringError as error:
                error.blame(where)
                raise

    try:
        config = _config(value.get("config"), folder, for_config)
        gates = {name: on is True for name, on in mapping(value.get("featureGates") or {}, "featureGates").items()}
        starts_at = _time(value["startsAt"]) if value.get("startsAt") is not None else None
        plugins = tuple(_plugin_path(folder, each) for each in texts(value.get("plugins") or [], "plugins"))
    except MooringError as error:
        raise InputError(f"{source}: {error}") from None
    imports = [step for _, step in steps if isinstance(step, ImportStep)]
    starts = [step.starts_at for step in imports if step.starts_at is not None]
    titles = [str(value.get(each) or "").strip() for each in ("title", "description")]
    title = next(filter(None, titles), name).splitlines()[0]
    return Scenario(
        str(value.get("name") or name),
        title,
        play,
        config,
        plugin_files=plugins,
        source=source,
        kubernetes_version=str(value.get("kubernetesVersion") or DEFAULT_VERSION),
        feature_gates=gates,
        starts_at=starts_at or next(iter(starts), None),
        records=tuple(record for step in imports for record in step.records),
        parameters=values,
    )


def _config(value: Any, folder: Path, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a KubeSchedulerConfiguration: inline, or in a file beside the scenario. Both may use parameters."""
    if isinstance(value, str):
        value = substituted(yaml.load(_read(_found(folder, value)), value), values)
    return None if value is None else mapping(value, "config")


def _time(value: Any) -> float:
    try:
        return parse_time(str(value))
    except ParseError:
        raise InputError(f"startsAt: expected a time such as 2026-01-31T08:00:00Z, found {value!r}") from None


def _plugin_path(folder: Path, text: str) -> str:
    """Return the path of a plugin; a file is looked up in the scenario's folder."""
    file, colon, rest = text.partition(":")
    return f"{folder / file}{colon}{rest}" if file.endswith(".py") else text


def _found(folder: Path, text: str) -> Path:
    """Return a file beside the scenario; one given on the command line may also be in the working directory."""
    beside = folder / text
    return beside if beside.exists() or not Path(text).exists() else Path(text)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def named_nodes(value: Any) -> list[dict[str, Any]]:
    """Return the nodes of a ``nodes`` step: a count, with numbered names."""
    fields = fields_of(value, {"count", "name", "from", "cpu", "memory", "pods", "zones", "labels", "taints",
                             "unschedulable", "capacity"})  # fmt: skip
    count = whole_number(fields.pop("count", 1), "count", most=MAX_NODES)
    first = whole_number(fields.pop("from", 1), "from")
    pattern, zones = str(fields.pop("name", "node{i}")), texts(fields.pop("zones", []), "zones")
    if count > 1 and "{i}" not in pattern:
        raise InputError(f"nodes: expected a name with {{i}} in it for {count} nodes, found {pattern!r}")
    for name in ("cpu", "memory", "pods"):
        if name in fields:
            fields[name] = str(fields[name])
    for name in ("labels", "capacity"):
        fields[name] = {key: str(each) for key, each in mapping(fields.get(name), name).items()}
    fields["taints"] = texts(fields.get("taints", []), "taints")
    fields["unschedulable"] = bool(fields.get("unschedulable"))
    return [
        node(pattern.replace("{i}", str(i)), zone=zones[(i - first) % len(zones)] if zones else "", **fields)
        for i in range(first, first + count)
    ]


class _StepReader:
    """Reads steps; each becomes a function of the cluster, checked before the first one runs."""

    def __init__(self, folder: Path, parameters: Mapping[str, Any]) -> None:
        self._folder = folder
        self._parameters = parameters

    def read(self, step: Any) -> Step:
        if not isinstance(step, Mapping) or len(step) != 1:
            raise InputError(f"expected one of {', '.join(self._verbs())}, found {described(step)}")
        verb, value = next(iter(step.items()))
        reader = getattr(self, f"read_{verb}", None)
        if reader is None:
            raise InputError(f"no step {verb!r}; {hint(verb, self._verbs())}")
        made: Step = reader(value)
        return made

    def _verbs(self) -> list[str]:
        return sorted(name.removeprefix("read_") for name in dir(self) if name.startswith("read_"))

    def read_say(self, value: Any) -> Step:
        text = str(value)

        async def step(cluster: ScenarioCluster) -> None:
            cluster.say(text)

        return step

    def read_nodes(self, value: Any) -> Step:
        if isinstance(value, Mapping) and "csv" in value:
            path, arrange = _found(self._folder, str(value["csv"])), value.get("arrange")
            if arrange is None:
                nodes = nodes_of_table(value, path)
                return lambda cluster: cluster.create(*nodes)
            return self._arranged_nodes(value, path, self._function(str(arrange)))
        named = named_nodes(value)
        return lambda cluster: cluster.create(*named)

    def _arranged_nodes(self, value: Any, path: Path, arrange: Callable[..., Iterable[Row]]) -> Step:
        """Return nodes whose rows a function arranges when the story is played: only then the seed is known."""
        parameters = dict(self._parameters)

        async def step(cluster: ScenarioCluster) -> None:
            def arranged(rows: list[Row]) -> Iterable[Row]:
                return arrange(rows, seed=cluster.seed, parameters=parameters)

            await cluster.create(*nodes_of_table(value, path, arranged))

        return step

    def read_workload(self, value: Any) -> Step:
        if isinstance(value, Mapping) and "record" in value:
            fields = fields_of(value, {"record"})
            return ImportStep(workload_of(self._imported(str(fields["record"]), "record")))
        workload = self._workload(value)
        return lambda cluster: cluster.begin(workload)

    def _workload(self, value: Any) -> Workload:
        """A trace, or random pods."""
        if not isinstance(value, Mapping) or "csv" not in value:
            return Generated(value)
        fields = fields_of(value, TRACE_FIELDS)
        arrange = fields.pop("arrange", None)
        function = None if arrange is None else self._function(str(arrange))
        return Trace(fields, _found(self._folder, str(fields.pop("csv"))), function)

    def _function(self, text: str) -> Callable[..., Any]:
        """Return a function of a Python file beside the scenario, written ``file.py:function``."""
        file, colon, name = text.rpartition(":")
        if not colon or not file.endswith(".py"):
            raise InputError(f"expected file.py:function, found {text!r}")
        found: Any = getattr(load_module(str(_found(self._folder, file)), "mooring_story", file), name, None)
        if not callable(found):
            raise InputError(f"{file}: no function {name!r} in it")
        function: Callable[..., Any] = found
        return function

    def read_nodeGroup(self, value: Any) -> Step:
        from mooring.sim.autoscaler.node_groups import read_step  # slow to import, and few stories have node groups

        group = read_step(value)
        return lambda cluster: cluster.backend.autoscale(group)

    def read_autoscaler(self, value: Any) -> Step:
        from mooring.sim.autoscaler.policy import read_step  # slow to import

        policy = read_step(value, lambda name: _found(self._folder, name), self._parameters)
        return lambda cluster: cluster.backend.autoscale(policy)

    def read_import(self, value: Any) -> Step:
        """Read files of other tools: a cluster, arriving pods, changes."""
        return ImportStep(self._imported(value, "import"))

    def read_cluster(self, value: Any) -> Step:
        """Read a cluster from files, or from a record at a time; nothing happens to it by itself."""
        return ImportStep(cluster_of(self._imported(value, "cluster")))

    def _imported(self, value: Any, name: str) -> Imported:
        names = [value] if isinstance(value, str) else texts(value, name)
        from mooring.sim.imports.read import import_all  # it imports every format

        return import_all([self._beside(name) for name in names])

    def _beside(self, name: str) -> str:
        """Return a file beside the scenario, with the time after its ``@`` if it is a record's."""
        time = file_and_time(str(self._folder / name))[1]
        at = f"@{time}" if time else ""
        return f"{_found(self._folder, name.removesuffix(at))}{at}"

    def read_apply(self, value: Any) -> Step:
        manifests = self._manifests(value)
        return lambda cluster: cluster.apply(*manifests)

    def read_create(self, value: Any) -> Step:
        manifests = self._manifests(value)
        return lambda cluster: cluster.create(*manifests)

    def _manifests(self, value: Any) -> list[dict[str, Any]]:
        """Return inline objects, YAML text, or the content of a file beside the scenario."""
        if isinstance(value, str) and "\n" not in value.strip() and value.strip().endswith((".yaml", ".yml", ".json")):
            value = yaml.load_all(_read(_found(self._folder, value.strip())), value)
        found = documents(value)
        if not found:
            raise InputError("no manifest; expected an object, a list of them or the name of a file")
        for each in found:
            kind_of(each)
            metadata = mapping(each.get("metadata"), "metadata")
            if not metadata.get("name") and not metadata.get("generateName"):
                raise InputError(f"{each['kind']}: metadata.name is missing")
            if is_workload(each["kind"]):
                check_workload(each)
        return found

    def read_patch(self, value: Any) -> Step:
        fields = fields_of(value, {"target", "patch", "type", "subresource"}, required=("target", "patch"))
        target = str(fields["target"])
        Ref.parse(target)
        if fields.get("type", "merge") not in PATCH_TYPES:
            raise InputError(f"patch: expected the type {', '.join(PATCH_TYPES)}, found {fields['type']!r}")
        rest = {name: str(fields[name]) for name in ("type", "subresource") if name in fields}
        return lambda cluster: cluster.patch(target, fields["patch"], **rest)

    def read_scale(self, value: Any) -> Step:
        fields = fields_of(value, {"target", "replicas"}, required=("target", "replicas"))
        target, replicas = str(fields["target"]), whole_number(fields["replicas"], "replicas")
        Ref.parse(target)
        return lambda cluster: cluster.scale(target, replicas)

    def read_delete(self, value: Any) -> Step:
        if isinstance(value, str | list):
            value = {"target": value}
        fields = fields_of(value, {"target", "gracePeriodSeconds", "propagation", "wait"}, required=("target",))
        targets = texts(fields["target"], "target")
        for each in targets:
            Ref.parse(each)
        grace = fields.get("gracePeriodSeconds")
        grace_s = None if grace is None else whole_number(grace, "gracePeriodSeconds")
        propagation = str(fields.get("propagation", PROPAGATIONS[0]))
        if propagation not in PROPAGATIONS:
            raise InputError(f"propagation: expected {', '.join(PROPAGATIONS)}, found {propagation!r}")

        async def step(cluster: ScenarioCluster) -> None:
            for each in targets:
                await cluster.delete(each, grace_period_s=grace_s, propagation=propagation)
                if fields.get("wait"):
                    await cluster.wait_gone(each)

        return step

    def read_fail(self, value: Any) -> Step:
        return self._for_nodes(value, ScenarioCluster.fail_node)

    def read_recover(self, value: Any) -> Step:
        return self._for_nodes(value, ScenarioCluster.recover_node)

    def read_cordon(self, value: Any) -> Step:
        return self._for_nodes(value, ScenarioCluster.cordon)

    def read_uncordon(self, value: Any) -> Step:
        return self._for_nodes(value, lambda cluster, name: cluster.cordon(name, undo=True))

    def read_drain(self, value: Any) -> Step:
        return self._for_nodes(value, ScenarioCluster.drain)

    @staticmethod
    def _for_nodes(value: Any, do: Callable[[ScenarioCluster, str], Awaitable[Any]]) -> Step:
        """Apply a function to nodes: by name, several names, ``{zone: a}`` or ``{labels: disk=ssd}``."""
        fields = fields_of(value, {"zone", "labels"}) if isinstance(value, Mapping) else None
        if fields is not None and len(fields) != 1:
            raise InputError(f"expected the name of a node, a list of names, zone or labels, found {described(value)}")
        names = [] if fields is not None else [each.removeprefix("node/") for each in texts(value, "node")]
        labels = "" if fields is None else f"{ZONE}={fields['zone']}" if "zone" in fields else str(fields["labels"])

        async def step(cluster: ScenarioCluster) -> None:
            found = (
                [each["metadata"]["name"] for each in await cluster.list("nodes", labels=labels)] if labels else names
            )
            if not found:
                raise InputError(f"no node has the label {labels}")
            for name in found:
                await do(cluster, name)

        return step

    def read_fault(self, value: Any) -> Step:
        raise InputError(f"fault: {_PLAYED_BY_THE_SOAK}")

    def read_advance(self, value: Any) -> Step:
        if value == TO_THE_END:
            return ScenarioCluster.finish
        duration_s = seconds(value)
        return lambda cluster: cluster.advance(duration_s)

    def read_wait(self, value: Any) -> Step:
        fields = fields_of(value, {"for", "condition", "deleted", "within"}, required=("for",))
        target, within_s = str(fields["for"]), seconds(fields.get("within", DEFAULT_TIMEOUT_S))
        Ref.parse(target)
        if fields.get("deleted"):
            return lambda cluster: cluster.wait_gone(target, within_s=within_s)
        condition = str(fields.get("condition", "Ready"))
        return lambda cluster: cluster.wait(target, condition, within_s=within_s)

    def read_expect(self, value: Any) -> Step:
        expectations = [expectation(each) for each in (value if isinstance(value, list) else [value])]

        async def step(cluster: ScenarioCluster) -> None:
            for each in expectations:
                await each(cluster)

        return step
