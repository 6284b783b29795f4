"""Changes from the page, where the cluster behind it is ours: objects as YAML, with the server's own errors."""

from __future__ import annotations

from typing import Any

import yaml

from mooring.errors import InputError
from mooring.sim.backend import Ref
from mooring.sim.scenario import ScenarioCluster

HIDDEN = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


class ClusterEditing:
    """Edits the cluster of a story as the story itself does."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self._cluster = cluster

    async def apply(self, manifest: str) -> list[str]:
        """Create or change the objects of a manifest, in its order; returns their names."""
        try:
            documents = [each for each in yaml.safe_load_all(manifest) if each]
        except yaml.YAMLError as error:
            raise InputError(f"the manifest cannot be read: {' '.join(str(error).split())}") from None
        applied = []
        for each in documents:
            if not isinstance(each, dict) or not each.get("kind"):
                raise InputError("expected a manifest with apiVersion, kind and metadata")
            done = await self._cluster.backend.apply(each)
            applied.append(f"{done['kind'].lower()}/{done['metadata']['name']}")
        return applied

    async def delete(self, reference: str) -> None:
        if not await self._cluster.delete(reference):
            raise InputError(f"{reference}: there is no such object")

    async def manifest(self, reference: str) -> str:
        found = await self._cluster.backend.get(Ref.parse(reference))
        if found is None:
            raise InputError(f"{reference}: there is no such object")
        shown: dict[str, Any] = dict(found)
        shown["metadata"] = {name: value for name, value in found["metadata"].items() if name not in HIDDEN}
        shown.pop("status", None)
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
