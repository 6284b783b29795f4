"""Object templates: YAML with the subset of Go's text/template that scheduler_perf files use.

``{{.Index}}`` counts the objects of a step from 0, ``{{.Count}}`` is the number of objects of the step, and a few
functions calculate with them: ``{{Mod .Index 12}}``, ``{{DivideInt 30000 .Count}}``, also nested in parentheses.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
import operator
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from mooring.api import yaml
from mooring.api.errors import ApiError, InputError
from mooring.controlplane.registry.catalog import NAMESPACES, PODS, by_group_kind, by_resource
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import ADDED, DELETED, Event
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError
from mooring.core.config.load import read_file
from mooring.net.errors import NotFound
from mooring.net.rest import MERGE_PATCH, RestClient

Object = dict[str, Any]
Number = int | float

_SAME_AS = {"resource.k8s.io/v1beta2": "resource.k8s.io/v1"}  # versions with the very same fields

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def _divide_int(a: Number, b: Number) -> int:
    """Divide as Go does: it rounds towards zero, Python towards minus infinity."""
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


_FUNCTIONS: dict[str, Callable[[Number, Number], Number]] = {
    "Mod": lambda a, b: int(math.fmod(a, b)),
    "AddInt": lambda a, b: int(a) + int(b),
    "SubtractInt": lambda a, b: int(a) - int(b),
    "MultiplyInt": lambda a, b: int(a) * int(b),
    "DivideInt": _divide_int,
    "AddFloat": operator.add,
    "SubtractFloat": operator.sub,
    "MultiplyFloat": operator.mul,
    "DivideFloat": operator.truediv,
}


class Template:
    """One template, parsed once. ``render`` returns a new object."""

    def __init__(self, text: str, source: str = "") -> None:
        self.source = source
        self._text = text
        self.is_static = _ACTION.search(text) is None
        self._fixed = self._parse(text) if self.is_static else None

    @classmethod
    def read(cls, path: Path) -> Template:
        return cls(read_file(path).decode("utf-8", "replace"), str(path))

    @classmethod
    def of(cls, obj: Object) -> Template:
        """Return a template that is the same for every index."""
        return cls(yaml.dump(obj), "default")

    def render(self, index: int = 0, count: int = 1) -> Object:
        if self._fixed is not None:
            return copy.deepcopy(self._fixed)
        return self._parse(render_text(self._text, index, count, self.source))

    def kind(self) -> Kind:
        """Return the kind of the objects that this creates."""
        return kind_of(self.render(), self.source)

    def _parse(self, text: str) -> Object:
        obj = yaml.load(text, self.source)
        if not isinstance(obj, dict) or not obj.get("kind"):
            raise InputError(f"{self.source}: no object in it; expected one with apiVersion and kind")
        obj["apiVersion"] = _SAME_AS.get(str(obj.get("apiVersion")), obj.get("apiVersion"))
        kind = by_group_kind(str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"]))
        return obj if kind is None else with_wire_names(kind.type_name, obj)


def kind_of(obj: Object, source: str = "") -> Kind:
    """Return the kind of an object; raise InputError with its file for an unknown one."""
    api_version, name = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    kind = by_group_kind(api_version.rpartition("/")[0], name)
    if kind is None or kind.api_version != api_version:
        raise InputError(f"{source}: apiVersion {api_version!r}, kind {name!r}: unknown kind")
    return kind


def with_wire_names(type_name: str, value: Any) -> Any:
    """Spell field names as the API does: upstream ignores their case, and some files rely on it."""
    if type_name[:2] == "[]":
        return [with_wire_names(type_name[2:], item) for item in value] if isinstance(value, list) else value
    if type_name[:2] == "{}":
        if not isinstance(value, dict):
            return value
        return {key: with_wire_names(type_name[2:], item) for key, item in value.items()}
    described = schema.types().get(type_name)
    if described is None or not isinstance(value, dict):
        return value
    by_lower = {name.lower(): field for name, field in described.fields.items()}
    found: Object = {}
    for key, item in value.items():
        field = described.fields.get(key) or by_lower.get(str(key).lower())
        found[key if field is None else field.name] = item if field is None else with_wire_names(field.type, item)
    return found


def render_text(text: str, index: int, count: int, source: str = "") -> str:
    """Replace every ``{{…}}``; an error names the file and the line."""

    def replace(match: re.Match[str]) -> str:
        try:
            return _write(_evaluate(match[1], {".Index": index, ".Count": count}))
        except (ValueError, ZeroDivisionError) as error:
            line = text.count("\n", 0, match.start()) + 1
            raise InputError(f"{source}: line {line}: {match[0]}: {error}") from None

    return _ACTION.sub(replace, text)


def _write(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _evaluate(expression: str, fields: dict[str, int]) -> Number:
    tokens = iter(_TOKEN.findall(expression))
    return _call(tokens, fields, closing=False)


def _call(tokens: Iterator[str], fields: dict[str, int], *, closing: bool) -> Number:
    """Evaluate a value, or a function with its arguments, up to the end or to the closing parenthesis."""
    function: str | None = None
    values: list[Number] = []
    is_closed = False
    for token in tokens:
        if token == ")":
            is_closed = True
            break
        if token == "(":
            values.append(_call(tokens, fields, closing=True))
        elif function is None and not values and token in _FUNCTIONS:
            function = token
        else:
            values.append(_operand(token, fields))
    if is_closed != closing:
        raise ValueError("parentheses do not match")
    if function is None:
        if len(values) != 1:
            raise ValueError("expected one value")
        return values[0]
    if len(values) != 2:
        raise ValueError(f"{function} takes two values, found {len(values)}")
    return _FUNCTIONS[function](values[0], values[1])


def _operand(token: str, fields: dict[str, int]) -> Number:
    if token in fields:
        return fields[token]
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        known = ", ".join([*fields, *_FUNCTIONS])
        raise ValueError(f"{token!r} is not known; there are {known}") from None


# --------------------------------------------------------------------------------------------------------------------
# Objects of a workload in the API: their paths, creating many of them, and deleting all of them.

T = TypeVar("T")
NOW = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}'
_NO_FINALIZERS = b'{"metadata":{"finalizers":null}}'
NAMESPACE_S, NAMESPACE_STEP_S = 20.0, 0.2
"""How long a cluster's controllers may take to empty a namespace."""


