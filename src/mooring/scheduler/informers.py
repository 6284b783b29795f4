"""The cluster as the API server tells it: watched for the scheduler, or listed once for whoever only looks."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.client.errors import NotFound
from mooring.client.informer import InformerSet
from mooring.client.kinds import SCHEDULER_KINDS
from mooring.client.rest import RestClient
from mooring.client.watch import PAGE_SIZE, ResourceKind
from mooring.errors import ApiError
from mooring.scheduler.event_handlers import EventHandlers
from mooring.state.cluster import Cluster


def connect(informers: InformerSet, handlers: EventHandlers) -> None:
    """Have every kind that the scheduler needs watched, and the handlers told."""
    for kind in SCHEDULER_KINDS:
        informers.add(kind).add_handler(handlers.put, handlers.update, handlers.delete)


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    continue_: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_page_decoder = msgspec.json.Decoder(_Page)


async def load_cluster(client: RestClient) -> Cluster:
    """List all kinds once, without writing or watching anything; kinds that the server does not serve are left out.

    Pods that wait for a node are in nobody's count: ``load_objects`` gives them, too.
    """
    cluster = Cluster()
    for obj in await load_objects(client):
        cluster.put(obj)
    return cluster


async def load_objects(client: RestClient) -> list[Any]:
    """Everything that a scheduler would watch, as it is now. What may not be read raises Forbidden, with its name."""
    objects: list[Any] = []
    for kind in SCHEDULER_KINDS:
        try:
            objects += await _list(client, kind)
        except NotFound:
            continue
    return objects


async def _list(client: RestClient, kind: ResourceKind[Any]) -> list[Any]:
    objects: list[Any] = []
    query = {**kind.selectors(), "limit": str(PAGE_SIZE)}
    while True:
        answer = await client.get(kind.path, query)
        try:
            page = _page_decoder.decode(answer.body)
            objects += [kind.decode(item) for item in page.items or ()]
        except msgspec.DecodeError as error:
            raise ApiError(f"{kind.name}: the answer is not a list of them: {error}") from None
        if not page.metadata.continue_:
            return objects
        query["continue"] = page.metadata.continue_
