"""Records a cluster with another scheduler, whose decisions are read from the pods.

A pod that got a node was scheduled. A pod with a reason in its PodScheduled condition could not be scheduled. The other
scheduler's internal state (its queue, assumed pods) cannot be observed.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.version import __version__
from mooring.core.config.features import Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.config.wire import to_wire
from mooring.core.queue.events import SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.moment import Moment
from mooring.record.recorder import KEYFRAME_EVERY, RecordOutput
from mooring.record.scheduler_state import objects_of
from mooring.record.writer import Item


class WatchRecorder:
    """Receives objects as an informer's listener. ``is_synced`` is set once all first lists have arrived."""

    def __init__(
        self,
        output: RecordOutput,
        config: KubeSchedulerConfiguration,
        features: Features,
        now: Callable[[], float],
        *,
        source: str = "watch",
        is_redacted: bool = True,
        keyframe_every: int = KEYFRAME_EVERY,
    ) -> None:
        """``config`` is assumed to be that of the cluster's scheduler: attempts are opened with it."""
        self._output = output
        self._now = now
        self._keyframe_every = keyframe_every
        self._left = keyframe_every  # entries until the next keyframe
        self.is_synced = False
        self.attempts = 0
        header = entries.Header(
            format=FORMAT,
            mooring=__version__,
            kubernetes=str(features.version),
            source=source,
            started=now(),
            gates=features.changed(),
            configuration=to_wire(config, redact=True),
            is_redacted=is_redacted,
        )
        self._seen = Moment(header)
        output.begin(header)
        output.take_state(header.started, [])

    def put(self, obj: Object) -> None:
        """Record a new or changed object."""
        self._maybe_keyframe()
        if isinstance(obj, Pod) and not obj.is_finished:
            self._put_pod(obj)
        else:
            self._add(obj)

    def update(self, old: Object, new: Object) -> None:
        self.put(new)

    def delete(self, obj: Object) -> None:
        """Record a deleted object."""
        self._maybe_keyframe()
        self._add(entries.Deleted(type(obj).__name__, obj.key, obj.metadata.uid))

    def note(self, text: str, kind: str = "note") -> None:
        """Add a marker, such as a story's narration."""
        self._add(entries.Note(text, kind))

    def close(self) -> None:
        self._output.close(self._now())

    # ---- actions of the scheduler ----------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod) -> None:
        old = self._seen.pods.get(pod.key)
        if old is not None and old.uid != pod.uid:
            old = None
        if pod.spec.node_name:
            self._put_placed(pod, is_new=old is None or not old.spec.node_name)
        else:
            self._put_pending(pod, old)

    def _put_placed(self, pod: Pod, *, is_new: bool) -> None:
        was_bound = is_new and self.is_synced and bool(pod.spec.scheduler_name)
        if was_bound:
            self._attempt(pod, entries.SCHEDULED, node=pod.spec.node_name)
        self._add(pod)
        if was_bound:
            self._add(entries.Bound(pod.key, pod.uid, pod.spec.node_name))

    def _put_pending(self, pod: Pod, old: Pod | None) -> None:
        said, before = pod.scheduled_condition, None if old is None else old.scheduled_condition
        is_refused = said is not None and said.status == "False" and said.reason in ("Unschedulable", "SchedulerError")
        has_failed = is_refused and self.is_synced and said != before
        if has_failed and said is not None:
            outcome = entries.UNSCHEDULABLE if said.reason == "Unschedulable" else entries.ERROR
            nominated = pod.status.nominated_node_name or None
            self._attempt(pod, outcome, message=said.message, nominated=nominated)
        self._add(pod)
        if has_failed and said is not None:
            self._add(entries.Failed(pod.key, pod.uid, said.reason, said.message))
            self._add(entries.Moved(pod.key, pod.uid, entries.WAITING, SCHEDULE_ATTEMPT_FAILURE))
        elif old is None or bool(old.spec.scheduling_gates) != bool(pod.spec.scheduling_gates):
            place = entries.GATED if pod.spec.scheduling_gates else entries.WAITING if is_refused else entries.ACTIVE
            self._add(entries.Moved(pod.key, pod.uid, place, UNSCHEDULED_POD_ADD.label))

    def _attempt(
        self, pod: Pod, outcome: str, *, node: str = "", message: str = "", nominated: str | None = None
    ) -> None:
        self.attempts += 1
        waiting = self._seen.queue.get(pod.uid)
        self._add(
            entries.Attempt(
                self.attempts,
                pod.key,
                pod.uid,
                pod.spec.scheduler_name,
                outcome,
                node,
                message,
                1 if waiting is None else waiting.tries + 1,
                len(self._seen.state.nodes()),
                nominated=nominated,
            )
        )

    # ---- gathering -----------------------------------------------------------------------------------------------

    def _add(self, item: Item) -> None:
        time = self._now()
        self._output.take([time], [item])
        happened = entries.Put(item) if isinstance(item, Object) else item
        self._seen.apply(time, happened)  # type: ignore[arg-type]
        self._left -= 1

    def _maybe_keyframe(self) -> None:
        if self._left > 0 or self._output.is_full:
            return
        seen = self._seen
        items = objects_of(seen.state, seen.pods, seen.waiting.__contains__)
        items += [
            entries.Queued(
                each.key,
                each.uid,
                each.place,
                each.tries,
                each.since,
                each.added,
                each.event,
                each.cause,
                each.message,
                each.plugins,
            )
            for each in seen.queue.values()
        ]
        self._output.take_state(self._now(), items)
        self._left = max(self._keyframe_every, 2 * len(items))
