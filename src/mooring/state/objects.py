"""The objects beside pods and nodes: namespaces, services, volumes, classes, budgets, claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from mooring.api.meta import Object

T = TypeVar("T", bound=Object)
MAX_LOG = 100_000


class Objects:
    """A lister per kind, by ``namespace/name`` (or bare name). Reads are what an informer's lister would give."""

    def __init__(self) -> None:
        self._by_kind: defaultdict[type[Object], dict[str, Any]] = defaultdict(dict)
        self._by_namespace: defaultdict[tuple[type[Object], str], dict[str, Any]] = defaultdict(dict)
        self._versions: defaultdict[type[Object], int] = defaultdict(int)
        self._logs: defaultdict[type[Object], list[str]] = defaultdict(list)  # keys in the order in which they changed

    def put(self, obj: Object) -> Object | None:
        """Store a new or changed object; return the one it replaces."""
        kind, key = type(obj), obj.key
        old = self._by_kind[kind].get(key)
        self._by_kind[kind][key] = obj
        self._by_namespace[kind, obj.metadata.namespace][key] = obj
        self._record(kind, key)
        return cast("Object | None", old)

    def remove(self, kind: type[T], key: str) -> T | None:
        old: T | None = self._by_kind[kind].pop(key, None)
        if old is not None:
            place = kind, old.metadata.namespace
            self._by_namespace[place].pop(key, None)
            if not self._by_namespace[place]:
                del self._by_namespace[place]  # namespaces come and go
            self._record(kind, key)
        return old

    def _record(self, kind: type[Object], key: str) -> None:
        log = self._logs[kind]
        if len(log) >= MAX_LOG:
            log.clear()
        log.append(key)
        self._versions[kind] += 1

    def get(self, kind: type[T], key: str) -> T | None:
        return self._by_kind[kind].get(key)

    def all(self, kind: type[T]) -> Iterable[T]:
        return self._by_kind[kind].values()

    def in_namespace(self, kind: type[T], namespace: str) -> Iterable[T]:
        found = self._by_namespace.get((kind, namespace))
        return found.values() if found else ()

    def version(self, kind: type[Object]) -> int:
        """A number that grows whenever an object of this kind comes, changes or goes: what caches compare."""
        return self._versions[kind]

    def changes(self, kind: type[Object], since: int) -> Sequence[str] | None:
        """Keys of what came, changed or went after that version; None when that is too long ago to know."""
        log, behind = self._logs[kind], self._versions[kind] - since
        if behind > len(log):
            return None
        return log[len(log) - behind :] if behind else ()

    def __iter__(self) -> Iterator[Object]:
        for objects in self._by_kind.values():
            yield from objects.values()
