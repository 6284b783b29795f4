"""A served kind: how it is called on the wire and what it can do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """How a kind is called on the wire and what it can do; compared by identity, there is one object per kind."""

    kind: str
    plural: str
    group: str
    version: str
    type_name: str
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_generation: bool = False
    """Whether a change of spec counts metadata.generation up."""
    stored_as: str = ""
    """For a second view of the same objects: the plural and group of the kind that stores them."""
    api_version: str = field(init=False)
    resource: str = field(init=False)
    """``pods``, ``deployments.apps``: the name errors and selectors use."""
    has_status: bool = field(init=False)

    def __post_init__(self) -> None:
        """Put together what every request asks for."""
        set_once = object.__setattr__
        set_once(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        set_once(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)
        set_once(self, "has_status", "status" in self.subresources)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def is_stored(self) -> bool:
        return not self.stored_as and "list" in self.verbs
