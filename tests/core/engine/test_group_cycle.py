"""The cycle of a pod group: all pods in one go, nothing left behind, and every text that people read."""

from __future__ import annotations

import pytest

from mooring.api.meta import Condition
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37, V1_38
from mooring.core.engine.decision import Outcome
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.session import open_session
from mooring.testing import bound, make_cluster, make_node, make_pod, make_pod_group

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
TOO_FEW = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
NEVER = "not eligible due to preemptionPolicy=Never."
HOPELESS = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


def decide(cluster, group, pods, version=V1_37, **gates):
    features = Features(version, GenericWorkload=True, **gates)
    session = open_session(config_from_dict(None, features), cluster, features=features)
    cluster.put(group)
    for pod in pods:
        cluster.note_member(pod)
    profile = session.profiles["default-scheduler"]
    return session.groups(profile).decide(PodGroupInfo(group, [cluster.info(pod) for pod in pods]))


def members(count, **fields):
    return [make_pod(f"p{i}", group="g", **{"cpu": "1", **fields}) for i in range(count)]


def said(decision):
    return [each.node or each.message for each in decision.decisions]


@pytest.mark.parametrize(
    ("cpu", "gang", "count", "status", "pods"),
    [
        pytest.param("4", 3, 3, "", ["a"] * 3, id="all fit"),
        pytest.param(
            "2",
            3,
            3,
            f"{TOO_FEW}, {NO_VICTIMS}",
            [f"pod group is unschedulable, {TOO_FEW}, {NO_VICTIMS}"] * 2 + [NO_CPU],
            id="two of three fit, and all are needed",
        ),
        pytest.param("2", 2, 3, "", ["a", "a", NO_CPU], id="two of three are enough"),
        pytest.param("2", None, 3, "", ["a", "a", NO_CPU], id="of a basic group as many as fit"),
        pytest.param(
            "0",
            2,
            2,
            f"minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, {NO_VICTIMS}",
            [NO_CPU, "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining"],
            id="the second is not tried when the first shows that it is hopeless",
        ),
        pytest.param(
            "4",
            3,
            2,
            f"pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {NO_VICTIMS}",
            ["pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"] * 2,
            id="fewer pods than needed are not tried at all",
        ),
        pytest.param(
            "0",
            None,
            1,
            f"minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {NO_VICTIMS}",
            [NO_CPU],
            id="a basic group of which nothing fits",
        ),
    ],
)
def test_what_becomes_of_a_group(cpu, gang, count, status, pods):
    cluster = make_cluster(make_node("a", cpu=cpu))
    decision = decide(cluster, make_pod_group("g", gang=gang), members(count))
    assert decision.message == status
    assert said(decision) == pods
    assert not cluster.pods(), "a decision changes nothing"


def test_a_pod_sees_those_before_it():
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        }
    }
    cluster = make_cluster(
        *(make_node(name, labels={"kubernetes.io/hostname": name}) for name in ("a", "b")),
    )
    decision = decide(cluster, make_pod_group("g", gang=2), members(2, labels={"app": "g"}, spec=apart))
    assert sorted(said(decision)) == ["a", "b"]


def test_pods_that_run_already_count():
    cluster = make_cluster(make_node("a", cpu="2"), bound(make_pod("old", group="g", cpu="1"), "a"))
    assert decide(cluster, make_pod_group("g", gang=2), members(1)).status.is_success


def test_a_rest_that_does_not_fit_is_no_success():
    cluster = make_cluster(make_node("a", cpu="1"), bound(make_pod("old", group="g", cpu="1"), "a"))
    decision = decide(cluster, make_pod_group("g", gang=1), members(1))
    assert decision.message == f"pod group is unschedulable, {NO_VICTIMS}"
    assert decision.condition == ("False", "Unschedulable", decision.message)


