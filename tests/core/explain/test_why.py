"""Explanations: shares, grouped reasons, and suggestions that hold when they are followed."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod, recreated_pod
from mooring.api.defaults import set_defaults
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.config.load import config_from_dict
from mooring.core.engine.decision import Outcome
from mooring.core.explain.why import Explanation, explain_pod
from mooring.core.framework.registry import resolve
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, *, labels: dict[str, str] | None = None, cpu: str = "4", pods: int = 110, **spec: Any) -> Node:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": pods}
    return from_plain(
        Node,
        {
            "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": allocatable},
        },
    )


def pod(name: str = "web", *, on: str = "", cpu: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    container = {"name": "main", "resources": resources, **spec.pop("container", {})}
    return from_plain(
        Pod,
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"nodeName": on, "containers": [container], **spec},
        },
    )


def cluster_of(*objects: Object, config: dict[str, Any] | None = None) -> Session:
    cluster = ClusterState()
    set_defaults(objects)
    session = open_session(config_from_dict(config), cluster)
    for obj in objects:
        cluster.put(obj)
    return session


def explained(session: Session, asked: Pod) -> Explanation:
    set_defaults([asked], list(session.handle.cluster.objects))
    return explain_pod(session, asked)


def texts(found: Explanation) -> list[str]:
    return [suggestion.text for suggestion in found.suggestions]


# ---- placements --------------------------------------------------------------------------------------------------


def test_a_placement_shows_every_share_and_the_winner_first() -> None:
    found = explained(cluster_of(node("a"), node("b"), pod("x", on="a", cpu="2")), pod(cpu="1"))
    assert found.outcome is Outcome.SCHEDULED
    assert found.node == "b"
    assert [share.node for share in found.scores] == ["b", "a"]
    for share in found.scores:
        assert sum(share.shares.values()) == share.total
    assert found.ties == 1
    assert found.suggestions == []


def test_a_placement_also_lists_refused_nodes() -> None:
    found = explained(cluster_of(node("a"), node("b", unschedulable=True), node("c", unschedulable=True)), pod())
    assert [(r.plugin, r.nodes) for r in found.refusals] == [("NodeUnschedulable", ("b", "c"))]
    assert found.scores == []  # one feasible node: nothing was scored


def test_ties_are_counted() -> None:
    assert explained(cluster_of(node("a"), node("b"), node("c", cpu="16")), pod(cpu="1")).ties == 1
    assert explained(cluster_of(node("a"), node("b")), pod(cpu="1")).ties == 2


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_reasons_are_grouped_with_their_nodes() -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    session = cluster_of(node("a"), node("b"), node("g", taints=[taint]), node("c", unschedulable=True))
    found = explained(session, pod(cpu="5"))
    assert {(r.plugin, r.reasons, r.nodes) for r in found.refusals} == {
        ("NodeResourcesFit", ("Insufficient cpu",), ("a", "b")),
        ("TaintToleration", ("node(s) had untolerated taint(s)",), ("g",)),
        ("NodeUnschedulable", ("node(s) were unschedulable",), ("c",)),
    }
    assert found.message.startswith("0/4 nodes are available: ")
    assert found.to_dict()["statuses"]["g"] == {
        "plugin": "TaintToleration",
        "code": "UNSCHEDULABLE_AND_UNRESOLVABLE",
        "reasons": ["node(s) had untolerated taint(s)"],
    }


GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
ANTI = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}]}}
NEAR = {"podAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}]}}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]


@pytest.mark.parametrize(
    ("objects", "asked", "want"),
    [
        pytest.param(
            lambda: [node("a"), node("b"), pod("x", on="a", cpu="3500m"), pod("y", on="b", cpu="3")],
            lambda: pod(cpu="1200m"),
            "200m less CPU (1 instead of 1200m) on b",
            id="less CPU on the node that is closest",
        ),
        pytest.param(
            lambda: [node("a"), node("b"), node("c", cpu="2")],
            lambda: pod(cpu="4200m"),
            "200m less CPU (4 instead of 4200m) on any of 2 nodes",
            id="less CPU on any of the nodes that are equally close",
        ),
        pytest.param(
            lambda: [node("a", cpu="8")],
            lambda: pod(container={"resources": {"requests": {"memory": "8704Mi"}}}),
            "512Mi less memory (8Gi instead of 8.5Gi) on a",
            id="less memory",
        ),
        pytest.param(
            lambda: [node("a")],
            lambda: pod(container={"resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}),
            "no example.com/gpu request (1 now) on a",
            id="a resource that no node has",
        ),
        pytest.param(
            lambda: [node("a", taints=[GPU]), node("b", taints=[GPU]), node("c", cpu="1")],
            lambda: pod(cpu="2"),
            "tolerate dedicated=gpu:NoSchedule: 2 more nodes",
            id="tolerate a taint",
        ),
        pytest.param(
            lambda: [node("a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])],
            lambda: pod(cpu="2"),
            "a no longer not-ready",
            id="a node that is not ready should recover, not be tolerated",
        ),
        pytest.param(
            lambda: [node("a"), node("b")],
            lambda: pod(nodeSelector={"disktype": "ssd"}),
            "label disktype=ssd on a (or b)",
            id="label a node",
        ),
        pytest.param(
            lambda: [node("a"), node("b")],
            lambda: pod(nodeSelector={"disktype": "ssd"}),
            "without nodeSelector disktype=ssd: 2 more nodes",
            id="drop the node selector",
        ),
        pytest.param(
            lambda: [node("a")],
            lambda: pod(
                affinity={
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64", "riscv"]}]}
                            ]
                        }
                    }
                }
            ),
            "without the required node affinity (arch In (arm64, riscv)): 1 more node",
            id="drop the node affinity",
        ),
        pytest.param(
            lambda: [node("a", unschedulable=True), node("b", unschedulable=True)],
            lambda: pod(cpu="1"),
            "uncordon a (or b)",
            id="uncordon a node",
        ),
        pytest.param(
            lambda: [node("a"), pod("x", on="a", container={"ports": [{"containerPort": 80, "hostPort": 8080}]})],
            lambda: pod(container={"ports": [{"containerPort": 80, "hostPort": 8080}]}),
            "remove host port 8080: 1 more node",
            id="remove a host port",
        ),
        pytest.param(
            lambda: [node("a", pods=2), pod("x", on="a"), pod("y", on="a")],
            lambda: pod(),
            "one pod fewer on a (pods: 2 of 2)",
            id="one pod fewer",
        ),
        pytest.param(
            lambda: [
                node("a", labels={ZONE: "north"}),
                node("b", labels={ZONE: "south"}, unschedulable=True),
                *(pod(f"web-{i}", on="a", labels={"app": "web"}) for i in range(3)),
            ],
            lambda: pod(labels={"app": "web"}, topologySpreadConstraints=SPREAD),
            f"spread over {ZONE}: allow maxSkew 4 (now 1): 1 more node",
            id="allow more skew, exactly as much as is needed",
        ),
        pytest.param(
            lambda: [node("a"), pod("db", on="a", labels={"app": "db"})],
            lambda: pod(affinity=ANTI),
            f"without the required anti-affinity term on {HOST} (app=db): 1 more node",
            id="drop an anti-affinity term",
        ),
        pytest.param(
            lambda: [node("a")],
            lambda: pod(affinity=NEAR),
            f"without the required affinity term on {HOST} (app=db): 1 more node",
            id="drop an affinity term",
        ),
        pytest.param(
            lambda: [node("a"), pod("lonely", on="a", affinity=ANTI)],
            lambda: pod(labels={"app": "db"}),
            "without default/lonely, whose anti-affinity keeps this pod away from a",
            id="name the pod that objects",
        ),
        pytest.param(
            lambda: [node("a")],
            lambda: pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
            "create persistentvolumeclaim default/data of volume data: without it the pod fits: 1 more node",
            id="a claim that does not exist",
        ),
        pytest.param(
            lambda: [node("a"), pod("low", on="a", cpu="3", priority=10)],
            lambda: pod(cpu="2", priority=5),
            "priority 11: evicts default/low from a",
            id="a priority that lets it evict others",
        ),
        pytest.param(
            lambda: [node("a", taints=[GPU], unschedulable=True)],
            lambda: pod(cpu="5"),
            "uncordon a and tolerate dedicated=gpu:NoSchedule and 1 less CPU (4 instead of 5)",
            id="three changes where no single one helps",
        ),
    ],
)
def test_a_suggestion_is_found(objects: Any, asked: Any, want: str) -> None:
    found = explained(cluster_of(*objects()), asked())
    assert found.outcome is Outcome.UNSCHEDULABLE
    assert want in texts(found)


def test_suggestions_leave_the_cluster_as_it_was() -> None:
    session = cluster_of(
        node("a", taints=[GPU]), node("b", unschedulable=True), node("c", pods=1), pod("x", on="c", cpu="1", priority=3)
    )
    asked = pod(cpu="5", nodeSelector={"disk": "ssd"})
    first, second = explained(session, asked), explained(session, asked)
    assert first.suggestions
    assert first.to_dict() == second.to_dict()
    table = session.handle.cluster.table
    assert table.nodes["b"].node is not None and table.nodes["b"].node.spec.unschedulable
    assert [info.pod.key for info in session.handle.cluster.pods()] == ["default/x"]


def test_smaller_changes_come_first() -> None:
    found = explained(cluster_of(node("a"), node("b", taints=[GPU], cpu="8")), pod(cpu="4100m"))
    assert texts(found)[0].startswith("100m less CPU")
    assert [s.cost for s in found.suggestions] == sorted(s.cost for s in found.suggestions)


def test_nothing_small_helps_where_there_is_no_node() -> None:
    found = explained(cluster_of(), pod())
    assert found.message == "no nodes available to schedule pods"
    assert found.suggestions == []


def test_the_number_of_questions_is_bounded() -> None:
    nodes = [
        node(f"n{i}", taints=[{"key": f"k{i}", "effect": "NoSchedule"}], unschedulable=i % 2 == 0) for i in range(300)
    ]
    found = explained(cluster_of(*nodes), pod(cpu="9", nodeSelector={"a": "b"}, labels={"app": "web"}))
    assert 0 < len(found.suggestions) <= 8


# ---- what else matters -------------------------------------------------------------------------------------------


def test_victims_are_named_with_the_budgets_they_break() -> None:
    budget = from_plain(
        PodDisruptionBudget,
        {"metadata": {"name": "keep"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}}},
    )
    session = cluster_of(node("a"), pod("db", on="a", cpu="3", labels={"app": "db"}), budget)
    found = explained(session, pod(cpu="2", priority=100))
    assert found.nominated_node == "a"
    assert [(v.pod, v.breaks) for v in found.victims] == [("default/db", ("default/keep",))]


def test_claims_and_their_volumes_are_named() -> None:
    volume = from_plain(
        PersistentVolume,
        {
            "metadata": {"name": "pv-1"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "storageClassName": "local",
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["gone"]}]}
                        ]
                    }
                },
            },
        },
    )
    claim = from_plain(
        PersistentVolumeClaim,
        {"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1", "storageClassName": "local"}},
    )
    storage = from_plain(StorageClass, {"metadata": {"name": "local"}, "provisioner": "none"})
    asked = pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    found = explained(cluster_of(node("a"), volume, claim, storage), asked)
    assert found.notes == [f"claim default/data is bound to volume pv-1, reachable from nodes with {HOST}=gone"]
    assert "without volume data (claim default/data, volume pv-1): 1 more node" in texts(found)


def test_a_gated_pod_is_tried_without_its_gates() -> None:
    found = explained(cluster_of(node("a")), pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert found.outcome is Outcome.GATED
    assert found.message == "Scheduling is blocked due to non-empty scheduling gates"
    assert texts(found) == ["remove scheduling gate example.com/wait: 1 more node"]


def test_a_plugin_without_known_remedies_is_named() -> None:
    session = cluster_of(node("a"), node("b"))
    profile = session.profiles["default-scheduler"]

    class Stubborn:
        name = "Stubborn"

        def filter(self, state: Any, pod: Any, nodes: Any) -> Any:
            from mooring.core.framework.status import Status, Verdict

            return Verdict.where(nodes.rows >= 0, Status.unschedulable("no"))

    profile.plugins["Stubborn"] = resolve(Stubborn())
    profile.points["filter"].append(("Stubborn", 0))
    profile.filter.append(profile.plugins["Stubborn"])
    assert texts(explained(session, pod())) == ["only Stubborn stands in the way: 2 more nodes"]


def test_a_scheduler_name_without_a_profile_is_bad_input() -> None:
    with pytest.raises(InputError, match="no profile for 'other'; the configuration has default-scheduler"):
        explained(cluster_of(node("a")), pod(schedulerName="other"))


def test_a_running_pod_is_looked_at_as_new() -> None:
    running = pod("x", on="a")
    running.status.nominated_node_name = "a"
    fresh = recreated_pod(running)
    assert (fresh.spec.node_name, fresh.status.nominated_node_name) == ("", "")
    assert running.spec.node_name == "a"
