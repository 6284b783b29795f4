"""pytest fixtures for scheduling tests of your own manifests, in virtual time.

```python
pytest_plugins = ["mooring.testing_scenarios"]       # in conftest.py


def test_the_web_server_spreads(virtual_cluster):
    async def story(cluster):
        for i in range(3):
            await cluster.create(node(f"node{i}", zone="abc"[i]))
        await cluster.apply(Path("deploy/web.yaml").read_text())
        await cluster.wait("deployment/web", "Available")
        assert len(set((await cluster.placements()).values())) == 3

    virtual_cluster(story)
```

Minutes pass in milliseconds, and every run does the same. ``play`` does the same without pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mooring.core.framework.extender import ExtenderClient
from mooring.sim.library import built_in, find
from mooring.sim.narration import NORMAL
from mooring.sim.player import PlayResult as Result
from mooring.sim.player import run_in_virtual_time
from mooring.sim.scenario import ExpectationFailed, Play, Scenario, ScenarioCluster, node, pod, taint
from mooring.sim.worlds import PlaySettings

__all__ = [
    "ExpectationFailed",
    "Result",
    "Scenario",
    "ScenarioCluster",
    "Story",
    "built_in",
    "find",
    "node",
    "play",
    "pod",
    "taint",
    "virtual_cluster",
]


class Story:
    """The narration of a played story, line by line, and its end."""

    def __init__(self, result: Result, lines: list[str]) -> None:
        self.result = result
        self.lines = lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def play(
    story: Play,
    *,
    config: Mapping[str, Any] | None = None,
    plugins: tuple[type, ...] = (),
    extenders: tuple[ExtenderClient, ...] = (),
    level: int = NORMAL,
    seed: int = 0,
) -> Story:
    """Play a story in virtual time; raise :class:`ExpectationFailed` for an unmet expectation.

    ``config`` is a KubeSchedulerConfiguration, ``plugins`` classes that it may name. The error carries the narration,
    so that a red test says what happened.
    """
    lines: list[str] = []
    scenario = Scenario(getattr(story, "__name__", "story"), "", story, config, plugins, extenders=extenders)
    result = run_in_virtual_time(scenario, PlaySettings(level=level, write=lines.append, seed=seed))
    if not result.held:
        raise ExpectationFailed("\n".join([result.failure, *lines]))
    return Story(result, lines)


@pytest.fixture
def virtual_cluster() -> Callable[..., Story]:
    """Return a function that plays stories, each on its own cluster: :func:`play`."""
    return play
