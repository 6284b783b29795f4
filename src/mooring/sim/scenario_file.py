"""Scenarios as YAML: a title, perhaps a scheduler configuration, and steps.

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

Every mistake is one line with the step's number and what would be right.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.config.duration import parse_seconds
from mooring.errors import InputError, MooringError, ParseError
from mooring.sim.backend import Ref, kind_named, kind_of
from mooring.sim.scenario import DEFAULT_TIMEOUT_S, Scenario, ScenarioCluster, documents, node

Step = Callable[[ScenarioCluster], Awaitable[None]]
_TOP = frozenset(("name", "title", "description", "config", "plugins", "steps"))


def load_scenario_file(path: Path) -> Scenario:
    """Read a scenario; a file that is none raises InputError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    return parse_scenario(text, source=str(path), folder=path.parent, name=path.stem)


def parse_scenario(text: str | bytes, *, source: str, folder: Path, name: str) -> Scenario:
    value = yaml.load(text, source)
    if not isinstance(value, Mapping) or not isinstance(value.get("steps"), list):
        raise InputError(f"{source}: not a scenario; a mapping with a list of steps would be right")
    unknown = sorted(set(map(str, value)) - _TOP)
    if unknown:
        raise InputError(f"{source}: unknown field {unknown[0]!r}; there are {', '.join(sorted(_TOP))}")
    steps = []
    for number, step in enumerate(value["steps"], 1):
        where = f"{Path(source).name}: steps[{number - 1}]"
        try:
            steps.append((where, _Steps(folder).read(step)))
        except MooringError as error:
            raise InputError(f"{where}: {error}") from None

    async def play(cluster: ScenarioCluster) -> None:
        for where, step in steps:
            try:
                await step(cluster)
            except MooringError as error:
                error.args = (f"{where}: {error}",)
                raise

    config = value.get("config")
    if isinstance(config, str):
        config = yaml.load(_read(folder / config), config)
    title = str(value.get("title") or value.get("description") or name).strip().splitlines()[0]
    plugins = tuple(_plugin_path(folder, str(each)) for each in value.get("plugins") or ())
    return Scenario(str(value.get("name") or name), title, play, config, plugin_files=plugins, source=source)


def _plugin_path(folder: Path, text: str) -> str:
    """A plugin's file is meant from the scenario's folder."""
    file, colon, rest = text.partition(":")
    return f"{folder / file}{colon}{rest}" if file.endswith(".py") else text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