def test_a_pod_that_breaks_a_plugin_fails_the_group():
    cluster = make_cluster(make_node("a"))
    pods = [*members(1), make_pod("q", group="g", cpu="nonsense"), make_pod("r", group="g")]
    decision = decide(cluster, make_pod_group("g", gang=3), pods)
    assert decision.message.startswith("failed to schedule other pod from a pod group: ")
    assert decision.condition[1] == "SchedulerError"
    assert [each.outcome for each in decision.decisions] == [Outcome.ERROR] * 3
    assert said(decision)[0] == said(decision)[2] == decision.message != said(decision)[1]


# ---- room --------------------------------------------------------------------------------------------------------


def low(name, node="a", cpu="2", **fields):
    return bound(make_pod(name, cpu=cpu, priority=0, **fields), node)


def test_preemption_makes_exactly_enough_room_for_the_group():
    cluster = make_cluster(
        make_node("a", cpu="4"), make_node("b", cpu="4"), low("x"), low("y"), low("z", "b"), low("w", "b")
    )
    decision = decide(cluster, make_pod_group("g", gang=2, priority=10), members(2, cpu="2", priority=10))
    assert decision.message.endswith("pod group preemption: found a placement for podgroup, preempting 2 victims")
    assert len(decision.victims) == 2
    nodes = sorted(each.nominated_node for each in decision.decisions)
    assert nodes == sorted(pod.pod.spec.node_name for pod in decision.victims)
    assert len(cluster.pods()) == 4


def test_a_group_that_is_evicted_as_one_goes_as_a_whole():
    cluster = make_cluster(
        make_node("a", cpu="2"), make_node("b", cpu="2"), low("x", group="v"), low("y", "b", group="v")
    )
    cluster.put(make_pod_group("v", evicted_as_one=True))
    decision = decide(cluster, make_pod_group("g", gang=1, priority=10), members(1, cpu="2", priority=10))
    assert sorted(pod.pod.name for pod in decision.victims) == ["x", "y"]


def test_single_pods_go_before_pods_of_groups():
    cluster = make_cluster(make_node("a", cpu="4"), low("member", group="v"), low("alone"))
    cluster.put(make_pod_group("v"))
    decision = decide(cluster, make_pod_group("g", gang=1, priority=10), members(1, cpu="2", priority=10))
    assert [pod.pod.name for pod in decision.victims] == ["alone"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"spec": {"preemptionPolicy": "Never"}}, "not eligible due to preemptionPolicy=Never.", id="never"
        ),
        pytest.param(
            {"cpu": "9"}, "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining", id="room would not help"
        ),
    ],
)
def test_why_no_room_is_made(fields, want):
    cluster = make_cluster(make_node("a", cpu="2"), low("x"))
    pods = members(2, **{"cpu": "2", "priority": 10, **fields})
    decision = decide(cluster, make_pod_group("g", gang=2, priority=10), pods)
    claims = "deallocation and deletion of ResourceClaims completed"
    assert decision.message.endswith(f"{claims}, pod group preemption: {want}")
    assert not decision.victims


