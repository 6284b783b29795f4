"""What each plugin offers a pod that it refuses. Whether it helps is for the engine to say: tests/explanation."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import Node, Pod
from mooring.core.config.types import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change
from mooring.core.plugins.inter_pod_affinity import InterPodAffinity
from mooring.core.plugins.node_affinity import NodeAffinity
from mooring.core.plugins.node_ports import NodePorts
from mooring.core.plugins.node_resources_fit import NodeResourcesFit
from mooring.core.plugins.node_unschedulable import NodeUnschedulable
from mooring.core.plugins.pod_topology_spread import PodTopologySpread
from mooring.core.plugins.scheduling_gates import SchedulingGates
from mooring.core.plugins.taint_toleration import TaintToleration
from mooring.core.plugins.volume_restrictions import VolumeRestrictions
from mooring.testing import facts, make_cluster, make_handle, make_node, make_object, make_pod, remedies

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ARGS: dict[type, Any] = {
    InterPodAffinity: InterPodAffinityArgs(),
    NodeAffinity: NodeAffinityArgs(),
    NodeResourcesFit: NodeResourcesFitArgs(),
    PodTopologySpread: PodTopologySpreadArgs(),
}
POINTS = {"preFilter": frozenset({"NodeResourcesFit", "NodePorts"}), "preScore": frozenset({"TaintToleration"})}


def made(plugin: type, handle: Handle) -> Any:
    return plugin(ARGS.get(plugin), handle)


def offered(plugin: type, pod: Pod, *objects: Any) -> list[str]:
    cluster = make_cluster(*objects)
    return remedies(made(plugin, make_handle(cluster, points=POINTS)), cluster, pod)


def stated(plugin: type, pod: Pod, *objects: Any) -> list[str]:
    cluster = make_cluster(*objects)
    return facts(made(plugin, make_handle(cluster, points=POINTS)), cluster, pod)


def changes(plugin: type, pod: Pod, *objects: Any) -> list[Change]:
    """The changes themselves, for tests that make them."""
    cluster = make_cluster(*objects)
    asked = made(plugin, make_handle(cluster, points=POINTS))
    state, info, nodes = CycleState(), cluster.info(pod), cluster.nodes()
    if hasattr(asked, "pre_filter"):
        asked.pre_filter(state, info, nodes)
    found: list[Change] = []
    for remedy in asked.remedies(state, info, nodes):
        found += (remedy,) if isinstance(remedy, Change) else remedy
    return found


# ---- the node itself ---------------------------------------------------------------------------------------------


def test_a_node_is_uncordoned_together_with_its_taint() -> None:
    node = make_node("a", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule", "x=y:NoSchedule"])
    (change,) = changes(NodeUnschedulable, make_pod(), node)
    assert (str(change), change.node) == ("uncordon a", "a")
    assert change.edit_node is not None
    change.edit_node(node)
    assert not node.spec.unschedulable
    assert [taint.key for taint in node.spec.taints] == ["x"]


@pytest.mark.parametrize(
    ("taints", "tolerations", "want"),
    [
        pytest.param(["a=b:NoSchedule"], [], ["tolerate a=b:NoSchedule"], id="a taint with a value"),
        pytest.param(["a:NoExecute"], [], ["tolerate a:NoExecute"], id="a taint without a value"),
        pytest.param(
            ["a=b:NoSchedule", "c:NoSchedule"],
            [{"key": "c", "operator": "Exists"}],
            ["tolerate a=b:NoSchedule"],
            id="what is tolerated already is not named",
        ),
        pytest.param(
            ["node.kubernetes.io/not-ready:NoExecute", "a=b:NoSchedule"],
            [],
            ["n no longer not-ready and tolerate a=b:NoSchedule"],
            id="a condition is for the node to recover from",
        ),
        pytest.param(["a=b:PreferNoSchedule"], [], [], id="a taint that rejects no pod"),
    ],
)
def test_taints(taints: list[str], tolerations: list[dict[str, str]], want: list[str]) -> None:
    node = make_node("n", taints=taints)
    assert offered(TaintToleration, make_pod(spec={"tolerations": tolerations}), node) == want


def test_each_set_of_taints_is_named_once() -> None:
    nodes = [make_node(f"n{i}", taints=["a=b:NoSchedule" if i % 2 else "c=d:NoSchedule"]) for i in range(20)]
    assert offered(TaintToleration, make_pod(), *nodes) == ["tolerate c=d:NoSchedule", "tolerate a=b:NoSchedule"]


def _node_affinity(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": k, "operator": op, "values": values}]} for k, op, values in expressions]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}},
            ["label disk=ssd on n", "without nodeSelector disk=ssd"],
            id="a node selector",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "ssd", "rack": "1"}},
            [
                "label disk=ssd on n and label rack=1 on n",
                "without nodeSelector disk=ssd and without nodeSelector rack=1",
            ],
            id="two labels are needed together",
        ),
        pytest.param(
            _node_affinity(("arch", "In", ["arm64"])),
            ["label arch=arm64 on n", "without the required node affinity (arch=arm64)"],
            id="a required term",
        ),
        pytest.param(
            _node_affinity(("gpu", "Exists", [])),
            ["label gpu=true on n", "without the required node affinity (gpu)"],
            id="a label that must only exist",
        ),
        pytest.param(
            _node_affinity(("cores", "Gt", ["8"])),
            ["without the required node affinity (cores Gt 8)"],
            id="no label is proposed for a number",
        ),
        pytest.param(
            _node_affinity(("a", "In", ["1"]), ("b", "In", ["2"])),
            ["label a=1 on n", "label b=2 on n", "without the required node affinity (a=1 or b=2)"],
            id="one of two terms is enough",
        ),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}, **_node_affinity(("kubernetes.io/hostname", "Exists", []))},
            ["label disk=ssd on n", "without nodeSelector disk=ssd"],
            id="an affinity that holds is kept",
        ),
    ],
)
def test_node_affinity(spec: dict[str, Any], want: list[str]) -> None:
    assert offered(NodeAffinity, make_pod(spec=spec), make_node("n")) == want


def test_for_many_nodes_only_a_few_are_labelled() -> None:
    found = offered(NodeAffinity, make_pod(spec={"nodeSelector": {"a": "b"}}), *(make_node(f"n{i}") for i in range(50)))
    assert sum(text.startswith("label") for text in found) == 8


# ---- resources ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param({"cpu": "4200m"}, ["200m less CPU (4 instead of 4200m)"], id="cpu"),
        pytest.param({"memory": "8200Mi"}, ["8Mi less memory (8Gi instead of 8200Mi)"], id="memory"),
        pytest.param({"example.com/gpu": "2"}, ["no example.com/gpu request (2 now)"], id="nothing of the kind"),
        pytest.param(
            {"cpu": "5", "memory": "9Gi"},
            ["1 less CPU (4 instead of 5) and 1Gi less memory (8Gi instead of 9Gi)"],
            id="both are needed",
        ),
    ],
)
def test_smaller_requests(requests: dict[str, str], want: list[str]) -> None:
    assert offered(NodeResourcesFit, make_pod(requests=requests), make_node("n")) == want


def test_the_least_important_pod_that_frees_enough_is_named() -> None:
    running = [
        make_pod("small", node="n", cpu="500m", priority=1),
        make_pod("large", node="n", cpu="2", priority=2),
        make_pod("precious", node="n", cpu="1500m", priority=9),
    ]
    found = offered(NodeResourcesFit, make_pod(cpu="1"), make_node("n"), *running)
    assert found[1:] == ["without pod default/large on n"]


def test_a_full_node_has_one_pod_too_many() -> None:
    running = [make_pod(f"p{i}", node="n") for i in range(2)]
    assert offered(NodeResourcesFit, make_pod(), make_node("n", pods=2), *running) == [
        "one pod fewer on n (pods: 2 of 2)"
    ]


def test_a_node_with_far_too_many_pods_is_left_alone() -> None:
    running = [make_pod(f"p{i}", node="n") for i in range(6)]
    assert offered(NodeResourcesFit, make_pod(), make_node("n", pods=2), *running) == []


def test_the_closest_nodes_come_first() -> None:
    nodes = [make_node(f"n{i}", cpu=i) for i in range(1, 20)]
    found = offered(NodeResourcesFit, make_pod(cpu="20"), *nodes)
    assert found[0] == "1 less CPU (19 instead of 20)"
    assert len(found) == 8


def test_ignored_resources_are_not_missing() -> None:
    cluster = make_cluster(make_node("n"))
    args = NodeResourcesFitArgs(ignored_resources=["example.com/gpu"])
    plugin = NodeResourcesFit(args, make_handle(cluster, points=POINTS))
    pod = make_pod(requests={"example.com/gpu": "1"}, cpu="5")
    assert remedies(plugin, cluster, pod) == ["1 less CPU (4 instead of 5)"]
    assert facts(plugin, cluster, pod) == ["cpu: 5 asked for, at most 4 free (on n)"]


# ---- ports, gates, volumes ---------------------------------------------------------------------------------------


def test_only_ports_that_are_taken_are_given_up() -> None:
    pod = make_pod(host_ports=[80, 81])
    (change,) = changes(NodePorts, pod, make_node("n"), make_pod("x", node="n", host_ports=[81, 82]))
    assert str(change) == "remove host port 81"
    assert change.edit is not None
    change.edit(pod)
    assert [port.host_port for port in pod.spec.containers[0].ports] == [80, 0]


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        pytest.param(["a"], "remove scheduling gate a", id="one gate"),
        pytest.param(["a", "b"], "remove scheduling gates a, b", id="two gates"),
    ],
)
def test_gates(gates: list[str], want: str) -> None:
    pod = make_pod(spec={"schedulingGates": [{"name": gate} for gate in gates]})
    (change,) = changes(SchedulingGates, pod, make_node("n"))
    assert str(change) == want
    assert change.edit is not None
    change.edit(pod)
    assert pod.spec.scheduling_gates == []


def _claim(name: str, **spec: Any) -> Any:
    return make_object("PersistentVolumeClaim", name, "default", spec=spec)


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, "without volume v", id="a disk"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "gone"}},
            "create persistentvolumeclaim default/gone of volume v: without it the pod fits",
            id="a claim that does not exist",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "waiting"}},
            "bind persistentvolumeclaim default/waiting (storage class fast) of volume v: without it the pod fits",
            id="a claim that is not bound",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "bound"}},
            "without volume v (claim default/bound, volume pv)",
            id="a claim that is bound",
        ),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            "create persistentvolumeclaim default/pod-v of volume v: without it the pod fits",
            id="a claim that is made for the pod",
        ),
    ],
)
def test_volumes(volume: dict[str, Any], want: str) -> None:
    pod = make_pod(spec={"volumes": [{"name": "v", **volume}]})
    claims = [_claim("waiting", storageClassName="fast"), _claim("bound", volumeName="pv")]
    (change,) = changes(VolumeRestrictions, pod, make_node("n"), *claims)
    assert str(change) == want
    assert change.edit is not None
    change.edit(pod)
    assert pod.spec.volumes == []


# ---- other pods --------------------------------------------------------------------------------------------------


def _term(key: str = HOST, **labels: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _pod_affinity(which: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {which: {REQUIRED: list(terms)}}}


NO_WEB = f"without the required affinity term on {HOST} (app=web)"


@pytest.mark.parametrize(
    ("pod", "running", "want"),
    [
        pytest.param(make_pod(spec=_pod_affinity("podAffinity", _term(app="web"))), [], [NO_WEB], id="no pod is near"),
        pytest.param(
            make_pod(spec=_pod_affinity("podAffinity", _term(app="web"), _term(ZONE, app="db"))),
            [],
            [
                NO_WEB,
                f"without the required affinity term on {ZONE} (app=db)",
                f"without the required affinity term on {ZONE} (app=db) and {NO_WEB}",
            ],
            id="two terms, one after the other and together",
        ),
        pytest.param(
            make_pod(spec=_pod_affinity("podAntiAffinity", _term(ZONE, app="web"), _term(app="db"))),
            [make_pod("db", node="n", labels={"app": "db"})],
            [f"without the required anti-affinity term on {HOST} (app=db)"],
            id="only the anti-affinity that is broken",
        ),
        pytest.param(
            make_pod(labels={"app": "db"}),
            [make_pod("shy", node="n", spec=_pod_affinity("podAntiAffinity", _term(app="db")))],
            ["without default/shy, whose anti-affinity keeps this pod away from n"],
            id="the pod that objects",
        ),
        pytest.param(
            make_pod(labels={"app": "db"}),
            [make_pod(f"shy{i}", node="n", spec=_pod_affinity("podAntiAffinity", _term(app="db"))) for i in range(4)],
            [],
            id="too many pods object",
        ),
    ],
)
def test_pod_affinity(pod: Pod, running: list[Pod], want: list[str]) -> None:
    assert offered(InterPodAffinity, pod, make_node("n"), *running) == want


def _spread(key: str, max_skew: int = 1) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _zones(*pods_in: int) -> list[Node | Pod]:
    """A node per zone, with so many web pods on it."""
    objects: list[Node | Pod] = []
    for i, count in enumerate(pods_in):
        objects.append(make_node(f"n{i}", zone=f"z{i}"))
        objects += [make_pod(f"w{i}{j}", node=f"n{i}", labels={"app": "web"}) for j in range(count)]
    return objects


def test_exactly_the_skew_that_is_needed_is_allowed() -> None:
    pod = make_pod(labels={"app": "web"}, spec={"topologySpreadConstraints": [_spread(ZONE)]})
    assert offered(PodTopologySpread, pod, *_zones(3, 5, 0)) == [
        f"spread over {ZONE}: allow maxSkew 4 (now 1)",
        f"spread over {ZONE} only where possible (ScheduleAnyway)",
    ]


def test_two_broken_constraints_need_more_skew_together() -> None:
    constraints = [_spread(ZONE), _spread(HOST)]
    pod = make_pod(labels={"app": "web"}, spec={"topologySpreadConstraints": constraints})
    found = offered(PodTopologySpread, pod, *_zones(2, 0))
    assert found[0] == f"spread over {ZONE}: allow maxSkew 3 (now 1) and spread over {HOST}: allow maxSkew 3 (now 1)"


def test_a_missing_label_is_no_matter_of_skew() -> None:
    pod = make_pod(labels={"app": "web"}, spec={"topologySpreadConstraints": [_spread("rack"), _spread("room")]})
    soft = "only where possible (ScheduleAnyway)"
    assert offered(PodTopologySpread, pod, make_node("n")) == [
        f"spread over rack {soft}",
        f"spread over room {soft}",
        f"spread over rack {soft} and spread over room {soft}",
    ]


def test_default_constraints_are_not_the_pods_to_change() -> None:
    defaults = {"default_constraints": [], "defaulting_type": "List"}
    constraint = make_pod(spec={"topologySpreadConstraints": [_spread("rack")]}).spec.topology_spread_constraints[0]
    constraint.label_selector = None
    args = PodTopologySpreadArgs(**{**defaults, "default_constraints": [constraint]})
    service = make_object("Service", "web", "default", spec={"selector": {"app": "web"}})
    cluster = make_cluster(make_node("n"), service)
    plugin = PodTopologySpread(args, make_handle(cluster))
    pod = make_pod(labels={"app": "web"})
    assert remedies(plugin, cluster, pod) == []


# ---- facts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "pod", "want"),
    [
        pytest.param(
            NodeAffinity, make_pod(spec={"nodeSelector": {"disk": "sdd"}}), ["disk is ssd on 2 nodes"], id="labels"
        ),
        pytest.param(NodeResourcesFit, make_pod(cpu="9"), ["cpu: 9 asked for, at most 4 free (on b)"], id="resources"),
        pytest.param(
            PodTopologySpread,
            make_pod(spec={"topologySpreadConstraints": [_spread("rack")]}),
            ["no node has the label rack"],
            id="topology keys",
        ),
        pytest.param(
            InterPodAffinity,
            make_pod(spec=_pod_affinity("podAffinity", _term(app="cache"))),
            ["no pod has app=cache"],
            id="pods",
        ),
        pytest.param(NodeAffinity, make_pod(spec={"nodeSelector": {"disk": "ssd"}}), [], id="nothing is missing"),
    ],
)
def test_facts(plugin: type, pod: Pod, want: list[str]) -> None:
    nodes = [make_node(name, labels={"disk": "ssd"}, unschedulable=True) for name in "ab"]
    assert stated(plugin, pod, *nodes) == want