class New(NamedTuple):
    """An object to be created."""

    kind: Kind
    namespace: str
    body: bytes


def collection_path(kind: Kind, namespace: str = "") -> str:
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    space = f"/namespaces/{quote(namespace)}" if namespace and kind.is_namespaced else ""
    return f"{root}{space}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    path = f"{collection_path(kind, namespace)}/{quote(name)}"
    return f"{path}/{subresource}" if subresource else path


async def many(work: Callable[[Iterator[T]], Awaitable[None]], source: Iterator[T], workers: int) -> None:
    """Run this many workers on one source; the first failure ends all and is raised unchanged."""

    async def one() -> None:
        await work(source)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(one())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def leave_as_found(client: RestClient, made: Iterable[New], workers: int) -> None:
    """Delete what was created: pods first, since they hold others, namespaces last."""
    by_age = list(made)[::-1]
    pods = [new for new in by_age if new.kind is PODS]
    spaces = [new for new in by_age if new.kind is NAMESPACES]
    others = [new for new in by_age if new.kind not in (PODS, NAMESPACES)]

    async def delete(source: Iterator[New]) -> None:
        for new in source:
            await _delete_for_good(client, new)

    for group in (pods, others, spaces):
        await many(delete, iter(group), workers)
    for new in spaces:
        await _see_off(client, object_path(NAMESPACES, "", _name_of(new)))


async def _delete_for_good(client: RestClient, new: New) -> None:
    """Delete an object and its finalizers: the controllers that remove them may not run where benchmarks run."""
    path = object_path(new.kind, new.namespace, _name_of(new))
    with contextlib.suppress(NotFound):
        answer = await client.delete(path, NOW if new.kind is PODS else b"")
        if new.kind is not NAMESPACES and b'"finalizers"' in answer.body:
            await client.patch(path, _NO_FINALIZERS, content_type=MERGE_PATCH)


