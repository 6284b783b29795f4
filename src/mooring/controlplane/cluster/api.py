"""What kubelets, controllers and garbage collection ask of an API server.

The embedded server's ``Api`` and the simulator's ``RemoteApi`` both fulfil it, so that the same controllers work in the
server's own process and over the network.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mooring.clock import Clock
from mooring.controlplane.storage.store import Entry, Store
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object


class ClusterApi(Protocol):
    """Reads come from ``store``; writes may be on their way when a call returns. Refusals are StatusErrors."""

    @property
    def store(self) -> Store:
        """The objects as they are known here, for reading and subscribing only."""

    @property
    def clock(self) -> Clock: ...

    def timestamp(self) -> str: ...

    def create(self, kind: Kind, namespace: str, obj: Object) -> Entry:
        """Create an object. Where the server is elsewhere, the entry shows what was sent."""

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object], *, subresource: str = ""
    ) -> Entry:
        """Read an object, let ``change`` work on a private copy in place, and write it back."""

    def delete(
        self, kind: Kind, namespace: str, name: str, delete_options: Mapping[str, Any] | None = None
    ) -> tuple[Entry, bool]:
        """Delete an object or begin to; also says whether it is known to be gone."""

    def carry_out(self, work: Callable[[], None]) -> Future[None] | None:
        """Do some work; the future is done when every write in it is answered. None: they are answered already."""
