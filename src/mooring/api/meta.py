"""Metadata of all objects: names, labels, owners, and label selectors in wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A wire object: snake_case here, camelCase there, unknown fields ignored, defaults left out.

    ``gc=False`` excludes it from garbage collection: decoded objects form trees, never cycles.
    """

    if TYPE_CHECKING:  # msgspec has it and does not say so; ``copy.copy`` takes three times as long to find it

        def __copy__(self) -> Self: ...


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    def controller(self) -> OwnerReference | None:
        """Return the owner that manages this object, if one does."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class LabelSelector(Struct):
    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class Condition(Struct):
    """A condition of any object; the scheduler reads type, status and reason."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class Object(Struct):
    """Base class of all kinds."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
