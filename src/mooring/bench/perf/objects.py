"""Objects of a workload over the API: where they are, making many of them, and leaving none behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from mooring.client.errors import NotFound
from mooring.client.rest import MERGE_PATCH, RestClient
from mooring.controlplane.registry.catalog import NAMESPACES, PODS
from mooring.controlplane.types.kind import Kind
from mooring.errors import ApiError

T = TypeVar("T")
NOW = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}'
_NO_FINALIZERS = b'{"metadata":{"finalizers":null}}'
NAMESPACE_S, NAMESPACE_STEP_S = 20.0, 0.2
"""How long a cluster's controllers may take to empty a namespace."""


class New(NamedTuple):
    """An object to be made."""

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
    """Let so many workers share a source; the first failure ends all and is raised as it is."""

    async def one() -> None:
        await work(source)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(one())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def leave_as_found(client: RestClient, made: Iterable[New], workers: int) -> None:
    """Delete what was made: pods first, since others are held by them, namespaces last."""
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
    """Finalizers are removed, too: the controllers that do so may not run where benchmarks run."""
    path = object_path(new.kind, new.namespace, _name_of(new))
    with contextlib.suppress(NotFound):
        answer = await client.delete(path, NOW if new.kind is PODS else b"")
        if new.kind is not NAMESPACES and b'"finalizers"' in answer.body:
            await client.patch(path, _NO_FINALIZERS, content_type=MERGE_PATCH)


async def _see_off(client: RestClient, path: str) -> None:
    """Wait until a namespace is gone; where no controller empties namespaces, say that it is empty."""
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
    """All objects of a kind in a namespace, as plain values."""
    query = {"labelSelector": selector} if selector else None
    answer = await client.get(collection_path(kind, namespace), query)
    try:
        items: list[dict[str, Any]] = msgspec.json.decode(answer.body).get("items") or []
    except (msgspec.DecodeError, AttributeError) as error:
        raise ApiError(f"{kind.plural}: the answer is not a list: {error}") from None
    return items
