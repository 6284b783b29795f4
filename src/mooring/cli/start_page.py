"""The page of ``mooring start --ui``: it listens to the scheduler, and may change what is in the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mooring.cli.page_stories import BuiltInStories
from mooring.cli.ui import announce
from mooring.errors import UsageError
from mooring.sim.runner import Settings, World
from mooring.sim.scenario import Scenario
from mooring.ui.bundle import page_files
from mooring.ui.editing import ClusterEditing
from mooring.ui.server import PageServer
from mooring.ui.shown import Shown
from mooring.ui.source import LiveSource
from mooring.ui.story import source_for


def start_page(*, is_ours: bool, is_asked_for: bool) -> StartPage | None:
    """The page; without it where it has not been built, unless it was asked for: then UsageError says so."""
    try:
        return StartPage(is_ours=is_ours, opens=None if is_asked_for else False)
    except UsageError:
        if is_asked_for:
            raise
        return None


class StartPage:
    """Made before the cluster is, so that it hears everything; UsageError where the page has not been built."""

    def __init__(self, *, is_ours: bool, opens: bool | None) -> None:
        self._files = page_files()
        self._is_ours = is_ours
        self._opens = opens
        self._source: LiveSource | None = None
        self._title = ""

    def observing(self, settings: Settings, scenario: Scenario) -> Settings:
        """The settings with which the page hears what the scheduler does."""
        self._source = source_for(scenario)
        self._title = scenario.title or "mooring start"
        return replace(settings, observers=(*settings.observers, self._source.recorder))

    @asynccontextmanager
    async def served(self, world: World) -> AsyncIterator[None]:
        """Serve the page of this cluster."""
        assert self._source is not None
        editing = ClusterEditing(world.cluster, world.scheduler, world.registry) if self._is_ours else None
        stories = BuiltInStories() if self._is_ours else None
        shown = Shown(self._title, self._source)
        server = PageServer([shown], editing=editing, stories=stories, files=self._files)
        await server.start()
        announce(server, self._opens)
        try:
            yield
        finally:
            await server.stop()
