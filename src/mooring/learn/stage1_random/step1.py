"""Lesson 1, step 1 of 5: a scheduler that does nothing.

It can be started and stopped. The caller cancels its task to stop it: that is Python's form of the quit channel that
schedulers written in Go have.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient

log = logging.getLogger("lesson")


class Scheduler:
    """So far it only starts and stops."""

    def __init__(self, client: RestClient) -> None:
        self.client = client

    async def run(self) -> None:
        """Wait until cancelled."""
        log.info("run is called")
        try:
            await asyncio.Event().wait()  # an event that never comes
        finally:
            log.info("quit")


async def main() -> None:
    """Start the scheduler for the cluster that kubectl would talk to; Ctrl-C cancels it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    async with RestClient(find_config()) as client:
        await Scheduler(client).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
