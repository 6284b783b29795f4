"""The objects beside pods and nodes: namespaces, services, volumes, classes, budgets, claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

from mooring.api.meta import Object
from mooring.state.change_log import ChangeLog
from mooring.state.sharing import Forkable

T = TypeVar("T", bound=Object)


class Objects(Forkable):
    """A lister per kind, by ``namespace/name`` (or bare name). Reads are what an informer's lister would give."""

    def __init__(self) -> None:
        super().__init__()
        self._by_kind: dict[type[Object], dict[str, Any]] = {}
        self._by_namespace: dict[tuple[type[Object], str], dict[str, Any]] = {}
        self._logs: defaultdict[type[Object], ChangeLog[str]] = defaultdict(ChangeLog)
        self._own_kinds: set[type[Object]] | None = None  # those that are not shared with a fork; None: all of them

    def fork(self) -> Objects:
        """The same objects; neither sees what happens to the other from now on."""
        fork = Objects()
        fork._by_kind, fork._by_namespace = self._by_kind, self._by_namespace
        self.share_with(fork, 1)
        return fork

    def put(self, obj: Object) -> Object | None:
        """Store a new or changed object; return the one it replaces."""
        kind, key = type(obj), obj.key
        of_kind = self._writable(kind)
        old = of_kind.get(key)
        of_kind[key] = obj
        self._by_namespace.setdefault((kind, obj.metadata.namespace), {})[key] = obj
        self._logs[kind].note(key)
        return cast("Object | None", old)

    def remove(self, kind: type[T], key: str) -> T | None:
        if key not in self._by_kind.get(kind, {}):
            return None
        old: T = self._writable(kind).pop(key)
        place = kind, old.metadata.namespace
        self._by_namespace[place].pop(key, None)
        if not self._by_namespace[place]:
            del self._by_namespace[place]  # namespaces come and go
        self._logs[kind].note(key)
        return old

    def _writable(self, kind: type[Object]) -> dict[str, Any]:
        """The objects of a kind, copied if a fork or its parent reads them, too."""
        if self.shared:
            if self.must_copy(1):
                self._by_kind, self._by_namespace = dict(self._by_kind), dict(self._by_namespace)
                self._own_kinds = set()
            elif not self.is_fork and not self.has_forks():
                self._own_kinds = None
        if self._own_kinds is not None and kind not in self._own_kinds:
            self._own_kinds.add(kind)
            self._by_kind[kind] = dict(self._by_kind.get(kind, {}))
            for place in [place for place in self._by_namespace if place[0] is kind]:
                self._by_namespace[place] = dict(self._by_namespace[place])
        return self._by_kind.setdefault(kind, {})

    def get(self, kind: type[T], key: str) -> T | None:
        return self._by_kind.get(kind, {}).get(key)

    def all(self, kind: type[T]) -> Iterable[T]:
        return self._by_kind.get(kind, {}).values()

    def in_namespace(self, kind: type[T], namespace: str) -> Iterable[T]:
        return self._by_namespace.get((kind, namespace), {}).values()

    def version(self, kind: type[Object]) -> int:
        """A number that grows whenever an object of this kind comes, changes or goes."""
        return self._logs[kind].end

    def log(self, kind: type[Object]) -> ChangeLog[str]:
        """The keys of this kind that came, changed or went, in order."""
        return self._logs[kind]

    def __iter__(self) -> Iterator[Object]:
        for objects in self._by_kind.values():
            yield from objects.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))
