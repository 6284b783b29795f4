"""A story, played in virtual time to its end, as a record that the page shows."""

from __future__ import annotations

from mooring.sim.runner import EmbeddedWorld, Settings
from mooring.sim.scenario import Scenario
from mooring.sim.virtual_time import run_virtual
from mooring.surface.scheduler import PluginReference
from mooring.ui.shown import Shown
from mooring.ui.source import LiveSource


def played(scenario: Scenario, *, seed: int = 0) -> Shown:
    """Play it, and show what happened."""
    source = source_for(scenario)
    settings = Settings(level=0, write=lambda line: None, observers=(source.recorder,), seed=seed)

    async def main() -> None:
        async with EmbeddedWorld(settings, scenario) as world:
            await world.play(scenario)

    run_virtual(main())
    shown = Shown(scenario.title or scenario.name, source)
    shown.refresh()
    source.is_live = False
    return shown


def source_for(scenario: Scenario | None) -> LiveSource:
    """Listens to the scheduler of a story, with the story's own plugins for those who decide again."""
    plugins: tuple[PluginReference, ...] = ()
    if scenario is not None:
        plugins = (*scenario.plugins, *scenario.plugin_files)
    return LiveSource("scenario", plugins)
