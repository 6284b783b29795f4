"""The gather pause: the scheduler's thread stands still for some milliseconds after it has decided on all ready pods.

What arrives meanwhile, answers to bindings and watch events of several pods, is then read in one go: waking up for each
of them costs more than all the work in between. A pause must not delay requests that are about to be sent, so it begins
only some turns of the event loop after the last decision, when they are on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.live.binding import BindingCycle
from mooring.live.context import Tasks

GATHER_S = 0.005
"""The usual length of a pause."""
SHORT_GATHER_S = 0.001
"""Shorter pause while PreBind work is in flight: each of its steps has to wait for the end of the pause."""
MOST_GATHER_S = 0.02
"""Upper bound of the pause; it doubles while at least GATHER_MORE pods were decided since the last one."""
GATHER_MORE = 3
TURNS_TO_WRITE = 3
"""How many turns of the event loop it takes until bindings are on the wire: a task for each, one write for all."""
TURNS_TO_DECIDE = 5
"""How many turns it takes from a watch event until its pod is decided on."""
MOST_AGAIN = 10
"""How often the pause is repeated, where many pods came, because bindings are not answered yet."""
MOST_TURNS = 12
"""The pause begins after this many turns in any case. Where a pod comes in every turn, it saves most."""


class GatherPause:
    """Decides when to pause and for how long; ``stand_still`` blocks the thread for some seconds."""

    def __init__(self, stand_still: Callable[[float], None], binding: BindingCycle, tasks: Tasks) -> None:
        self._stand_still = stand_still
        self._binding = binding
        self._tasks = tasks
        self._decisions = 0  # how many there were at the last pause
        self._pause_s = GATHER_S
        self._turns_to_write = self._turns_left = 0  # until the next pause
        self._again_left = 0

    def rest(self, decisions: int) -> None:
        """All ready pods are decided on, after this many decisions since the start: pause soon."""
        if decisions == self._decisions:
            return
        has_many = decisions - self._decisions >= GATHER_MORE
        self._pause_s = min(2 * self._pause_s, MOST_GATHER_S) if has_many else GATHER_S
        self._decisions = decisions
        self._again_left = MOST_AGAIN if self._pause_s > GATHER_S else 0
        self._pause_after(TURNS_TO_WRITE)

    def _pause_after(self, turns: int) -> None:
        """Pause after some turns; a pause that is coming already is put off, for all that is decided until then."""
        is_coming = self._turns_left > 0
        self._turns_to_write = turns
        if not is_coming:
            self._turns_left = MOST_TURNS
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turns_to_write -= 1
        self._turns_left -= 1
        if self._turns_to_write and self._turns_left:
            asyncio.get_running_loop().call_soon(self._turn)
            return
        self._turns_left = 0
        if self._binding.steps_before:  # nominations, claims, volumes
            self._stand_still(SHORT_GATHER_S)
        elif len(self._tasks) > len(self._binding.under_way):  # evictions: other requests follow them, too
            self._stand_still(GATHER_S)
        else:
            self._stand_still(self._pause_s)
            if self._binding.under_way and self._again_left:
                self._again_left -= 1
                self._pause_after(TURNS_TO_DECIDE)
