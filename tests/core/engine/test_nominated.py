"""Nominations followed change by change are those that a look at all of them would find."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.clock import VirtualClock
from mooring.core.engine.nominated import NominatedPods
from mooring.core.queue.profile import QueueProfile
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state import sharing as change_log
from mooring.core.state.sharing import EVERYTHING
from mooring.testing import NOON, make_cluster, make_node, make_pod

NODES = 4


class History:
    """A queue, a cluster, and a follower of both."""

    def __init__(self) -> None:
        self.cluster = make_cluster(*(make_node(f"n{i}") for i in range(NODES)))
        self.queue = SchedulingQueue([QueueProfile("default-scheduler")], VirtualClock(NOON))
        self.nominated = NominatedPods(self.queue.nominator, self.cluster)
        self.in_flight: dict[str, Any] = {}
        self.serial = 0

    def pod(self, a: int, b: int) -> Any:
        self.serial += 1
        pod = make_pod(f"p{a % 5}", priority=b % 3)
        pod.metadata.uid = f"{a % 5}-{b % 2}"  # a name may come back as another pod
        pod.status.nominated_node_name = f"n{b % NODES}" if b % 3 else ""
        return pod

    def step(self, action: str, a: int, b: int) -> None:
        queue, pod = self.queue, self.pod(a, b)
        match action:
            case "add":
                queue.add(self.cluster.info(pod))
            case "update":
                queue.update(None, self.cluster.info(pod))
            case "delete":
                queue.delete(pod)
            case "pop":
                info = queue.pop()
                if info is not None:
                    self.in_flight[info.uid] = info
            case "fail" if self.in_flight:
                info = self.in_flight.pop(sorted(self.in_flight)[a % len(self.in_flight)])
                queue.add_unschedulable_if_not_present(info, unschedulable_plugins=["NodeResourcesFit"])
                queue.nominator.add(info.pod_info.pod, (None, "", f"n{b % NODES}")[b % 3])
            case "bind" if self.in_flight:
                info = self.in_flight.pop(sorted(self.in_flight)[a % len(self.in_flight)])
                queue.nominator.withdraw(info.uid)
                queue.done(info.uid)
            case "node":
                self.cluster.set_node(make_node(f"n{b % NODES}"))
            case "no node":
                self.cluster.remove_node(f"n{b % NODES}")

    def check(self) -> None:
        self.cluster.nodes()
        self.nominated.refresh()
        anew = NominatedPods(self.queue.nominator, self.cluster)
        anew.refresh()
        assert self.nominated.by_row == anew.by_row
        assert self.nominated._uids == anew._uids
        told = self.seen.get("by_row", {})
        noted = self.nominated.log.since(self.seen.get("position", -1))
        if noted is not EVERYTHING:
            changed = {r for r in {*told, *anew.by_row} if told.get(r) != anew.by_row.get(r)}
            assert changed <= set(noted)
        self.seen = {"position": self.nominated.log.end, "by_row": dict(anew.by_row)}

    seen: dict[str, Any] = {}


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["add", "add", "update", "delete", "pop", "pop", "fail", "fail", "bind", "node", "no node"]
            ),
            st.integers(0, 20),
            st.integers(0, 20),
            st.booleans(),
        ),
        max_size=50,
    ),
    st.sampled_from([3, 10_000]),
)
def test_following_the_log_finds_what_reading_everything_finds(steps: list[Any], size: int) -> None:
    with patch.object(change_log, "MAX_ENTRIES", size):  # a short log soon forgets
        history = History()
        for action, a, b, looks in steps:
            history.step(action, a, b)
            if looks:
                history.check()
        history.check()
