"""Who watches the cycle at work: how long each extension point took, and which plugins were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mooring.framework.plugin_timing import PluginTimer


class CycleObserver(Protocol):
    """Told after each extension point of a scheduling cycle; called often, so it must be quick."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        """These plugins (or pairs of plugin and weight) were asked so many times; equal lists are the same object."""

    def plugin_timer(self) -> PluginTimer | None:
        """Who times the plugins of the attempt that begins now; None for most of them."""

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        """Batching was asked for a node; ``flushed`` says why what it remembers is of no use, if it remembers any."""

    def batch_rescored(self, seconds: float) -> None:
        """Batching scored the node of the pod before again."""

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        """Batching was told of a placement. ``hint``: whether its hint was taken, None if there was none."""
