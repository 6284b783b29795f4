"""A record of a lesson: its scheduler is the learner's own, so what it does is read from the cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from mooring.client.kinds import SCHEDULER_KINDS
from mooring.config.features import DEFAULT_FEATURES
from mooring.config.load import default_config
from mooring.controlplane.server import ControlPlane
from mooring.lessons.classroom import Say
from mooring.record.files import WholeWrites, create
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder
from mooring.sim.narrated import StoreFeed
from mooring.sim.virtual_time import LoopClock


@contextlib.contextmanager
def recording(plane: ControlPlane, path: str | None) -> Iterator[Say]:
    """Record what happens in the cluster, if a path is given. What is said goes into the record as well."""
    if path is None:
        yield lambda who, text: None
        return
    now = LoopClock(asyncio.get_running_loop()).now
    output = Immediately(WholeWrites(create(path)))
    recorder = WatchRecorder(output, default_config(), DEFAULT_FEATURES, now, source="lesson")
    recorder.is_synced = True
    feed = StoreFeed(plane.store, SCHEDULER_KINDS, recorder)
    feed.start()
    try:
        yield lambda who, text: recorder.note(text, who)
    finally:
        feed.stop()
        recorder.close()
