"""What is particular to a kind: its defaults, admission, what a write may change, and validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause


class Context(Protocol):
    """What admission may look at."""

    @property
    def store(self) -> Store: ...

    def timestamp(self) -> str: ...

    def has_default_tolerations(self) -> bool: ...


def nothing(_: Object) -> None:
    """The default of a kind without defaults."""


def _admit_all(_: Object, __: Context) -> None:
    pass


def _change_nothing(_: Object, __: Object) -> None:
    pass


def _valid(_: Object) -> list[Cause]:
    return []


def _valid_update(_: Object, __: Object) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """The hooks of a write, in the order they run.

    ``default`` runs on everything decoded, ``admit`` on creation, ``prepare_update`` on (new, old),
    ``prepare_status`` on (new, old) of a status write, then validation.
    """

    default: Callable[[Object], None] = nothing
    admit: Callable[[Object, Context], None] = _admit_all
    prepare_update: Callable[[Object, Object], None] = _change_nothing
    prepare_status: Callable[[Object, Object], None] = _change_nothing
    validate: Callable[[Object], list[Cause]] = _valid
    validate_update: Callable[[Object, Object], list[Cause]] = _valid_update
    name_style: str = "subdomain"
    """``subdomain``, ``label`` or ``path`` (RBAC names may hold colons)."""
    keeps_status_at_create: bool = False
    allows_unconditional_update: bool = True
    creates_on_update: bool = False
    returns_deleted: bool = False
    """Whether DELETE answers with the object that is gone instead of a Status."""