def test_while_victims_are_going_no_others_are_looked_for():
    going = low("x", metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"})
    going.status.conditions = [Condition("DisruptionTarget", "True", "PreemptionByScheduler")]
    cluster = make_cluster(make_node("a", cpu="2"), going)
    pods = members(1, cpu="2", priority=10, status={"nominatedNodeName": "a"})
    decision = decide(cluster, make_pod_group("g", gang=1, priority=10), pods)
    assert decision.message.endswith("pod group preemption: ongoing preemption on nominated nodes")
    assert decision.decisions[0].nominated_node == "a"


# ---- placements --------------------------------------------------------------------------------------------------


def racks(**sizes):
    return [
        make_node(f"{rack}{i}", cpu="2", labels={"rack": rack}) for rack, size in sizes.items() for i in range(size)
    ]


def test_a_group_goes_into_one_rack():
    decision = decide(
        make_cluster(*racks(x=1, y=2)),
        make_pod_group("g", gang=4, topology="rack"),
        members(4),
        TopologyAwareWorkloadScheduling=True,
    )
    assert sorted(said(decision)) == ["y0", "y0", "y1", "y1"]


@pytest.mark.parametrize(
    ("topology", "want"),
    [
        pytest.param(
            "rack",
            "pod group is unschedulable, 0/2 placements are available, first placement status: "
            f"minCount (5) cannot be satisfied: 2 scheduled, 2 remaining, {NO_VICTIMS}",
            id="no rack is large enough",
        ),
        pytest.param("row", f"no feasible placements found, {NO_VICTIMS}", id="no node has the label"),
    ],
)
def test_why_a_group_goes_into_no_rack(topology, want):
    cluster = make_cluster(*racks(x=1, y=2))
    group = make_pod_group("g", gang=5, topology=topology)
    decision = decide(cluster, group, members(5), TopologyAwareWorkloadScheduling=True)
    assert decision.message == want
    assert not cluster.pods()


def test_a_refusal_counts_the_nodes_of_the_placement():
    cluster = make_cluster(*racks(x=1, y=2))
    decision = decide(
        cluster, make_pod_group("g", gang=5, topology="rack"), members(5), TopologyAwareWorkloadScheduling=True
    )
    assert said(decision)[2] == NO_CPU


def test_the_gate_alone_places_groups_by_topology():
    decision = decide(make_cluster(*racks(x=1, y=1)), make_pod_group("g", gang=4, topology="rack"), members(4))
    assert decision.status.is_success


# ---- since 1.38, as podGroupFitError says it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "gang", "count", "status", "pods"),
    [
        pytest.param(
            "2",
            3,
            3,
            f"{TOO_FEW}, {NO_VICTIMS}",
            [f"{TOO_FEW}, {NO_VICTIMS}"] * 2 + [NO_CPU],
            id="two of three fit, and all are needed",
        ),
        pytest.param(
            "4",
            3,
            2,
            f"minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {NO_VICTIMS}",
            ["minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"] * 2,
            id="fewer pods than needed are not tried at all",
        ),
    ],
)
def test_since_1_38_a_rejected_group_has_the_plugins_reason_alone(cpu, gang, count, status, pods):
    decision = decide(make_cluster(make_node("a", cpu=cpu)), make_pod_group("g", gang=gang), members(count), V1_38)
    assert (decision.message, said(decision)) == (status, pods)


@pytest.mark.parametrize(
    ("version", "plugins"),
    [pytest.param(V1_37, set(), id="1.37"), pytest.param(V1_38, {"GangScheduling"}, id="1.38")],
)
def test_who_rejected_a_pod_that_would_fit(version, plugins):
    decision = decide(make_cluster(make_node("a", cpu="2")), make_pod_group("g", gang=3), members(3), version)
    assert set(decision.decisions[0].unschedulable_plugins) == plugins


def test_since_1_38_placements_say_the_reason_of_the_first():
    node = make_node("a", cpu="1", labels={"rack": "r"})
    decision = decide(
        make_cluster(node),
        make_pod_group("g", gang=2, topology="rack"),
        members(2),
        V1_38,
        TopologyAwareWorkloadScheduling=True,
    )
    reason = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert decision.message.startswith(f"0/1 placements are available, first placement status: {reason}")


@pytest.mark.parametrize(
    ("version", "points"),
    [
        pytest.param(V1_37, {"preEnqueue", "permit"}, id="1.37"),
        pytest.param(V1_38, {"preEnqueue", "placementFeasible"}, id="1.38"),
    ],
)
def test_where_gang_scheduling_runs(version, points):
    features = Features(version, GenericWorkload=True)
    profile = open_session(config_from_dict(None, features), make_cluster(), features=features).profiles[
        "default-scheduler"
    ]
    assert {point for point, found in profile.points.items() if ("GangScheduling", 0) in found} == points
