"""The replicas of a soak: each is one scheduler process after another, and who leads is made to change."""

from __future__ import annotations

import asyncio
import random

from mooring.bench.soak_churn import Churn
from mooring.live.live_scheduler import LiveScheduler
from mooring.live.process import SchedulerProcess
from mooring.live.settings import Settings


class Replica:
    """One scheduler process, started anew whenever it has ended."""

    def __init__(self, settings: Settings, problems: list[str]) -> None:
        self._settings = settings
        self._problems = problems
        self._process: SchedulerProcess | None = None
        self._is_deposed = False
        self.terms = 0

    async def run(self) -> None:
        """Be a replica until cancelled. Losing the lease (exit code 1) is part of the game."""
        while True:
            self._process = process = SchedulerProcess(self._settings, self._settings.client_config)
            self._is_deposed = False
            task = asyncio.create_task(process.run(signals=False))
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                process.stop()
                await task
                raise
            except Exception as error:
                self._problems.append(f"a scheduler ended with {type(error).__name__}: {error}")
                await asyncio.sleep(1.0)
            finally:
                self.terms += process.ready.is_set()

    @property
    def leads(self) -> bool:
        return self._process is not None and self._process.ready.is_set() and not self._is_deposed

    @property
    def live(self) -> LiveScheduler | None:
        """The scheduler at work, whether it leads or stands by."""
        return None if self._process is None else self._process.live

    def depose(self, *, by_theft: Churn | None = None) -> bool:
        """End this leader's term, by asking it to stop or by writing another holder into its lease."""
        assert self._process is not None
        if by_theft is None:
            self._process.stop()
        elif not by_theft.steal_lease():
            return False
        self._is_deposed = True
        return True


class Leaders:
    """Changes who leads. ``changes`` counts the terms that were ended on purpose."""

    def __init__(self, replicas: list[Replica], churn: Churn, rng: random.Random) -> None:
        self._replicas, self._churn, self._rng = replicas, churn, rng
        self.changes = 0

    def change(self) -> bool:
        """End the leader's term; false if there is no leader just now, and it is to be tried again."""
        leader = next((replica for replica in self._replicas if replica.leads), None)
        if leader is None:
            return False
        by_theft = self._rng.random() < 0.5
        if not leader.depose(by_theft=self._churn if by_theft else None):
            return False
        if not by_theft:
            self._churn.done["stop_leader"] += 1
        self.changes += 1
        return True

    @property
    def terms(self) -> int:
        """How many leaders there have been, whose time is over."""
        return sum(replica.terms for replica in self._replicas)
