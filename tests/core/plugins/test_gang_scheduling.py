"""GangScheduling: which pods are held back, when an attempt stops, and which pods wait for which."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mooring.core.framework.cluster_event import EventResource, Hint
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, CycleState
from mooring.core.framework.pod_groups import PodGroupInfo, Progress
from mooring.core.framework.status import Code
from mooring.core.plugins.gang_scheduling import PERMIT_TIMEOUT_S, GangScheduling
from mooring.testing import bound, make_cluster, make_handle, make_node, make_pod, make_pod_group

WAITING_FOR_GROUP = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
WAITING_FOR_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"


def plugin(*objects) -> GangScheduling:
    cluster = make_cluster(make_node("a"))
    for obj in objects:
        cluster.put(obj)
    return GangScheduling(None, make_handle(cluster))


def member(name: str, group: str = "g"):
    return make_pod(name, group=group)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], WAITING_FOR_GROUP, id="the group is not there"),
        pytest.param([make_pod_group("g")], "", id="a basic group does not wait"),
        pytest.param([make_pod_group("g", gang=2), member("p")], WAITING_FOR_PODS, id="one of two is there"),
        pytest.param([make_pod_group("g", gang=2), member("p"), member("q")], "", id="both are there"),
        pytest.param(
            [make_pod_group("g", gang=2), member("p"), bound(member("q"), "a")], "", id="one that runs counts, too"
        ),
        pytest.param(
            [make_pod_group("g", gang=2), member("p"), member("q", "h")], WAITING_FOR_PODS, id="others do not count"
        ),
    ],
)
def test_what_holds_a_pod_back(objects, want):
    status = plugin(*objects).pre_enqueue(member("p"))
    assert status.message == want
    assert status.code is (Code.UNSCHEDULABLE_AND_UNRESOLVABLE if want else Code.SUCCESS)


def test_a_pod_without_a_group_is_none_of_its_business():
    gang = plugin()
    assert gang.pre_enqueue(make_pod("alone")).is_success
    info = gang._handle.cluster.info(make_pod("alone"))
    assert gang.permit(CycleState(), info, "a") == (gang.pre_enqueue(make_pod("alone")), 0.0)


NEVER = "minCount ({}) cannot be satisfied: {} scheduled, {} remaining"
NOT_YET = "minCount ({}) is not yet satisfied: {} scheduled, {} remaining"


@pytest.mark.parametrize(
    ("minimum", "progress", "code", "text"),
    [
        pytest.param(3, (0, 2), Code.UNSCHEDULABLE, NEVER.format(3, 0, 2), id="too few"),
        pytest.param(3, (1, 2), Code.WAIT, NOT_YET.format(3, 1, 2), id="not yet"),
        pytest.param(3, (3, 0), Code.SUCCESS, "", id="just enough"),
        pytest.param(3, (3, 2), Code.SUCCESS, "", id="enough, and more to come"),
        pytest.param(None, (0, 1), Code.WAIT, NOT_YET.format(1, 0, 1), id="a basic group waits for one"),
        pytest.param(None, (0, 0), Code.UNSCHEDULABLE, NEVER.format(1, 0, 0), id="not even one fits"),
    ],
)
def test_whether_there_will_be_enough(minimum, progress, code, text):
    info = PodGroupInfo(make_pod_group("g", gang=minimum), ())
    status = plugin().placement_feasible(info, Progress(*progress))
    assert (status.code, status.message) == (code, text)


@dataclass
class Waiting:
    heard: list[str] = field(default_factory=list)

    def allow(self, plugin: str) -> None:
        self.heard.append(plugin)


class WaitingList:
    def __init__(self) -> None:
        self.pods = {"uid-default-q": Waiting()}

    def of_group(self, key):
        return tuple(self.pods.values()) if key == "default/g" else ()


def test_the_first_waits_and_calls_the_others_and_the_last_lets_all_go():
    gang = plugin(make_pod_group("g", gang=2), member("p"), member("q"), member("r"))
    gang._handle.waiting_pods = waiting = WaitingList()
    cluster, state = gang._handle.cluster, CycleState()
    state.write(PODS_TO_ACTIVATE, {})
    first = cluster.assume(cluster.info(member("q")), "a")
    status, seconds = gang.permit(state, first, "a")
    assert (status.code, status.message) == (Code.WAIT, "waiting for minCount pods from a gang to be scheduled")
    assert seconds == PERMIT_TIMEOUT_S
    assert sorted(state.read(PODS_TO_ACTIVATE)) == ["default/p", "default/r"]
    last = cluster.assume(cluster.info(member("p")), "a")
    assert gang.permit(state, last, "a")[0].is_success
    assert waiting.pods["uid-default-q"].heard == ["GangScheduling"]


def test_a_group_that_is_gone_fails_the_binding():
    gang = plugin(member("p"))
    status, _ = gang.permit(CycleState(), gang._handle.cluster.info(member("p")), "a")
    assert (status.code, status.message) == (Code.ERROR, "failed to get podGroup default/g: podgroup not found")


def smaller(before, after):
    return (EventResource.POD_GROUP, make_pod_group("g", gang=before), make_pod_group("g", gang=after))


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param((EventResource.UNSCHEDULABLE_POD, None, member("q")), Hint.QUEUE, id="another member comes"),
        pytest.param((EventResource.ASSIGNED_POD, None, bound(member("q"), "a")), Hint.QUEUE, id="one with a node"),
        pytest.param((EventResource.UNSCHEDULABLE_POD, None, member("q", "h")), Hint.SKIP, id="one of another group"),
        pytest.param((EventResource.UNSCHEDULABLE_POD, None, make_pod("q")), Hint.SKIP, id="one of no group"),
        pytest.param((EventResource.POD_GROUP, None, make_pod_group("g")), Hint.QUEUE, id="the group itself comes"),
        pytest.param((EventResource.POD_GROUP, None, make_pod_group("h")), Hint.SKIP, id="another group comes"),
        pytest.param(smaller(3, 2), Hint.QUEUE, id="fewer are needed"),
        pytest.param(smaller(2, 3), Hint.SKIP, id="more are needed"),
        pytest.param(smaller(None, None), Hint.SKIP, id="a basic group changes"),
    ],
)
def test_what_changes_its_mind(event, want):
    resource, old, new = event
    is_update = old is not None
    found = [
        each.hint(member("p"), old, new)
        for each in plugin().events_to_register()
        if each.event.resource is resource and ("Update" in each.event.label) == is_update
    ]
    assert found == [want]
