"""A served kind: its names in the API, and everything specific to it.

A kind's module in ``registry/groups`` fills in a :class:`Kind`: its hooks of a write, the fields of its field selectors
(:class:`Fields`), its columns in ``kubectl get`` (:class:`Column`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from mooring.controlplane.types import schema
from mooring.controlplane.types.status import Cause

Object = dict[str, Any]
"""An API object as plain values, in the shape that JSON gives it."""

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Stored(Protocol):
    """A stored object, as admission sees it."""

    @property
    def raw(self) -> bytes: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    def object(self) -> Object: ...


class Context(Protocol):
    """The data that admission may read."""

    def find(self, kind: Kind, namespace: str, name: str) -> Stored | None: ...

    def each(self, kind: Kind, namespace: str = "") -> Iterator[Stored]: ...

    def timestamp(self) -> str: ...

    def has_default_tolerations(self) -> bool: ...

    def copies_topology_labels(self) -> bool: ...


def _change_nothing(*_: object) -> None:
    pass


def _find_nothing(*_: object) -> list[Cause]:
    return []


class Fields(msgspec.Struct, frozen=True):
    """The fields of field selectors besides name and namespace, and how to read them."""

    names: tuple[str, ...] = ()
    extract: Callable[[Mapping[str, Any]], dict[str, str]] = lambda _: {}
    is_on_demand: bool = False
    """Read them from the object each time: for kinds with many objects and few such requests."""


Cell = Callable[[Object, float], Any]
"""Makes the text of a table's cell from the object and the current time."""


class Column(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``; those with priority 1 are shown with ``-o wide`` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0


class View(msgspec.Struct, frozen=True):
    """Another form of objects that are stored as objects of another kind."""

    of: Kind
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("s") else f"{word}s"


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One served kind. There is one object per kind, and it is compared by identity.

    The hooks of a write run in this order: ``default`` on everything decoded, ``admit`` on creation, ``prepare_update``
    on (new, old), ``prepare_status`` on (new, old) of a status write, then validation.
    """

    kind: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_generation: bool = False
    """Whether a change of spec increments metadata.generation."""
    default: Callable[[Object], None] = _change_nothing
    admit: Callable[[Object, Context], None] = _change_nothing
    prepare_update: Callable[[Object, Object], None] = _change_nothing
    prepare_status: Callable[[Object, Object], None] = _change_nothing
    validate: Callable[[Object], list[Cause]] = _find_nothing
    validate_update: Callable[[Object, Object], list[Cause]] = _find_nothing
    name_style: str = "subdomain"
    """``subdomain``, ``label`` or ``path`` (RBAC names may contain colons)."""
    keeps_status_at_create: bool = False
    allows_unconditional_update: bool = True
    creates_on_update: bool = False
    returns_deleted: bool = False
    """Whether DELETE returns the deleted object instead of a Status."""
    fields: Fields | None = None
    columns: tuple[Column, ...] = ()
    """The columns of ``kubectl get``; if empty, the name and the time of creation."""
    view: View | None = None
    plural: str = field(init=False)
    type_name: str = field(init=False)
    """The name of the kind's type in ``types.txt``."""
    api_version: str = field(init=False)
    resource: str = field(init=False)
    """``pods``, ``deployments.apps``: the name that errors and selectors use."""
    has_status: bool = field(init=False)
    storage: Kind = field(init=False)
    """The kind that these objects are stored as: the kind itself, except for a view."""

    def __post_init__(self) -> None:
        """Derive what every request needs."""
        set_once = object.__setattr__
        set_once(self, "plural", _plural(self.kind.lower()))
        set_once(self, "type_name", schema.type_name(self.group, self.version, self.kind))
        set_once(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        set_once(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)
        set_once(self, "has_status", "status" in self.subresources)
        set_once(self, "storage", self if self.view is None else self.view.of)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def is_stored(self) -> bool:
        return self.view is None and "list" in self.verbs

    def shown(self, obj: Object) -> Object:
        """Return a stored object in this kind's form."""
        return obj if self.view is None else self.view.from_stored(obj)

    def stored(self, obj: Object) -> Object:
        """Return an object of this kind in its stored form."""
        return obj if self.view is None else self.view.to_stored(obj)

    def field_names(self) -> frozenset[str]:
        """Return all names for field selectors."""
        fields = self.storage.fields
        return frozenset(("metadata.name", "metadata.namespace", *(fields.names if fields else ())))
