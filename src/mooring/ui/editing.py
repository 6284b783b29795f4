"""Changes from the page, where the cluster behind it is ours: objects as YAML, and the scheduler's configuration."""

from __future__ import annotations

from typing import Any, Protocol

import yaml

from mooring.config.features import Features
from mooring.config.load import read_document
from mooring.config.types import KubeSchedulerConfiguration
from mooring.config.wire import to_wire
from mooring.engine.checking import check_configuration
from mooring.engine.in_tree import in_tree_registry
from mooring.errors import ConfigError, InputError
from mooring.framework.registry import Registry
from mooring.sim.backend import Ref
from mooring.sim.scenario import ScenarioCluster

HIDDEN = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


class Configurable(Protocol):
    """A scheduler that goes on with another configuration."""

    config: KubeSchedulerConfiguration

    @property
    def features(self) -> Features: ...

    def reload(self, config: KubeSchedulerConfiguration) -> None: ...


class ClusterEditing:
    """Edits the cluster of a story as the story itself does, and configures its scheduler."""

    def __init__(self, cluster: ScenarioCluster, scheduler: Configurable, registry: Registry | None = None) -> None:
        """``registry`` has the scheduler's plugins."""
        self._cluster = cluster
        self._scheduler = scheduler
        self._registry = in_tree_registry() if registry is None else registry

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

    def configuration(self) -> str:
        """The scheduler's configuration as YAML."""
        return yaml.safe_dump(to_wire(self._scheduler.config, redact=True), sort_keys=False, allow_unicode=True)

    def configure(self, text: str, *, only_checks: bool) -> dict[str, Any]:
        """Check a configuration and let the scheduler go on with it, unless it has mistakes; returns what was found."""
        try:
            document = read_document(text.encode())
            found = check_configuration(document, self._registry, self._scheduler.features, makes_plugins=True)
        except (ConfigError, InputError) as error:
            return {"problems": list(getattr(error, "problems", ())) or [str(error)], "warnings": [], "applied": False}
        is_good = not found.problems and found.config is not None
        if is_good and not only_checks:
            assert found.config is not None
            self._scheduler.reload(found.config)
        return {
            "problems": found.problems,
            "warnings": list(found.warnings),
            "applied": is_good and not only_checks,
        }
