"""The player: plays a story in some world to its end, and reports the result.

``mooring scenario run``, ``mooring start`` and the page play a story with narration on a cluster of
:mod:`mooring.sim.worlds` or :mod:`mooring.sim.remote_world`. ``mooring simulate`` plays the same story without
narration on a :class:`mooring.sim.simulated_world.SimulatedWorld`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mooring.api.errors import ApiError, InputError, MooringError
from mooring.sim.scenario import Scenario
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings, World

MISTAKES = (400, 404, 409, 422)
"""Responses of the API server to a step that names a missing object, an existing one, or an impossible one."""

MakeWorld = Callable[[PlaySettings, Scenario], World]


class PlayResult(msgspec.Struct, frozen=True):
    """The result of a story."""

    scenario: str
    failure: str = ""
    is_mistake: bool = False  # in the input: says nothing about the scheduler
    expectations: int = 0
    seconds: float = 0.0
    first_placement_s: float | None = None

    @property
    def held(self) -> bool:
        return not self.failure

    @property
    def exit_code(self) -> int:
        """0 if all expectations held, 1 if not, 2 if the story itself is invalid."""
        return 2 if self.is_mistake else 0 if self.held else 1

    @property
    def verdict(self) -> str:
        """Describe why a story did not end as it should."""
        return f"{'a mistake in the story' if self.is_mistake else 'NOT as expected'}: {self.failure}"


async def play(world: World, scenario: Scenario) -> PlayResult:
    """Play a story in a running world; an unmet expectation ends it."""
    narrator, started = world.narrator, world.clock.monotonic()
    failure, is_mistake = "", False
    if scenario.title:
        narrator.said(scenario.title)
    try:
        await scenario.play(world.cluster)
    except (MooringError, AssertionError) as error:
        failure = str(error) or "an assertion of the story does not hold"
        is_mistake = isinstance(error, InputError) or (isinstance(error, ApiError) and error.code in MISTAKES)
        if not narrator.failed_expectations:
            narrator.note("FAILED", failure, level=0)
    await world.cluster.stop_workloads()
    await asyncio.sleep(0.01)  # the narration also shows the effects of the last step
    narrator.finish()
    return PlayResult(
        scenario.name,
        failure,
        is_mistake,
        narrator.held_expectations,
        world.clock.monotonic() - started,
        narrator.first_placement_s,
    )


def run_in_virtual_time(scenario: Scenario, settings: PlaySettings | None = None) -> PlayResult:
    """Play a scenario on the embedded control plane in virtual time; the output is reproducible."""
    return run_virtual(_played(scenario, settings, EmbeddedWorld))


def run_in_real_time(
    scenario: Scenario, settings: PlaySettings | None = None, make_world: MakeWorld = EmbeddedWorld
) -> PlayResult:
    """Play a scenario in real time, on the embedded control plane or in another world."""
    return asyncio.run(_played(scenario, settings, make_world))


async def _played(scenario: Scenario, settings: PlaySettings | None, make_world: MakeWorld) -> PlayResult:
    async with make_world(settings or PlaySettings(), scenario) as world:
        return await play(world, scenario)
