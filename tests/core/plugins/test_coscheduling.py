"""Coscheduling: all or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mooring.api.core import Pod, PodSchedulingGroup, PodSpec
from mooring.api.errors import ConfigError
from mooring.api.meta import ObjectMeta
from mooring.api.pod_groups import CoschedulingPodGroup as PodGroup
from mooring.api.pod_groups import CoschedulingSpec
from mooring.core.framework.cluster_event import Hint
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.status import Code
from mooring.core.plugins.coscheduling import LABEL, Coscheduling
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo


def member(name: str, *, group: str = "gang", by_field: bool = False) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels={} if by_field else {LABEL: group})
    spec = PodSpec(scheduling_group=PodSchedulingGroup(group) if by_field else None)
    return Pod(metadata=meta, spec=spec)


def group(minimum: int, *, timeout: int | None = None) -> PodGroup:
    spec = CoschedulingSpec(min_member=minimum, schedule_timeout_seconds=timeout)
    return PodGroup(metadata=ObjectMeta(name="gang", namespace="default"), spec=spec)


@dataclass
class Waiting:
    pod: PodInfo
    node_name: str = "node"
    pending_plugins: tuple[str, ...] = ("Coscheduling",)
    heard: list[str] = field(default_factory=list)

    def allow(self, plugin: str) -> None:
        self.heard.append("allowed")

    def reject(self, plugin: str, message: str) -> bool:
        self.heard.append(message)
        return True


@dataclass
class WaitingList:
    pods: list[Waiting] = field(default_factory=list)

    def get(self, uid: str) -> Waiting | None:
        return next((waiting for waiting in self.pods if waiting.pod.uid == uid), None)

    def all(self) -> list[Waiting]:
        return self.pods


class Gang:
    """A plugin in a cluster with some members, and a list of those that wait."""

    def __init__(self, pods: list[Pod], pod_group: PodGroup | None, args: object = None) -> None:
        self.cluster = ClusterState()
        if pod_group is not None:
            self.cluster.put(pod_group)
        self.waiting = WaitingList()
        handle = Handle(self.cluster, waiting_pods=self.waiting, pods={pod.key: pod for pod in pods})
        self.plugin = Coscheduling(args, handle)

    def place(self, pod: Pod) -> tuple[Code, float]:
        info = self.cluster.info(pod)
        self.cluster.assume(info, "node")
        status, timeout = self.plugin.permit(CycleState(), info, "node")
        if status.code is Code.WAIT:
            self.waiting.pods.append(Waiting(info))
        return status.code, timeout


@pytest.mark.parametrize("by_field", [False, True], ids=["by label", "by the field"])
def test_the_last_member_needed_lets_all_go(by_field: bool) -> None:
    pods = [member(f"p{i}", by_field=by_field) for i in range(3)]
    gang = Gang(pods, group(3))
    assert [gang.place(pod)[0] for pod in pods] == [Code.WAIT, Code.WAIT, Code.SUCCESS]
    assert [waiting.heard for waiting in gang.waiting.pods] == [["allowed"], ["allowed"]]


def test_one_that_gives_up_takes_the_others_along() -> None:
    pods = [member(f"p{i}") for i in range(3)]
    gang = Gang(pods, group(3))
    for pod in pods[:2]:
        gang.place(pod)
    first, second = gang.waiting.pods
    gang.plugin.unreserve(CycleState(), first.pod, "node")
    assert second.heard == ['pod group "gang": default/p0 could not be placed']
    assert first.heard == []


@pytest.mark.parametrize(
    ("pod_group", "args", "want"),
    [
        pytest.param(group(2), None, 60.0, id="a minute by default"),
        pytest.param(group(2), {"permitWaitingTimeSeconds": 5}, 5.0, id="as the profile says"),
        pytest.param(group(2, timeout=7), {"permitWaitingTimeSeconds": 5}, 7.0, id="as the group says before all"),
    ],
)
def test_how_long_a_pod_waits(pod_group: PodGroup, args: object, want: float) -> None:
    pods = [member("p0"), member("p1")]
    assert Gang(pods, pod_group, args).place(pods[0]) == (Code.WAIT, want)


@pytest.mark.parametrize(
    ("members", "pod_group", "want"),
    [
        pytest.param(1, None, 'waiting for pod group "gang" to appear', id="no group yet"),
        pytest.param(2, group(3), 'pod group "gang" has 2 of the 3 pods it needs', id="too few members"),
        pytest.param(3, group(3), "", id="enough members"),
    ],
)
def test_what_holds_a_member_back(members: int, pod_group: PodGroup | None, want: str) -> None:
    pods = [member(f"p{i}") for i in range(members)]
    assert Gang(pods, pod_group).plugin.pre_enqueue(pods[0]).message == want


def test_a_pod_without_a_group_is_none_of_its_business() -> None:
    loner = Pod(metadata=ObjectMeta(name="loner", namespace="default", uid="loner"))
    gang = Gang([loner], None)
    assert gang.plugin.pre_enqueue(loner).is_success
    assert gang.place(loner) == (Code.SUCCESS, 0.0)


def test_a_waiting_member_calls_the_others() -> None:
    pods = [member("p0"), member("p1"), member("other", group="else")]
    gang = Gang(pods, group(2))
    state = CycleState()
    state.write(PODS_TO_ACTIVATE, {})
    info = gang.cluster.info(pods[0])
    gang.cluster.assume(info, "node")
    gang.plugin.permit(state, info, "node")
    assert list(state.read(PODS_TO_ACTIVATE)) == ["default/p1"]


@pytest.mark.parametrize(
    ("registration", "new", "want"),
    [
        pytest.param(0, member("p9"), Hint.QUEUE, id="another member comes"),
        pytest.param(0, member("p9", group="else"), Hint.SKIP, id="a member of another group comes"),
        pytest.param(1, group(2), Hint.QUEUE, id="its group comes or changes"),
        pytest.param(1, PodGroup(metadata=ObjectMeta(name="else", namespace="default")), Hint.SKIP, id="another group"),
    ],
)
def test_what_wakes_a_member(registration: int, new: object, want: Hint) -> None:
    pod = member("p0")
    hint = Gang([pod], group(2)).plugin.events_to_register()[registration].hint
    assert hint is not None
    assert hint(pod, None, new) is want  # type: ignore[arg-type]


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(ConfigError, match="permitWaitSeconds"):
        Gang([], None, {"permitWaitSeconds": 3})
