"""Pods refused as the one before them: nothing but time is saved, whatever is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.live.observer import Observed, SchedulerObserver
from mooring.live.refusals import RepeatedRefusals
from mooring.sim.simulate import Arrival, simulate
from mooring.testing import make_node, make_object, make_pod

HIGH = make_object("PriorityClass", "high", value=100)
APART: dict[str, Any] = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "lone"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
]
TEMPLATES: dict[str, dict[str, Any]] = {
    "small": {"cpu": "1"},
    "large": {"cpu": "2"},
    "high": {"cpu": "1", "spec": {"priorityClassName": "high"}},
    "like high, never": {"cpu": "1", "spec": {"priorityClassName": "high", "preemptionPolicy": "Never"}},
    "high, never": {"cpu": "2", "spec": {"priorityClassName": "high", "preemptionPolicy": "Never"}},
    "labelled": {"cpu": "1", "spec": {"nodeSelector": {"disk": "ssd"}}},
    "lone": {"cpu": "1", "labels": {"app": "lone"}, "spec": {"affinity": APART}},
    "even": {"cpu": "1", "labels": {"app": "even"}, "spec": {"topologySpreadConstraints": SPREAD}},
    "impossible": {"cpu": "64"},
}


class Everything(SchedulerObserver):
    """Writes down what an observer can see at each attempt."""

    def __init__(self, *, wants_detail: bool = False) -> None:
        self.seen: list[object] = []
        self._drawn: list[int] = []
        self._wants_detail = wants_detail

    def configured(self, scheduler: Observed) -> None:
        self._scheduler = scheduler
        scheduler.drawn.append(self._drawn)

    def _look(self, what: str, info: QueuedPodInfo, *more: object) -> None:
        scheduler = self._scheduler
        queue = scheduler.queue
        waiting = [
            (each.key, place, each.attempts, each.timestamp, each.unschedulable_count, queue._backoff.expiration(each))
            for each, place in queue.places()
        ]
        pod = scheduler.pods.get(info.key)
        conditions = [] if pod is None else pod.status.conditions
        self.seen.append(
            (what, scheduler.clock.now(), info.key, info.message, *more, waiting, tuple(self._drawn), conditions)
        )
        self._drawn.clear()

    def wants_detail(self) -> bool:
        self.seen.append("asked")
        return self._wants_detail

    def decided(self, info: QueuedPodInfo, profile: Any, decision: Any, seconds: float) -> None:
        self._look("decided", info, decision.message, decision.node, decision.rejectors, decision.pod.pod.key, seconds)

    def failed(self, info: QueuedPodInfo, profile: Any, reason: str, message: str, seconds: float) -> None:
        self._look("failed", info, reason, message)

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Any) -> None:
        self._look("moved", info, place, event, None if cause is None else cause.key)

    def event(self, regarding: Any, reason: str, note: str) -> None:
        self.seen.append((regarding.name, reason, note))


def outcome(
    nodes: list[tuple[str, bool]], story: list[tuple[float, str, float | None]], path: Path, **options: Any
) -> tuple[list[object], object, bytes]:
    at_s, arrivals = 0.0, []
    for i, (pause_s, template, run_s) in enumerate(story):
        at_s += pause_s
        arrivals.append(Arrival(at_s, make_pod(f"p{i}", **TEMPLATES[template]), run_s))
    seen = Everything(**options.pop("observer", {}))
    found = simulate(
        [
            HIGH,
            *(make_node(f"n{i}", cpu=cpu, labels={"disk": "ssd"} if ssd else {}) for i, (cpu, ssd) in enumerate(nodes)),
        ],
        arrivals,
        until=at_s + 400,
        record=path,
        observers=[seen],
        **options,
    )
    assert found.failure == ""
    return seen.seen, (found.to_dict(), found.pending, found.placements), path.read_bytes()


def both_ways(*of: Any, **options: Any) -> int:
    """The same with and without; returns how many attempts were made in the short way."""
    short, usual = 0, RepeatedRefusals.refuse_next

    def counted(self: RepeatedRefusals, *arguments: Any) -> int:
        nonlocal short
        count = usual(self, *arguments)
        short += count
        return count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RepeatedRefusals, "refuse_next", counted)
        quick = outcome(*of, **options)
        patch.setattr(RepeatedRefusals, "refuse_next", lambda self, *arguments: 0)
        slow = outcome(*of, **options)
    for one, other in zip(quick[0], slow[0], strict=True):
        assert one == other
    assert quick[1:] == slow[1:]
    return short


FULL = [(0.0, "small", 30.0)] * 4 + [(0.1, "small", 20.0)] * 30


def test_most_attempts_of_an_overloaded_cluster_are_made_in_the_short_way(tmp_path: Path) -> None:
    attempts = both_ways([("2", False), ("2", True)], FULL, tmp_path / "run.mrec")
    assert attempts > 50


@pytest.mark.parametrize("version", ["1.34", "1.36", "1.37"])
def test_each_kind_of_queue_leaves_the_same_behind(version: str, tmp_path: Path) -> None:
    assert both_ways([("2", False)], FULL[:20], tmp_path / "run.mrec", kubernetes_version=version)


def test_pods_that_may_not_evict_others_get_the_reason(tmp_path: Path) -> None:
    """They have the same shape and the same priority as pods that may."""
    both_ways(
        [("1", False)],
        [(0.0, "high", 30.0), *[(0.1, "high", 9.0), (0.1, "like high, never", 9.0)] * 6],
        tmp_path / "r.mrec",
    )


def test_an_observer_that_wants_details_gets_them(tmp_path: Path) -> None:
    both_ways([("2", False)], FULL[:20], tmp_path / "run.mrec", observer={"wants_detail": True})


class Refuses:
    """A user's filter, which counts how often it is asked."""

    name = "Refuses"
    asked = 0

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        from mooring.core.framework.status import SUCCESS

        Refuses.asked += 1
        return SUCCESS


def test_a_plugin_of_a_user_is_asked_at_each_attempt(tmp_path: Path) -> None:
    Refuses.asked = 0
    assert both_ways([("2", False)], FULL[:20], tmp_path / "run.mrec", plugins=(Refuses,)) == 0
    assert Refuses.asked


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    nodes=st.lists(st.tuples(st.sampled_from(["1", "2", "4"]), st.booleans()), min_size=1, max_size=3),
    story=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.0, 0.3, 1.0, 7.0]),
            st.sampled_from([*TEMPLATES, "small", "small"]),
            st.sampled_from([None, 2.0, 10.0, 10.0]),
        ),
        min_size=4,
        max_size=30,
    ),
    version=st.sampled_from(["1.36", "1.37"]),
)
def test_outcomes_queues_and_records_are_the_same(
    nodes: list[tuple[str, bool]], story: list[tuple[float, str, float | None]], version: str, tmp_path: Path
) -> None:
    both_ways(nodes, story, tmp_path / "run.mrec", kubernetes_version=version)
