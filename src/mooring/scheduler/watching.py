"""A cluster watched from a thread of its own, for code that has no event loop, such as a served extender."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from mooring.client.informer import InformerSet
from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import RestClient, user_agent
from mooring.errors import ApiError
from mooring.framework.cluster_event import EventResource
from mooring.scheduler.informers import Listener, connect

STOP_S = 5.0
CLOSE_S = 0.25  # TLS says goodbye; a loop that ends before leaves sockets open


class ClusterWatch:
    """``start`` returns when all that is there is known; from then on the listener is told of what changes.

    The listener is called in the watch's thread. Nothing is written to the cluster.
    """

    def __init__(self, config: ClientConfig, listener: Listener, *, resources: Iterable[EventResource] = ()) -> None:
        self._config = config
        self._listener = listener
        self._resources = tuple(resources)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="watch", daemon=True)
        self._informers: InformerSet | None = None
        self._client: RestClient | None = None

    def start(self, timeout_s: float) -> None:
        """Begin to watch; raise when the first lists do not come in time."""
        self._thread.start()
        try:
            missing = asyncio.run_coroutine_threadsafe(self._begin(timeout_s), self._loop).result()
        except BaseException:
            self.stop()
            raise
        if missing:
            self.stop()
            raise ApiError(
                f"no list of {', '.join(missing)} from {self._config.server} within {timeout_s:g} s; "
                "is it there, and may this user list and watch them?"
            )

    def stop(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(STOP_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_S)
        if not self._loop.is_running():
            self._loop.close()

    async def _begin(self, timeout_s: float) -> list[str]:
        self._client = RestClient(self._config, agent=user_agent("mooring", "extender"))
        self._informers = InformerSet(self._client)
        connect(self._informers, self._listener, resources=self._resources)
        self._informers.start()
        return [] if await self._informers.wait_for_sync(timeout_s) else self._informers.missing()

    async def _end(self) -> None:
        if self._informers is not None:
            await self._informers.stop()
        if self._client is not None:
            await self._client.close()
            await asyncio.sleep(CLOSE_S)