async def _see_off(client: RestClient, path: str) -> None:
    """Wait until a namespace is gone; where no controller empties namespaces, finalize it."""
    with contextlib.suppress(NotFound):
        for _ in range(int(NAMESPACE_S / NAMESPACE_STEP_S)):
            namespace = msgspec.json.decode((await client.get(path)).body)
            await asyncio.sleep(NAMESPACE_STEP_S)
        namespace["spec"] = {"finalizers": []}
        await client.update(f"{path}/finalize", msgspec.json.encode(namespace))


class _Named(msgspec.Struct):
    class Metadata(msgspec.Struct):
        name: str = ""

    metadata: Metadata


_named = msgspec.json.Decoder(_Named)


def _name_of(new: New) -> str:
    return _named.decode(new.body).metadata.name


async def list_objects(client: RestClient, kind: Kind, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """Return all objects of a kind in a namespace, as plain values."""
    query = {"labelSelector": selector} if selector else None
    answer = await client.get(collection_path(kind, namespace), query)
    try:
        items: list[dict[str, Any]] = msgspec.json.decode(answer.body).get("items") or []
    except (msgspec.DecodeError, AttributeError) as error:
        raise ApiError(f"{kind.plural}: the answer is not a list: {error}") from None
    return items


# --------------------------------------------------------------------------------------------------------------------
# ResourceClaims for pods with claim templates: the work of kube-controller-manager, for the embedded control plane.

CLAIMS = by_resource("resourceclaims.resource.k8s.io")
TEMPLATES = by_resource("resourceclaimtemplates.resource.k8s.io")
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class ClaimController:
    """Creates and deletes the claims of pods. A pod without templates costs one look at its bytes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._todo: asyncio.Queue[tuple[bool, dict[str, Any]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._unsubscribe = self._api.store.subscribe(PODS, self._note)
        self._task = asyncio.create_task(self._run(), name="claims of pods")

    async def stop(self) -> None:
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _note(self, event: Event) -> None:
        if event.type in (ADDED, DELETED) and b'"resourceClaimTemplateName"' in event.entry.raw:
            self._todo.put_nowait((event.type == ADDED, event.entry.object()))

    async def _run(self) -> None:
        while True:
            is_new, pod = await self._todo.get()
            try:
                (self._make if is_new else self._remove)(pod)
            except StatusError:
                continue  # the pod, its template or its claim is gone: nothing is left to do
            if self._todo.qsize() % 32 == 0:
                await asyncio.sleep(0)

    def _make(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        made = []
        for reference in pod["spec"].get("resourceClaims") or ():
            template_name = reference.get("resourceClaimTemplateName")
            if not template_name:
                continue
            template = self._api.get(TEMPLATES, namespace, template_name).object()["spec"]
            inner = template.get("metadata") or {}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"], "controller": True}
            claim = {
                "metadata": {
                    "generateName": f"{name}-{reference['name']}-",
                    "annotations": {**(inner.get("annotations") or {}), POD_CLAIM_NAME: reference["name"]},
                    "labels": inner.get("labels") or {},
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
            }
            entry = self._api.create(CLAIMS, namespace, claim)
            made.append({"name": reference["name"], "resourceClaimName": entry.name})

        def tell(current: dict[str, Any]) -> None:
            current.setdefault("status", {})["resourceClaimStatuses"] = made

        if made:
            self._api.modify(PODS, namespace, name, tell, subresource="status")

    def _remove(self, pod: dict[str, Any]) -> None:
        namespace = pod["metadata"]["namespace"]
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            name = status.get("resourceClaimName")
            if not name:
                continue
            self._api.modify(CLAIMS, namespace, name, _deallocate, subresource="status")
            self._api.modify(CLAIMS, namespace, name, lambda claim: claim["metadata"].pop("finalizers", None))
            self._api.delete(CLAIMS, namespace, name)


def _deallocate(claim: dict[str, Any]) -> None:
    claim["status"] = {}
