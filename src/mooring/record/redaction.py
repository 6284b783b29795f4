"""What a record leaves out.

The structs of :mod:`mooring.api` hold only fields that scheduling reads: a Secret, an environment variable, a command
or the content of a volume never comes near a record. Annotations are the one field in which anything may stand, so
only those are kept that scheduling reads, and those that the writer was told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.gpus.requests import GPU_ANNOTATIONS
from mooring.volumes.claims import BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.volumes.csi_migration import MIGRATED_PLUGINS

READ_ANNOTATIONS = frozenset(
    (BETA_STORAGE_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, MIGRATED_PLUGINS, *GPU_ANNOTATIONS)
)

Redaction = Callable[[dict[str, str]], dict[str, str]]


def keeping(also: Iterable[str] = ()) -> Redaction:
    """Keep the annotations that scheduling reads, and these."""
    kept = READ_ANNOTATIONS.union(also)

    def redact(annotations: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in annotations.items() if name in kept}

    return redact
