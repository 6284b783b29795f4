"""Live reload: the configuration file is read again when it changes, or on SIGHUP.

A file that cannot be used is reported, and the configuration in force stays in force.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

from mooring.config.types import KubeSchedulerConfiguration
from mooring.errors import MooringError
from mooring.observe.logs import get_logger

log = get_logger("mooring.scheduler.reload")

LOOK_EVERY_S = 5.0
_AT_START_ONLY = ("leader_election", "client_connection", "pod_initial_backoff_seconds", "pod_max_backoff_seconds")


class ConfigReloader:
    """Watches one file. ``apply`` takes the new configuration in, or raises."""

    def __init__(
        self,
        path: str,
        load: Callable[[], KubeSchedulerConfiguration],
        apply: Callable[[KubeSchedulerConfiguration], None],
        in_force: KubeSchedulerConfiguration,
    ) -> None:
        self._path = Path(path)
        self._load = load
        self._apply = apply
        self._at_start = self._in_force = in_force
        self._seen = self._fingerprint()
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Read the file again soon, changed or not."""
        self._asked.set()

    async def run(self, every_s: float = LOOK_EVERY_S) -> None:
        """Look now and then, until cancelled."""
        while True:
            is_asked = await self._wait(every_s)
            found = self._fingerprint()
            if is_asked or (found is not None and found != self._seen):
                self._seen = found
                self.reload()

    async def _wait(self, every_s: float) -> bool:
        try:
            async with asyncio.timeout(every_s):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    def reload(self) -> bool:
        """Read and apply the file now; false if the old configuration stays."""
        try:
            config = self._load()
            self._apply(config)
        except MooringError as error:
            log.error(error, "The configuration cannot be used, the old one stays in force")
            return False
        for name in _AT_START_ONLY:
            value = getattr(config, name)
            if value not in (getattr(self._at_start, name), getattr(self._in_force, name)):
                log.warning("The change takes effect after a restart", field=name)
        self._in_force = config
        log.info("The configuration was read again", path=str(self._path))
        return True

    def _fingerprint(self) -> bytes | None:
        try:
            return hashlib.sha256(self._path.read_bytes()).digest()
        except OSError:
            return None  # perhaps it is just being replaced
