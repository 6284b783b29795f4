"""What the descheduler would evict: cases as its own tests have them, and where the pods go then."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.ask.deschedule import Descheduling, deschedule
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_object, make_pod

NOW = "2026-06-01T12:00:00Z"
ZONE = "topology.kubernetes.io/zone"


def policy(plugin: str, args: dict[str, Any] | None = None, evictor: dict[str, Any] | None = None, **more: Any) -> Any:
    balances = (
        "RemoveDuplicates",
        "LowNodeUtilization",
        "HighNodeUtilization",
        "RemovePodsViolatingTopologySpreadConstraint",
    )
    point = "balance" if plugin in balances else "deschedule"
    configs = [{"name": plugin, "args": args or {}}, {"name": "DefaultEvictor", "args": evictor or {}}]
    profile = {"name": "p", "pluginConfig": configs, "plugins": {point: {"enabled": [plugin]}}}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}


def owned(kind: str = "ReplicaSet", name: str = "rs") -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]}


def pod(name: str, node: str, *, cpu: str = "400m", kind: str = "ReplicaSet", owner: str = "rs", **more: Any) -> Pod:
    return make_pod(name, node=node, cpu=cpu, metadata={**owned(kind, owner), **more.pop("meta", {})}, **more)


def evicted(found: Descheduling) -> Counter[str]:
    return Counter(move.source for move in found.moves)


# ---- node utilization ----------------------------------------------------------------------------------------------

LOW = {"thresholds": {"cpu": 30, "pods": 30}, "targetThresholds": {"cpu": 50, "pods": 50}}


def three_nodes(*more: Pod) -> Cluster:
    """n1 is above the target, n2 below the threshold, n3 takes no pods. Three pods of n1 must not be evicted."""
    return Cluster(
        make_node("n1", cpu="4", memory=3000, pods=9),
        make_node("n2", cpu="4", memory=3000, pods=10),
        make_node("n3", cpu="4", memory=3000, pods=10, unschedulable=True),
        *(pod(f"p{i}", "n1") for i in range(1, 6)),
        pod("p6", "n1", kind="DaemonSet"),
        pod("p7", "n1", spec={"volumes": [{"name": "d", "emptyDir": {}}]}),
        pod("p8", "n1", priority=2_000_000_000),
        pod("p9", "n2"),
        *more,
    )


@pytest.mark.parametrize(
    ("args", "evictor", "limits", "want"),
    [
        pytest.param(LOW, {}, {}, {"n1": 4}, id="until the node is at its target"),
        pytest.param({**LOW, "evictableNamespaces": {"exclude": ["default"]}}, {}, {}, {}, id="an excluded namespace"),
        pytest.param({**LOW, "evictionLimits": {"node": 2}}, {}, {}, {"n1": 2}, id="a limit of the plugin per node"),
        pytest.param(LOW, {}, {"maxNoOfPodsToEvictPerNode": 1}, {"n1": 1}, id="a limit per node"),
        pytest.param(LOW, {}, {"maxNoOfPodsToEvictTotal": 3}, {"n1": 3}, id="a limit in all"),
        pytest.param(LOW, {}, {"maxNoOfPodsToEvictPerNamespace": 2}, {"n1": 2}, id="a limit per namespace"),
        pytest.param({**LOW, "numberOfNodes": 1}, {}, {}, {}, id="too few nodes are underutilized"),
        pytest.param(LOW, {"minReplicas": 20}, {}, {}, id="owners with too few replicas"),
        pytest.param(LOW, {"labelSelector": {"matchLabels": {"a": "b"}}}, {}, {}, id="no pod has the label"),
        pytest.param(
            LOW, {"priorityThreshold": {"value": 0}}, {}, {"n1": 4}, id="pods without a priority are below any"
        ),
        pytest.param(
            {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 10}, "useDeviationThresholds": True},
            {},
            {},
            {"n1": 3},  # the average is 30 %: n2 has room for 1,200m until it is at 40 %
            id="thresholds relative to the average",
        ),
    ],
)
def test_low_node_utilization(args: Any, evictor: Any, limits: Any, want: dict[str, int]) -> None:
    assert evicted(deschedule(three_nodes(), policy("LowNodeUtilization", args, evictor, **limits))) == want


def test_the_least_important_pods_leave_first() -> None:
    cluster = Cluster(
        make_node("n1", cpu="2"),
        make_node("n2", cpu="2"),
        pod("high", "n1", cpu="900m", priority=10),
        pod("guaranteed", "n1", priority=5, spec={"containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": "400m", "memory": "1Mi"}, "limits": {"cpu": "400m", "memory": "1Mi"}}}]}),
        pod("burstable", "n1", priority=5),
    )  # fmt: skip
    found = deschedule(
        cluster, policy("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 70}})
    )
    assert [move.pod for move in found.moves] == ["default/burstable"]


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({"thresholds": {"cpu": 30, "pods": 30}}, {"n2": 1, "n3": 1}, id="all nodes below the threshold"),
        pytest.param({"thresholds": {"cpu": 5}}, {}, id="no node is below"),
        pytest.param({"thresholds": {"cpu": 100}}, {}, id="all nodes are below: nowhere to go"),
    ],
)
def test_high_node_utilization(args: Any, want: dict[str, int]) -> None:
    cluster = Cluster(
        *(make_node(f"n{i}", cpu="4", pods=10) for i in (1, 2, 3)),
        *(pod(f"p{i}", "n1") for i in range(6)),
        pod("a", "n2"),
        pod("b", "n3"),
    )
    assert evicted(deschedule(cluster, policy("HighNodeUtilization", args))) == want


# ---- violations ----------------------------------------------------------------------------------------------------


def test_duplicates_above_an_even_share_leave() -> None:
    cluster = Cluster(make_node("n1"), make_node("n2"), *(pod(f"p{i}", "n1") for i in range(3)))
    assert evicted(deschedule(cluster, policy("RemoveDuplicates"))) == {"n1": 1}
    assert not deschedule(cluster, policy("RemoveDuplicates", {"excludeOwnerKinds": ["ReplicaSet"]})).moves
    assert not deschedule(
        Cluster(make_node("n1"), *(pod(f"p{i}", "n1") for i in range(3))), policy("RemoveDuplicates")
    ).moves


@pytest.mark.parametrize(
    ("args", "leaves"),
    [
        pytest.param({}, True, id="a taint that is not tolerated"),
        pytest.param({"excludedTaints": ["dedicated"]}, False, id="an excluded taint"),
        pytest.param({"excludedTaints": ["dedicated=db"]}, False, id="an excluded taint with its value"),
        pytest.param({"includedTaints": ["other"]}, False, id="only other taints are included"),
        pytest.param({"namespaces": {"include": ["shop"]}}, False, id="another namespace"),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b"}}}, False, id="another label"),
    ],
)
def test_taints(args: Any, leaves: bool) -> None:
    nodes = make_node("n1", taints=["dedicated=db:NoSchedule"]), make_node("n2")
    tolerant = pod("t", "n1", spec={"tolerations": [{"operator": "Exists"}]})
    found = deschedule(Cluster(*nodes, tolerant, pod("p", "n1")), policy("RemovePodsViolatingNodeTaints", args))
    assert [move.pod for move in found.moves] == (["default/p"] if leaves else [])


def affinity(kind: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    if kind == "required":
        return {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            }
        }
    preferred = [{"weight": 1, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_node_affinity(kind: str) -> None:
    nodes = make_node("hdd", labels={"disk": "hdd"}), make_node("ssd", labels={"disk": "ssd"})
    cluster = Cluster(*nodes, pod("wrong", "hdd", spec=affinity(kind)), pod("right", "ssd", spec=affinity(kind)))
    rules = policy(
        "RemovePodsViolatingNodeAffinity", {"nodeAffinityType": [f"{kind}DuringSchedulingIgnoredDuringExecution"]}
    )
    assert [(move.pod, move.target) for move in deschedule(cluster, rules).moves] == [("default/wrong", "ssd")]


def test_anti_affinity_leaves_one_of_two_pods() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    pods = [pod(f"p{i}", "n1", labels={"app": "web"}, spec=spec, priority=i) for i in range(2)]
    found = deschedule(
        Cluster(make_node("n1"), make_node("n2"), *pods), policy("RemovePodsViolatingInterPodAntiAffinity")
    )
    assert [(move.pod, move.target) for move in found.moves] == [("default/p0", "n2")]


def test_old_pods_leave_the_oldest_first() -> None:
    times = {"old": "2026-06-01T10:00:00Z", "older": "2026-06-01T09:00:00Z", "new": "2026-06-01T11:59:00Z"}
    pods = [pod(name, "n1", meta={"creationTimestamp": time}) for name, time in times.items()]
    found = deschedule(Cluster(make_node("n1"), *pods), policy("PodLifeTime", {"maxPodLifeTimeSeconds": 3600}), now=NOW)
    assert [move.pod for move in found.moves] == ["default/older", "default/old"]


def spread_cluster(*sizes: int, nodes_per_zone: int = 1, cpu: str = "100") -> Cluster:
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spec = {"topologySpreadConstraints": [constraint]}
    zones = "abcdef"
    cluster = Cluster(*(make_node(f"n{zones[i]}", zone=zones[i], cpu=cpu) for i in range(len(sizes))))
    for i, size in enumerate(sizes):
        cluster.add(
            *(pod(f"p{i}-{j}", f"n{zones[i]}", cpu="100m", labels={"app": "web"}, spec=spec) for j in range(size))
        )
    return cluster


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        pytest.param((3, 1), 1, id="one pod makes it even"),
        pytest.param((2, 1), 0, id="within the skew"),
        pytest.param((4, 0), 2, id="two pods"),
        pytest.param((0, 1, 100), 66, id="one domain has nearly all"),
        pytest.param((10, 10, 10), 0, id="even"),
    ],
)
def test_topology_spread(sizes: tuple[int, ...], want: int) -> None:
    found = deschedule(spread_cluster(*sizes), policy("RemovePodsViolatingTopologySpreadConstraint"))
    assert (len(found.moves), found.unplaced) == (want, [])


# ---- what comes after ----------------------------------------------------------------------------------------------


def test_a_budget_keeps_pods() -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
    budget = make_object("PodDisruptionBudget", "web", "default", spec=spec, status={"disruptionsAllowed": 1})
    cluster = spread_cluster(6, 0)
    cluster.add(budget)
    found = deschedule(cluster, policy("RemovePodsViolatingTopologySpreadConstraint"))
    assert (len(found.moves), set(found.kept.values())) == (1, {"default/web"})


def test_descheduler_and_scheduler_fight() -> None:
    """HighNodeUtilization empties the emptier node; the scheduler, which spreads, sends the pods back."""
    cluster = Cluster(
        make_node("n1", cpu="4"), make_node("n2", cpu="4"), pod("a", "n1", cpu="1500m"), pod("b", "n2", cpu="1")
    )
    found = deschedule(cluster, policy("HighNodeUtilization", {"thresholds": {"cpu": 30}}), cycles=5)
    assert (found.fights, found.is_settled, found.cycles) == ({"default/b": 5}, False, 5)
    assert "evicted again and again" in str(found).splitlines()[0]


def test_cycles_end_when_nothing_is_left_to_do() -> None:
    found = deschedule(spread_cluster(3, 1), policy("RemovePodsViolatingTopologySpreadConstraint"), cycles=5)
    assert (found.cycles, found.is_settled, found.fights) == (2, True, {})


def test_a_pod_that_finds_no_node_is_named() -> None:
    nodes = make_node("n1", taints=["x=y:NoSchedule"]), make_node("n2", cpu="100m")
    found = deschedule(Cluster(*nodes, pod("p", "n1")), policy("RemovePodsViolatingNodeTaints"))
    assert [(move.pod, move.target) for move in found.moves] == [("default/p", None)]
    assert "Insufficient cpu" in found.moves[0].message
    kept = deschedule(Cluster(*nodes, pod("p", "n1")), policy("RemovePodsViolatingNodeTaints", {}, {"nodeFit": True}))
    assert not kept.moves


def test_plugins_that_are_left_out_are_named() -> None:
    found = deschedule(Cluster(make_node("n1")), policy("RemoveFailedPods"))
    assert "RemoveFailedPods is left out" in found.notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"apiVersion": "descheduler/v1alpha1"}, "expected apiVersion descheduler/v1alpha2", id="an old policy"
        ),
        pytest.param({"profile": []}, "unknown field `profile`", id="a field that does not exist"),
        pytest.param(
            policy("LowNodeUtilisation"), "did you mean LowNodeUtilization", id="a plugin that does not exist"
        ),
        pytest.param(
            policy("PodLifeTime", {"maxPodLifeTime": 3}), "unknown field", id="an argument that does not exist"
        ),
    ],
)
def test_wrong_policies(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        deschedule(Cluster(make_node("a")), {**policy("RemoveDuplicates"), **change})


BOGUS = {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}


@pytest.mark.parametrize(
    ("plugin", "spec"),
    [
        pytest.param(
            plugin,
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": BOGUS}]}}},
            id=plugin,
        )
        for plugin in ("RemovePodsViolatingInterPodAntiAffinity", "RemoveDuplicates")
    ]
    + [
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {"topologySpreadConstraints": [
                {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": BOGUS}]},
            id="RemovePodsViolatingTopologySpreadConstraint",
        )
    ],
)  # fmt: skip
def test_a_selector_that_cannot_be_read_concerns_its_pod_alone(plugin: str, spec: dict[str, Any]) -> None:
    cluster = Cluster(make_node("n1", zone="a"), make_node("n2", zone="b"), pod("bad", "n1", spec=spec))
    assert not deschedule(cluster, policy(plugin, {}, {"nodeFit": True})).moves
