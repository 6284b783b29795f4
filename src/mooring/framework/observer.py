"""Who watches the cycle at work: how long each extension point took, and which plugins were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class CycleObserver(Protocol):
    """Told after each extension point of a scheduling cycle; called often, so it must be quick."""

    def extension_point(self, point: str, status: str, seconds: float) -> None: ...

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        """These plugins (or pairs of plugin and weight) were asked so many times; equal lists are the same object."""
