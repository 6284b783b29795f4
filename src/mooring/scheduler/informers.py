"""The cluster as the API server tells it: watched for the scheduler, or listed once for commands that only read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.client.errors import Forbidden, NotFound
from mooring.client.informer import InformerSet
from mooring.client.kinds import DEVICE_TAINT_RULES, EXTRA_KINDS, NODES, POD_GROUPS, PODS, SCHEDULER_KINDS
from mooring.client.pages import Garbled, read_page
from mooring.client.resource_kind import ResourceKind
from mooring.client.rest import RestClient
from mooring.client.watch import PAGE_SIZE
from mooring.config.features import DEFAULT_FEATURES, Features
from mooring.errors import ApiError
from mooring.extender.objects import RawObjects
from mooring.framework.cluster_event import EventResource


class Listener(Protocol):
    """Who wants to hear of objects: the scheduler."""

    def put(self, obj: Object) -> None: ...

    def update(self, old: Object, new: Object) -> None: ...

    def delete(self, obj: Object) -> None: ...


def kinds_for(resources: Iterable[EventResource]) -> list[ResourceKind[Any]]:
    """The kinds that a scheduler watches whose plugins want to hear of these resources."""
    wanted = set(resources)
    return [*SCHEDULER_KINDS, *(kind for resource, kind in EXTRA_KINDS.items() if resource in wanted)]


def connect(
    informers: InformerSet,
    listener: Listener,
    *,
    raw: RawObjects | None = None,
    resources: Iterable[EventResource] = (),
) -> None:
    """Have every kind that the scheduler needs watched, and the listener told.

    ``resources`` are what plugins want to hear of. ``raw`` keeps pods and nodes as they come, for extenders that want
    them whole.
    """
    for kind in kinds_for(resources):
        if raw is not None and kind in (PODS, NODES):
            kept = replace(kind, decode=raw.decoder(Pod if kind is PODS else Node), decode_event=None, share=None)
            informers.add(kept).add_handler(listener.put, listener.update, _after(listener.delete, raw.forget))
        else:
            informers.add(kind).add_handler(listener.put, listener.update, listener.delete)


def _after(first: Callable[[Object], None], then: Callable[[Object], None]) -> Callable[[Object], None]:
    def both(obj: Object) -> None:
        first(obj)
        then(obj)

    return both


async def load_objects(client: RestClient, features: Features = DEFAULT_FEATURES) -> list[Any]:
    """Everything that a scheduler would watch, as it is now. What may not be read raises Forbidden, with its name."""
    objects: list[Any] = []
    also = (DEVICE_TAINT_RULES,) if features["DRADeviceTaintRules"] else ()
    for kind in (*SCHEDULER_KINDS, *also):
        for version in kind.at_each_version():
            with contextlib.suppress(NotFound):
                objects += await _list(client, version)
                break
    if "GenericWorkload" not in features.version.unsupported:
        with contextlib.suppress(NotFound, Forbidden):  # most clusters have none, and most users may not look
            objects += await _list(client, POD_GROUPS)
    return objects


async def _list(client: RestClient, kind: ResourceKind[Any]) -> list[Any]:
    objects: list[Any] = []
    query = {**kind.selectors(), "limit": str(PAGE_SIZE)}
    while True:
        answer = await client.get(kind.path, query)
        try:
            page = read_page(answer.body)
        except Garbled as error:
            raise ApiError(f"{kind.name}: {error}") from None
        objects += [kind.decode(item) for item in page.items or ()]
        if not page.metadata.continue_:
            return objects
        query["continue"] = page.metadata.continue_
