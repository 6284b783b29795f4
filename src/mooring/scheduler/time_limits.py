"""A plugin that hangs costs its pod, not the process: calls into plugins of one's own end after a while.

Filters, scores and the like are plain functions that run in the loop's own
thread. An alarm signal interrupts one that does not come back; what it raises
becomes that pod's error, like anything else that a plugin raises. Plugins that
come with mooring are trusted, and so are ``async`` methods: while those wait,
everything else goes on.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from mooring.config.duration import format_duration
from mooring.framework.runtime import Profile

METHODS = (
    "pre_enqueue",
    "pre_filter",
    "add_pod",
    "remove_pod",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
    "post_bind",
)


class PluginTimeout(Exception):
    """A plugin did not come back in time."""


def limit_plugins(profile: Profile, seconds: float) -> None:
    """Give every plugin that is not mooring's own so many seconds per call."""
    if seconds <= 0:
        return
    for plugin in profile.plugins.values():
        if type(plugin).__module__.startswith("mooring.plugins."):
            continue
        for name in METHODS:
            method = getattr(plugin, name, None)
            if callable(method) and not inspect.iscoroutinefunction(method):
                object.__setattr__(plugin, name, _limited(method, f"{plugin.name}.{name}", seconds))
        if plugin.name in profile.normalizers:
            profile.normalizers[plugin.name] = plugin.normalize


def _limited(method: Callable[..., Any], name: str, seconds: float) -> Callable[..., Any]:
    text = f"{name} did not come back within {format_duration(seconds)}"

    def give_up(signum: int, frame: FrameType | None) -> None:
        raise PluginTimeout(text)

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return method(*arguments, **named)  # only the main thread can be interrupted
        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return method(*arguments, **named)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return call