class _Steps:
    """Reads steps; each becomes a function of the cluster, checked before the first one runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, step: Any) -> Step:
        if not isinstance(step, Mapping) or len(step) != 1:
            found = ", ".join(map(str, step)) if isinstance(step, Mapping) else type(step).__name__
            raise InputError(f"{found} where one of {', '.join(self._verbs())} would be right")
        verb, value = next(iter(step.items()))
        reader = getattr(self, f"read_{verb}", None)
        if reader is None:
            raise InputError(f"no step {verb!r}; there are {', '.join(self._verbs())}")
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
        fields = _fields(value, {"count", "name", "from", "cpu", "memory", "pods", "zones", "labels", "taints",
                                 "unschedulable", "capacity"})  # fmt: skip
        count, first = int(fields.pop("count", 1)), int(fields.pop("from", 1))
        pattern, zones = str(fields.pop("name", "node{i}")), list(fields.pop("zones", ()))
        if count > 1 and "{i}" not in pattern:
            raise InputError(f"nodes: name {pattern!r} for {count} nodes; a name with {{i}} in it would be right")
        for name in ("cpu", "memory", "pods"):
            if name in fields:
                fields[name] = str(fields[name])
        made = [
            node(pattern.replace("{i}", str(i)), zone=str(zones[(i - first) % len(zones)]) if zones else "", **fields)
            for i in range(first, first + count)
        ]
        return self._writes(made, "create")

    def read_apply(self, value: Any) -> Step:
        return self._writes(self._manifests(value), "apply")

    def read_create(self, value: Any) -> Step:
        return self._writes(self._manifests(value), "create")

    def _manifests(self, value: Any) -> list[dict[str, Any]]:
        """Inline objects, YAML text, or the name of a file beside the scenario."""
        if isinstance(value, str) and "\n" not in value.strip() and value.strip().endswith((".yaml", ".yml", ".json")):
            value = yaml.load_all(_read(self._folder / value.strip()), value)
        found = documents(value)
        if not found:
            raise InputError("no manifest; an object, a list of them or the name of a file would be right")
        for each in found:
            kind_of(each)
        return found

    @staticmethod
    def _writes(manifests: list[dict[str, Any]], how: str) -> Step:
        async def step(cluster: ScenarioCluster) -> None:
            await (cluster.apply(*manifests) if how == "apply" else cluster.create(*manifests))

        return step

    def read_patch(self, value: Any) -> Step:
        fields = _fields(value, {"target", "patch", "type", "subresource"}, required=("target", "patch"))
        Ref.parse(fields["target"])
        if fields.get("type", "merge") not in ("merge", "strategic", "json"):
            raise InputError(f"patch: type {fields['type']!r}; merge, strategic or json would be right")

        async def step(cluster: ScenarioCluster) -> None:
            rest = {name: fields[name] for name in ("type", "subresource") if name in fields}
            await cluster.patch(fields["target"], fields["patch"], **rest)

        return step

    def read_scale(self, value: Any) -> Step:
        fields = _fields(value, {"target", "replicas"}, required=("target", "replicas"))
        Ref.parse(fields["target"])

        async def step(cluster: ScenarioCluster) -> None:
            await cluster.scale(fields["target"], int(fields["replicas"]))

        return step

    def read_delete(self, value: Any) -> Step:
        if isinstance(value, str | list):
            value = {"target": value}
        fields = _fields(value, {"target", "gracePeriodSeconds", "propagation", "wait"}, required=("target",))
        targets = [fields["target"]] if isinstance(fields["target"], str) else list(fields["target"])
        for each in targets:
            Ref.parse(each)
        grace = fields.get("gracePeriodSeconds")

        async def step(cluster: ScenarioCluster) -> None:
            for each in targets:
                await cluster.delete(
                    each,
                    grace_period_s=None if grace is None else int(grace),
                    propagation=fields.get("propagation", "Background"),
                )
                if fields.get("wait"):
                    await cluster.wait_gone(each)

        return step

    def read_fail(self, value: Any) -> Step:
        name = str(value).removeprefix("node/")

        async def step(cluster: ScenarioCluster) -> None:
            await cluster.fail_node(name)

        return step

    def read_recover(self, value: Any) -> Step:
        name = str(value).removeprefix("node/")

        async def step(cluster: ScenarioCluster) -> None:
            await cluster.recover_node(name)

        return step

    def read_advance(self, value: Any) -> Step:
        duration_s = _seconds(value)

        async def step(cluster: ScenarioCluster) -> None:
            await cluster.advance(duration_s)

        return step

    def read_wait(self, value: Any) -> Step:
        fields = _fields(value, {"for", "condition", "deleted", "within"}, required=("for",))
        target, within_s = str(fields["for"]), _seconds(fields.get("within", DEFAULT_TIMEOUT_S))
        Ref.parse(target)

        async def step(cluster: ScenarioCluster) -> None:
            if fields.get("deleted"):
                await cluster.wait_gone(target, within_s=within_s)
            else:
                await cluster.wait(target, str(fields.get("condition", "Ready")), within_s=within_s)

        return step

    def read_expect(self, value: Any) -> Step:
        expectations = [_expectation(each) for each in (value if isinstance(value, list) else [value])]

        async def step(cluster: ScenarioCluster) -> None:
            for each in expectations:
                await each(cluster)

        return step


_POD = {"pod", "node", "nodes", "pending", "phase", "nominated", "event", "message", "for", "within"}
_OBJECT = {"object", "exists", "fields", "event", "message", "within"}
_COUNT = {"count", "labels", "namespace", "phase", "placed", "perNode", "is", "within"}


def _expectation(value: Any) -> Step:
    if not isinstance(value, Mapping):
        raise InputError("expect: a mapping with pod, object or count would be right")
    if "pod" in value:
        return _expect_pod(_fields(value, _POD))
    if "object" in value:
        return _expect_object(_fields(value, _OBJECT))
    if "count" in value:
        return _expect_count(_fields(value, _COUNT, required=("is",)))
    raise InputError(f"expect: {', '.join(map(str, value))} where pod, object or count would be right")


def _expect_pod(fields: dict[str, Any]) -> Step:
    name = str(fields["pod"])
    target = name if name.startswith("pod/") else f"pod/{name}"
    Ref.parse(target)
    within_s = _seconds(fields.get("within", DEFAULT_TIMEOUT_S))
    nodes = fields.get("nodes", fields.get("node"))
    wanted = {key: fields[key] for key in ("pending", "phase", "nominated") if key in fields}

    async def step(cluster: ScenarioCluster) -> None:
        if nodes is not None or wanted or not fields.get("event"):
            await cluster.expect_pod(
                target, node=nodes, within_s=within_s, for_s=_seconds(fields.get("for", 0)), **wanted
            )
        if fields.get("event"):
            await cluster.expect_event(
                target, reason=str(fields["event"]), message=str(fields.get("message", "")), within_s=within_s
            )

    return step


def _expect_object(fields: dict[str, Any]) -> Step:
    target, ref = str(fields["object"]), Ref.parse(str(fields["object"]))
    within_s = _seconds(fields.get("within", DEFAULT_TIMEOUT_S))
    wanted: Mapping[str, Any] = fields.get("fields") or {}
    exists = bool(fields.get("exists", True))

    async def step(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            obj = await cluster.get(target)
            if obj is None or not exists:
                return (obj is None) != exists or ("it is there" if obj else "it does not exist")
            for path, value in wanted.items():
                found = _at(obj, str(path))
                if found != value:
                    return f"{path} is {found!r}"
            return True

        said = " and ".join(f"{path} is {value}" for path, value in wanted.items())
        await cluster.expect(f"{ref} {said or ('exists' if exists else 'is gone')}", holds, within_s=within_s)
        if fields.get("event"):
            await cluster.expect_event(
                target, reason=str(fields["event"]), message=str(fields.get("message", "")), within_s=within_s
            )

    return step


def _expect_count(fields: dict[str, Any]) -> Step:
    """How many objects of a kind there are; for pods also how many have a node or are in a phase."""
    kind, wanted = kind_named(str(fields["count"])), int(fields["is"])
    within_s = _seconds(fields.get("within", DEFAULT_TIMEOUT_S))
    namespace = str(fields.get("namespace", "default")) if kind.is_namespaced else ""

    async def step(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            found = await cluster.list(kind.resource, namespace, labels=str(fields.get("labels", "")))
            if "placed" in fields:
                found = [obj for obj in found if bool(obj["spec"].get("nodeName")) == bool(fields["placed"])]
            if "phase" in fields:
                found = [obj for obj in found if (obj.get("status") or {}).get("phase") == fields["phase"]]
            return len(found) == wanted or f"there are {len(found)}"

        details = [f"{name} {fields[name]}" for name in ("labels", "phase", "placed") if name in fields]
        text = f"{wanted} {kind.plural}" + (f" with {', '.join(details)}" if details else "")
        await cluster.expect(text, holds, within_s=within_s)

    return step


def _at(obj: Any, path: str) -> Any:
    """The value at ``status.replicas``; None where there is nothing."""
    for part in path.split("."):
        if isinstance(obj, list) and part.isdecimal() and int(part) < len(obj):
            obj = obj[int(part)]
        elif isinstance(obj, Mapping):
            obj = obj.get(part)
        else:
            return None
    return obj


def _fields(value: Any, known: set[str], required: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{type(value).__name__} where a mapping with {', '.join(sorted(known))} would be right")
    for name in value:
        if name not in known:
            raise InputError(f"unknown field {name!r}; there are {', '.join(sorted(known))}")
    for name in required:
        if name not in value:
            raise InputError(f"{name} is missing")
    return dict(value)


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    try:
        return parse_seconds(str(value).strip())
    except ParseError:
        raise InputError(f"{value!r} where a duration such as 30s or 5m would be right") from None
