"""Checks a configuration document with all that can be known about it: ``mooring config check``, and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.config.features import Features
from mooring.config.load import examine
from mooring.config.profile import IN_TREE_POINTS, Expanded, expand_all
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.build import build
from mooring.errors import ConfigError, MooringError
from mooring.framework.registry import Registry
from mooring.state.cluster import Cluster


@dataclass(slots=True)
class Checked:
    """What was found. Without problems there is a configuration that can be used."""

    config: KubeSchedulerConfiguration | None = None
    expanded: dict[str, Expanded] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def check_configuration(
    document: dict[str, Any],
    have: Registry,
    features: Features,
    *,
    assumed: Mapping[str, frozenset[str]] | None = None,
    makes_plugins: bool = False,
) -> Checked:
    """Find every mistake. ``assumed`` plugins run at these points; with ``makes_plugins`` all are made once, because
    only a user's own plugins can check their arguments."""
    found = Checked()
    registry = {**_points(have), **(assumed or {})}
    try:
        loaded, found.problems = examine(document, features)
        found.config, found.warnings = loaded.config, loaded.warnings
        found.expanded = expand_all(loaded.config, registry, version=features.version)
        if makes_plugins and not found.problems:
            build(loaded.config, Cluster(), registry=have, features=features)
    except ConfigError as error:
        found.problems += error.problems
    except MooringError as error:
        found.problems.append(str(error))
    return found


def _points(have: Registry) -> dict[str, frozenset[str]]:
    """Return where plugins can run."""
    ours = {name: points for name, points in have.points().items() if name not in IN_TREE_POINTS}
    return {name: points for name, points in IN_TREE_POINTS.items() if name in have} | ours
