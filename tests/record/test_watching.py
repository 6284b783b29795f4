"""What an unknown scheduler did is read from the pods."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.errors import InputError
from mooring.api.meta import Condition
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import default_config
from mooring.record import entries
from mooring.record.reader import Record
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder
from mooring.testing import bound, make_node, make_pod

from .conftest import read


class Cluster:
    """Tells a recorder what an informer would tell it."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.sink = VirtualClock(1_000.0), io.BytesIO()
        self.recorder = WatchRecorder(
            Immediately(self.sink), default_config(), DEFAULT_FEATURES, self.clock.now, **options
        )

    def put(self, *objects: Any) -> None:
        for obj in objects:
            self.clock.advance(1)
            self.recorder.put(deepcopy(obj))

    def record(self) -> Record:
        self.recorder.close()
        return read(self.sink.getvalue())

    def happened(self) -> list[Any]:
        return [entry for _, entry in self.record().entries() if not isinstance(entry, entries.Put)]


def refused(pod: Any, message: str, reason: str = "Unschedulable") -> Any:
    changed = deepcopy(pod)
    changed.status.conditions = [Condition(type="PodScheduled", status="False", reason=reason, message=message)]
    return changed


def test_what_was_there_before_is_no_attempt() -> None:
    cluster = Cluster()
    cluster.put(make_node("a"), bound(make_pod("old"), "a"), refused(make_pod("waits"), "no room"))
    (moved,) = cluster.happened()
    assert (moved.key, moved.place, moved.event) == ("default/waits", "unschedulable", "UnschedulablePodAdd")


def test_a_record_without_attempts_is_marked() -> None:
    with pytest.raises(InputError, match="there is no attempt 1; it has none"):
        Cluster().record().attempt(1)


def test_a_pod_that_gets_a_node_was_scheduled() -> None:
    cluster = Cluster()
    cluster.put(make_node("a"))
    cluster.recorder.is_synced = True
    pod = make_pod("p")
    cluster.put(pod, bound(pod, "a"))
    moved, attempt, was_bound = cluster.happened()
    assert (moved.place, attempt.outcome, attempt.node, attempt.tries, attempt.num_nodes) == (
        "active",
        "scheduled",
        "a",
        1,
        1,
    )
    assert was_bound == entries.Bound("default/p", pod.uid, "a")


def test_a_new_word_in_the_condition_is_an_attempt_in_vain() -> None:
    cluster = Cluster()
    cluster.recorder.is_synced = True
    pod = make_pod("p")
    cluster.put(pod, refused(pod, "no nodes"), refused(pod, "no nodes"), refused(pod, "no cpu"), bound(pod, "a"))
    attempts = [entry for entry in cluster.happened() if isinstance(entry, entries.Attempt)]
    assert [(entry.number, entry.outcome, entry.message, entry.tries) for entry in attempts] == [
        (1, "unschedulable", "no nodes", 1),
        (2, "unschedulable", "no cpu", 2),
        (3, "scheduled", "", 3),
    ]


def test_attempts_of_others_can_be_opened() -> None:
    cluster = Cluster()
    cluster.put(make_node("a", cpu="1"), make_node("b", cpu="4"), bound(make_pod("old", cpu="1"), "a"))
    cluster.recorder.is_synced = True
    pod = make_pod("p", cpu="1", spec={"schedulerName": "somebody"})
    cluster.put(pod, bound(pod, "b"))
    record = cluster.record()
    assert record.attempt(1).decide().node == "b"
    assert "default/p goes to b" in repr(record.attempt(1).explain())


def test_a_keyframe_holds_what_was_seen() -> None:
    cluster = Cluster(keyframe_every=3)
    cluster.recorder.is_synced = True
    pods = [make_pod(f"p{i}") for i in range(6)]
    cluster.put(make_node("a"), *pods, *(bound(pod, "a") for pod in pods))
    cluster.recorder.delete(pods[0])
    record = cluster.record()
    assert sum(block.kind == b"K" for block in record._blocks) > 1
    moment = record.moment(record.last_time)
    assert sorted(info.pod.name for info in moment.state.pods()) == ["p1", "p2", "p3", "p4", "p5"]
    assert moment.queue == {}
