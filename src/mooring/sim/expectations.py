"""The step ``expect`` of a scenario file: conditions on a pod, an object, or the number of objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mooring.api.errors import InputError
from mooring.api.text import hint
from mooring.sim.backend import Ref, kind_named
from mooring.sim.scenario import DEFAULT_TIMEOUT_S, ScenarioCluster
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts, whole_number

Step = Callable[[ScenarioCluster], Awaitable[object]]

_POD = {"pod", "node", "nodes", "pending", "phase", "nominated", "event", "message", "for", "within"}
_OBJECT = {"object", "exists", "fields", "event", "message", "within"}
_MEASURE = {"measure", "is", "atMost", "atLeast"}
_COUNT = {"count", "labels", "namespace", "phase", "placed", "is", "within"}


def expectation(value: Any) -> Step:
    """Read one expectation; it is fully checked before the story begins."""
    if not isinstance(value, Mapping):
        raise InputError(f"expect: expected a mapping with pod, object, count or measure, found {described(value)}")
    if "pod" in value:
        return _expect_pod(fields_of(value, _POD))
    if "object" in value:
        return _expect_object(fields_of(value, _OBJECT))
    if "count" in value:
        return _expect_count(fields_of(value, _COUNT, required=("is",)))
    if "measure" in value:
        return _expect_measure(fields_of(value, _MEASURE))
    raise InputError(f"expect: expected pod, object, count or measure, found {described(value)}")


def _expect_pod(fields: dict[str, Any]) -> Step:
    name = str(fields["pod"])
    target = name if name.startswith("pod/") else f"pod/{name}"
    Ref.parse(target)
    if "node" in fields and "nodes" in fields:
        raise InputError("expect: node and nodes exclude each other; give one of them")
    nodes = texts(fields.get("nodes", fields.get("node")), "node") if {"node", "nodes"} & fields.keys() else None
    within_s, for_s = seconds(fields.get("within", DEFAULT_TIMEOUT_S)), seconds(fields.get("for", 0))
    pending = fields.get("pending")
    wanted: dict[str, Any] = {key: str(fields[key]) for key in ("phase", "nominated") if key in fields}
    if pending is not None:
        wanted["pending"] = pending if isinstance(pending, bool) else str(pending)
    event = _event(target, fields, within_s)

    async def step(cluster: ScenarioCluster) -> None:
        if nodes is not None or wanted or event is None:
            await cluster.expect_pod(target, node=nodes, within_s=within_s, for_s=for_s, **wanted)
        if event is not None:
            await event(cluster)

    return step


def _expect_object(fields: dict[str, Any]) -> Step:
    target, ref = str(fields["object"]), Ref.parse(str(fields["object"]))
    within_s = seconds(fields.get("within", DEFAULT_TIMEOUT_S))
    wanted = mapping(fields.get("fields"), "fields")
    exists = bool(fields.get("exists", True))
    if wanted and not exists:
        raise InputError("expect: an object that does not exist has no fields")
    event = _event(target, fields, within_s)

    async def step(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            obj = await cluster.get(target)
            if obj is None or not exists:
                return (obj is None) != exists or ("it is there" if obj else "it does not exist")
            for path, value in wanted.items():
                found = value_at(obj, path)
                if found != value:
                    return f"{path} is {found!r}"
            return True

        said = " and ".join(f"{path} is {value}" for path, value in wanted.items())
        await cluster.expect(f"{ref} {said or ('exists' if exists else 'is gone')}", holds, within_s=within_s)
        if event is not None:
            await event(cluster)

    return step


def _event(target: str, fields: Mapping[str, Any], within_s: float) -> Step | None:
    """Return an expectation of an Event about the same object, if there is one."""
    if not fields.get("event"):
        if "message" in fields:
            raise InputError("expect: message needs event; name the event as well")
        return None
    reason, message = str(fields["event"]), str(fields.get("message", ""))
    return lambda cluster: cluster.expect_event(target, reason=reason, message=message, within_s=within_s)


def _expect_count(fields: dict[str, Any]) -> Step:
    """Expect a number of objects of a kind; pods can be restricted to those with a node or in a phase."""
    kind, wanted = kind_named(str(fields["count"])), whole_number(fields["is"], "is")
    within_s = seconds(fields.get("within", DEFAULT_TIMEOUT_S))
    namespace = str(fields.get("namespace", "default")) if kind.is_namespaced else ""

    async def step(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            found = await cluster.list(kind.resource, namespace, labels=str(fields.get("labels", "")))
            if "placed" in fields:
                found = [obj for obj in found if bool(value_at(obj, "spec.nodeName")) == bool(fields["placed"])]
            if "phase" in fields:
                found = [obj for obj in found if value_at(obj, "status.phase") == fields["phase"]]
            return len(found) == wanted or f"there are {len(found)}"

        details = [f"{name} {fields[name]}" for name in ("labels", "phase", "placed") if name in fields]
        text = f"{wanted} {kind.plural}" + (f" with {', '.join(details)}" if details else "")
        await cluster.expect(text, holds, within_s=within_s)

    return step


def _expect_measure(fields: dict[str, Any]) -> Step:
    """Expect a measure of a simulation, such as ``waitingSeconds.p99``; durations are in seconds."""
    path = str(fields.pop("measure"))
    if not fields:
        raise InputError("expect: a measure needs is, atMost or atLeast")
    wanted = {how: _number(each, how) for how, each in fields.items()}

    async def step(cluster: ScenarioCluster) -> None:
        measures = cluster.backend.measures()
        found = value_at(measures, path)
        if found is None:
            found = value_at(measures.get("measures"), path)
        if not isinstance(found, int | float):
            raise InputError(f"no measure {path!r}; {hint(path, _paths(measures))}")

        said = " and ".join(f"{_WORDS[how]}{each:g}" for how, each in wanted.items())
        holds = all(_HOLDS[how](found, each) for how, each in wanted.items())
        cluster.expect_now(f"{path} is {said}", holds, f"it is {found:g}")

    return step


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "is": lambda found, wanted: found == wanted,
    "atMost": lambda found, wanted: found <= wanted,
    "atLeast": lambda found, wanted: found >= wanted,
}
_WORDS = {"is": "", "atMost": "at most ", "atLeast": "at least "}


def _number(value: Any, name: str) -> float:
    """A number, a share such as 80%, or a duration."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = str(value).strip()
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        try:
            return seconds(text)
        except InputError:
            raise InputError(f"{name}: expected a number, a share such as 80% or a duration, found {value!r}") from None


def _paths(value: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The paths of all numbers in a mapping."""
    found: list[str] = []
    for key, each in value.items():
        if isinstance(each, Mapping):
            found += _paths(each, f"{prefix}{key}.")
        elif isinstance(each, int | float) and not isinstance(each, bool):
            found.append(f"{prefix}{key}")
    return found


def value_at(obj: Any, path: str) -> Any:
    """Return the value at ``status.replicas`` or ``spec.taints.0.key``; None if missing.

    Keys may have dots: ``metadata.labels.topology.kubernetes.io/zone`` is found as well.
    """
    if isinstance(obj, Mapping) and path in obj:
        return obj[path]
    first, dot, rest = path.partition(".")
    while dot:
        if isinstance(obj, Mapping) and first in obj:
            return value_at(obj[first], rest)
        if isinstance(obj, list) and first.isdecimal() and int(first) < len(obj):
            return value_at(obj[int(first)], rest)
        more, dot, rest = rest.partition(".")
        first = f"{first}.{more}"
    if isinstance(obj, list) and path.isdecimal() and int(path) < len(obj):
        return obj[int(path)]
    return None
