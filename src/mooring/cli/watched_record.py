"""A record of a cluster that is only watched: written until it is large enough, or cannot be written any more."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.cli.streams import say
from mooring.errors import MooringError
from mooring.record.files import WholeWrites, create
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder

if TYPE_CHECKING:
    from mooring.api.meta import Object
    from mooring.config.features import Features
    from mooring.config.types import KubeSchedulerConfiguration


class WatchedRecord:
    """Hears of objects as an informer's listener, for which a write that fails is no reason to stop listening."""

    is_synced = False

    def __init__(
        self,
        path: str,
        max_bytes: int,
        config: KubeSchedulerConfiguration,
        features: Features,
        *,
        is_redacted: bool = True,
    ) -> None:
        self.failure: MooringError | None = None
        self._max_bytes = max_bytes
        self._sink = WholeWrites(create(path))
        with contextlib.ExitStack() as undo:
            undo.callback(self._sink.close)
            self._output = Immediately(self._sink)
            self._recorder = WatchRecorder(self._output, config, features, time.time, is_redacted=is_redacted)
            undo.pop_all()
        self.is_open = True

    @property
    def attempts(self) -> int:
        return self._recorder.attempts

    def put(self, obj: Object) -> None:
        self._recorder.is_synced = self.is_synced
        self._do(lambda: self._recorder.put(obj))

    def update(self, old: Object, new: Object) -> None:
        self.put(new)

    def delete(self, obj: Object) -> None:
        self._do(lambda: self._recorder.delete(obj))

    def note(self, text: str) -> None:
        """Set a marker."""
        self._do(lambda: self._recorder.note(text, "shadow"))

    def flush(self) -> None:
        """Let readers see what there is; end it if that is enough."""
        self._do(self._output.flush)
        if self.is_open and self._output.size >= self._max_bytes:
            say(f"The record has {self._max_bytes >> 20} MiB and ends here; see --max-size.")
            self.close()

    def close(self) -> None:
        """End it; whoever closes it looks whether there was a ``failure``."""
        self._do(self._recorder.close)
        self.is_open = False

    def _do(self, write: Callable[[], None]) -> None:
        if not self.is_open:
            return
        try:
            write()
        except MooringError as error:
            self.failure = error
            self.is_open = False
            self._sink.close()
