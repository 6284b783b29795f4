"""Objects as the scheduler expects them to become, on top of what the API server has said so far.

A volume that was reserved for a claim, and a claim for which a node was chosen,
look so to the next decision although the API server has not been told yet. Whatever the
API server says later wins.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from mooring.api.meta import Object
from mooring.state.objects import Objects

T = TypeVar("T", bound=Object)


class OutOfSync(Exception):
    """The object has changed, or gone, since the decision looked at it."""


class AssumeCache(Generic[T]):
    """Assumed versions of one kind of object."""

    def __init__(self, kind: type[T], objects: Objects, resource: str) -> None:
        self._kind = kind
        self._objects = objects
        self._resource = resource
        self._assumed: dict[str, tuple[T, T]] = {}  # key -> (assumed, what the API server had said)
        self.touched: set[str] = set()  # keys whose view may differ from before; its follower clears it

    def stored(self, key: str) -> T | None:
        """What the API server has said."""
        return self._objects.get(self._kind, key)

    def get(self, key: str) -> T | None:
        """The object as later decisions shall see it."""
        stored = self._objects.get(self._kind, key)
        if key not in self._assumed:
            return stored
        assumed, base = self._assumed[key]
        if stored is None or not _same_version(stored, base):
            del self._assumed[key]
            return stored
        return assumed

    def assume(self, obj: T) -> None:
        """Expect the object to become like this; it must be made from the version that is stored."""
        key, stored = obj.key, self.stored(obj.key)
        if stored is None:
            raise OutOfSync(f'{self._resource} "{key}" not found')
        mine, theirs = obj.metadata.resource_version, stored.metadata.resource_version
        if mine != theirs:
            raise OutOfSync(f'"{key}" is out of sync (stored: {theirs}, assume: {mine})')
        self._assumed[key] = (obj, stored)
        self.touched.add(key)

    def restore(self, obj: T) -> None:
        """Expect nothing any more, unless a newer version has been assumed meanwhile."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and assumed[0].metadata.resource_version == obj.metadata.resource_version:
            del self._assumed[obj.key]
            self.touched.add(obj.key)


def _same_version(stored: Object, base: Object) -> bool:
    """A relist brings an equal object anew. Objects that never were in an API server have no version to compare."""
    if stored is base:
        return True
    version = stored.metadata.resource_version
    return bool(version) and version == base.metadata.resource_version
