"""The pods that a Permit plugin keeps waiting, as plugins ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mooring.state.pod_info import PodInfo


class WaitingPod(Protocol):
    """A pod that a Permit plugin keeps waiting: its node is held, its binding has not begun."""

    @property
    def pod(self) -> PodInfo: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """Let it go as far as this plugin is concerned; when the last plugin allows it, the binding starts."""

    def reject(self, plugin: str, message: str) -> bool:
        """Reject it; false if its waiting has ended already."""


class WaitingPods(Protocol):
    """The pods that wait on permit. A plugin asks for them in any method, also for those of other pods."""

    def get(self, uid: str) -> WaitingPod | None: ...

    def all(self) -> Sequence[WaitingPod]: ...


class NobodyWaits:
    """There are no waiting pods: decisions are made without a scheduler."""

    def get(self, uid: str) -> WaitingPod | None:
        return None

    def all(self) -> Sequence[WaitingPod]:
        return ()
