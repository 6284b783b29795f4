"""What plugins remember from one extension point to the next, within one attempt at one pod."""

from __future__ import annotations

from typing import Any

from mooring.core.framework.plugin_timing import PluginTimer

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
BINDING_ANNOTATIONS = "mooring/binding-annotations"
"""Annotations that are put on the pod with its Binding: a plugin writes a dict under this key in Reserve."""


class OutOfTime(BaseException):
    """The attempt has used up its time. Not an Exception: no plugin can swallow it by accident."""


class Budget:
    """The time of one attempt. The thread that watches the clock sets ``is_spent``; the attempt only reads it."""

    __slots__ = ("is_spent",)

    def __init__(self) -> None:
        self.is_spent = False


UNLIMITED = Budget()


class CycleState:
    """A keyed store for one attempt. Keys are plugin names or ``plugin/what``."""

    __slots__ = ("_data", "asks_all", "budget", "group_cycle", "skip_filter", "skip_score", "timer")

    def __init__(self) -> None:
        self._data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.timer: PluginTimer | None = None  # calls this attempt's plugins if they are timed; not copied
        self.asks_all = False  # whether plugins are asked again that have answered for the pod's template; not copied
        self.budget = UNLIMITED
        self.group_cycle: object | None = None  # the same for all pods of a group that are tried together

    def check_time(self) -> None:
        """Raise OutOfTime if the attempt has used up its time. A long search calls this in its loop."""
        if self.budget.is_spent:
            raise OutOfTime

    def write(self, key: str, value: Any) -> None:
        self._data[key] = value

    def read(self, key: str) -> Any:
        """What was written under the key, or None."""
        return self._data.get(key)

    def clone(self) -> CycleState:
        """A copy for a hypothesis: values that have ``clone`` are cloned, others are shared."""
        copy = CycleState()
        copy._data = {k: v.clone() if hasattr(v, "clone") else v for k, v in self._data.items()}
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.budget = self.budget
        copy.group_cycle = self.group_cycle
        return copy
