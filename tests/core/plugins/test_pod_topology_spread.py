"""PodTopologySpread (spec 2.14, appendix A.5)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.core.config.features import Features
from mooring.core.config.types import PodTopologySpreadArgs
from mooring.core.config.versions import V1_37, V1_38, KubernetesVersion
from mooring.core.engine.decision import Outcome
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.pod_topology_spread import Domains, PodTopologySpread
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.testing import (
    Scheduler,
    filter_statuses,
    make_cluster,
    make_handle,
    make_node,
    make_object,
    make_pod,
    scores,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}
SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING = SKEWED + " (missing required label)"


def hard(key: str = ZONE, max_skew: int = 1, selector: Any = WEB, **more: Any) -> dict[str, Any]:
    found = {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}
    return found if selector is None else {**found, "labelSelector": selector}


def soft(key: str = ZONE, max_skew: int = 1, selector: Any = WEB, **more: Any) -> dict[str, Any]:
    return {**hard(key, max_skew, selector, **more), "whenUnsatisfiable": "ScheduleAnyway"}


def web(name: str = "new", *constraints: dict[str, Any], labels: Any = None, **more: Any) -> Any:
    spec = {"topologySpreadConstraints": list(constraints), **more.pop("spec", {})}
    return make_pod(name, labels={"app": "web"} if labels is None else labels, spec=spec, **more)


def world(*zones: tuple[str, int], **more: Any) -> ClusterState:
    """A node per entry, named a, b, …, in that zone ("" for none), with so many web pods on it."""
    objects: list[Any] = []
    for i, (zone, count) in enumerate(zones):
        name = "abcdefgh"[i]
        objects.append(make_node(name, zone=zone, **more))
        objects += [make_pod(f"{name}{n}", node=name, labels={"app": "web"}) for n in range(count)]
    return make_cluster(*objects)


def plugin(cluster: ClusterState, defaulting: str = "System", *defaults: dict[str, Any]) -> PodTopologySpread:
    constraints = from_plain(Pod, {"spec": {"topologySpreadConstraints": list(defaults)}})
    args = PodTopologySpreadArgs(constraints.spec.topology_spread_constraints, defaulting)
    return PodTopologySpread(args, make_handle(cluster))


def verdicts(cluster: ClusterState, pod: Any) -> dict[str, str]:
    return {name: status.message for name, status in filter_statuses(plugin(cluster), cluster, pod).items()}


def passing(cluster: ClusterState, pod: Any) -> str:
    return "".join(name for name, message in verdicts(cluster, pod).items() if not message)


class TestFilter:
    @pytest.mark.parametrize(
        ("zones", "constraint", "wanted"),
        [
            pytest.param([("x", 0), ("y", 0)], hard(), "ab", id="no pods anywhere"),
            pytest.param([("x", 1), ("y", 0)], hard(), "b", id="the emptier zone only"),
            pytest.param([("x", 1), ("y", 0)], hard(max_skew=2), "ab", id="a larger skew is allowed"),
            pytest.param([("x", 1), ("x", 0), ("y", 0)], hard(), "c", id="zones, not nodes, are counted"),
            pytest.param([("x", 1), ("x", 0), ("y", 1)], hard(HOST), "b", id="hosts are counted"),
            pytest.param([("x", 2), ("y", 1), ("z", 1)], hard(), "bc", id="three zones"),
            pytest.param([("x", 0), ("", 0)], hard(), "a", id="a node without the label is refused"),
        ],
    )
    def test_skew(self, zones: Any, constraint: Any, wanted: str) -> None:
        cluster = world(*zones)
        assert "".join(sorted(passing(cluster, web("new", constraint)))) == wanted

    def test_codes_and_texts(self) -> None:
        cluster = world(("x", 1), ("y", 0), ("", 0))
        statuses = filter_statuses(plugin(cluster), cluster, web("new", hard()))
        assert (statuses["a"].code, statuses["a"].message) == (Code.UNSCHEDULABLE, SKEWED)
        assert (statuses["c"].code, statuses["c"].message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, MISSING)

    def test_without_hard_constraints_nothing_is_refused(self) -> None:
        cluster = world(("x", 5), ("y", 0))
        assert passing(cluster, web("new", soft())) == "ab" and passing(cluster, web("new")) == "ab"

    def test_the_first_constraint_that_fails_speaks(self) -> None:
        cluster = make_cluster(
            make_node("a", zone="x"),
            make_node("b", zone="x", labels={"rack": "1"}),
            make_node("c", zone="y", labels={"rack": "1"}),
            make_pod("p", node="b", labels={"app": "web"}),
        )
        assert verdicts(cluster, web("new", hard(), hard("rack")))["a"] == SKEWED
        assert verdicts(cluster, web("new", hard("rack"), hard()))["a"] == MISSING

    def test_trap_23_domains_need_all_hard_keys(self) -> None:
        """Zone y's only node has no rack, so that y is no domain, and x is not compared with it."""
        cluster = make_cluster(
            make_node("a", zone="x", labels={"rack": "1"}),
            make_node("b", zone="y"),
            make_pod("p", node="a", labels={"app": "web"}),
        )
        assert verdicts(cluster, web("new", hard(), hard("rack"))) == {"a": "", "b": MISSING}

    @pytest.mark.parametrize(("minimum", "wanted"), [(None, "ab"), (1, "ab"), (2, "ab"), (3, "")])
    def test_trap_23_too_few_domains_lower_the_minimum_to_0(self, minimum: int | None, wanted: str) -> None:
        more = {} if minimum is None else {"minDomains": minimum}
        assert passing(world(("x", 1), ("y", 1)), web("new", hard(**more))) == wanted

    @pytest.mark.parametrize(
        ("selector", "wanted"),
        [
            pytest.param(WEB, "b", id="a selector that means the pod"),
            pytest.param({"matchLabels": {"app": "web", "v": "2"}}, "ab", id="one that matches no pod there"),
            pytest.param({}, "ab", id="trap 22: {} counts no pod and matches the pod itself"),
            pytest.param(None, "ab", id="trap 22: a missing one matches no pod"),
        ],
    )
    def test_selectors(self, selector: Any, wanted: str) -> None:
        assert passing(world(("x", 1), ("y", 0)), web("new", hard(selector=selector))) == wanted

    def test_a_pod_that_its_constraint_does_not_mean_adds_no_skew(self) -> None:
        assert passing(world(("x", 1), ("y", 0)), web("new", hard(), labels={"app": "other"})) == "ab"

    @pytest.mark.parametrize(
        ("other", "wanted"),
        [
            pytest.param({"namespace": "else"}, "ab", id="another namespace does not count"),
            pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "ab", id="terminating neither"),
            pytest.param({}, "b", id="all others do"),
        ],
    )
    def test_who_is_counted(self, other: Any, wanted: str) -> None:
        cluster = world(("x", 0), ("y", 0))
        cluster.set_pod(make_pod("there", node="a", labels={"app": "web"}, **other))
        assert passing(cluster, web("new", hard())) == wanted

    def test_match_label_keys_narrow_to_the_pods_own_value(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        pod = web("new", hard(matchLabelKeys=["v", "missing"]), labels={"app": "web", "v": "2"})
        assert passing(cluster, pod) == "ab", "pods of other versions do not count"
        cluster.set_pod(make_pod("v2", node="b", labels={"app": "web", "v": "2"}))
        assert passing(cluster, pod) == "a"

    @pytest.mark.parametrize(
        ("policy", "wanted"),
        [
            pytest.param({}, "a", id="affinity is honoured: zone y does not take part"),
            pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="ignored: y is empty, so x is too full"),
        ],
    )
    def test_node_affinity_policy(self, policy: Any, wanted: str) -> None:
        cluster = make_cluster(
            make_node("a", zone="x", labels={"disk": "ssd"}),
            make_node("b", zone="y"),
            make_pod("p", node="a", labels={"app": "web"}),
        )
        pod = web("new", hard(**policy), spec={"nodeSelector": {"disk": "ssd"}})
        assert passing(cluster, pod).replace("b", "") == wanted

    @pytest.mark.parametrize(
        ("policy", "wanted"),
        [
            pytest.param({}, False, id="taints are ignored: y is empty, so x is too full"),
            pytest.param({"nodeTaintsPolicy": "Honor"}, True, id="honoured: y does not take part"),
        ],
    )
    def test_node_taints_policy(self, policy: Any, wanted: bool) -> None:
        cluster = make_cluster(
            make_node("a", zone="x"),
            make_node("b", zone="y", taints=["k:NoSchedule"]),
            make_pod("p", node="a", labels={"app": "web"}),
        )
        assert ("a" in passing(cluster, web("new", hard(**policy)))) is wanted

    def test_a_selector_that_does_not_parse_is_an_error(self) -> None:
        broken = {"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}
        decision = Scheduler(make_node("a", zone="x")).decide(web("new", hard(selector=broken)))
        assert decision.outcome is Outcome.ERROR and "Nonsense" in decision.message


class TestHypotheses:
    def test_adding_and_removing_pods_moves_the_counts(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        own = plugin(cluster)
        state, new = CycleState(), cluster.info(web("new", hard()))
        nodes = cluster.nodes()
        own.pre_filter(state, new, nodes)
        assert own.filter(state, new, nodes) is not None
        there = next(pod for pod in cluster.pods() if pod.pod.name == "a0")
        thought = state.clone()
        own.remove_pod(thought, new, there, nodes.infos[0])
        assert own.filter(thought, new, nodes) is None
        own.add_pod(thought, new, there, nodes.infos[0])
        verdict = own.filter(thought, new, nodes)
        assert verdict is not None and verdict.ids.tolist() == [2, 0]
        again = own.filter(state, new, nodes)
        assert again is not None and again.ids.tolist() == [2, 0], "the state itself has not changed"

    def test_a_terminating_pod_that_goes_is_subtracted_though_it_was_not_counted(self) -> None:
        cluster = world(("x", 0), ("y", 0))
        cluster.set_pod(
            make_pod("t", node="a", labels={"app": "web"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        )
        own = plugin(cluster)
        state, new, nodes = CycleState(), cluster.info(web("new", hard())), cluster.nodes()
        own.pre_filter(state, new, nodes)
        (going,) = cluster.pods()
        own.remove_pod(state, new, going, nodes.infos[0])
        verdict = own.filter(state, new, nodes)
        assert verdict is not None and verdict.ids.tolist() == [0, 2], "x counts -1 now, so y is too full"

    @pytest.mark.parametrize(
        ("counts", "changes", "minimum"),
        [
            pytest.param([3, 1, 2], [], 1, id="the smallest"),
            pytest.param([3, 1, 2], [(1, 5)], 2, id="the smallest grew: the second takes over"),
            pytest.param([3, 1, 2], [(0, -3)], 0, id="another one became the smallest"),
            pytest.param([3, 1, 2], [(1, 5), (2, 5)], 6, id="only two are tracked: upstream misses the third"),
            pytest.param([], [], 2**31 - 1, id="no domain at all"),
        ],
    )
    def test_critical_paths(self, counts: list[int], changes: list[tuple[int, int]], minimum: int) -> None:
        domains = Domains(np.array(counts, np.int64), np.ones(len(counts), np.bool_))
        for domain, amount in changes:
            domains.change(domain, amount)
        assert domains.minimum == minimum


class TestScore:
    def test_appendix_a5_one_zone_constraint(self) -> None:
        cluster = world(("x", 2), ("y", 1), ("z", 0))
        assert scores(plugin(cluster), cluster, web("new", soft()), normalized=False) == {"a": 3, "b": 2, "c": 0}
        assert scores(plugin(cluster), cluster, web("new", soft())) == {"a": 0, "b": 33, "c": 100}

    def test_appendix_a5_system_defaults(self) -> None:
        cluster = make_cluster(
            make_node("a", zone="x"),
            make_node("b", zone="x"),
            make_node("c", zone="y"),
            make_node("d", zone="y", unschedulable=True),
            make_object("Service", "web", "default", spec={"selector": {"app": "web"}}),
            make_pod("a0", node="a", labels={"app": "web"}),
            *(make_pod(f"b{i}", node="b", labels={"app": "web"}) for i in range(2)),
            make_pod("d0", node="d", labels={"app": "web"}),
        )
        feasible = ["a", "b", "c"]
        pod = make_pod("new", labels={"app": "web"})
        assert scores(plugin(cluster), cluster, pod, feasible, normalized=False) == {"a": 12, "b": 13, "c": 7}
        assert scores(plugin(cluster), cluster, pod, feasible) == {"a": 61, "b": 53, "c": 100}

    @pytest.mark.parametrize(
        ("size", "weight"), [(1, 1.098612), (2, 1.386294), (3, 1.609438), (10, 2.484907), (100, 4.624973)]
    )
    def test_appendix_a5_weights(self, size: int, weight: float) -> None:
        cluster = make_cluster(*(make_node(f"n{i}", zone=f"z{i}") for i in range(size)))
        own, state = plugin(cluster), CycleState()
        own.pre_score(state, cluster.info(web("new", soft())), cluster.nodes())
        assert math.isclose(state.read("PodTopologySpread/score").weights[0], weight, abs_tol=1e-6)

    def test_without_soft_constraints_scoring_is_skipped(self) -> None:
        cluster = world(("x", 1))
        assert scores(plugin(cluster), cluster, web("new", hard())) is None
        assert scores(plugin(cluster), cluster, web("new")) is None, "no service or controller selects it"

    def test_nodes_without_the_label_score_0(self) -> None:
        cluster = world(("x", 1), ("", 0), ("y", 0))
        assert scores(plugin(cluster), cluster, web("new", soft())) == {"a": 0, "b": 0, "c": 100}

    def test_without_counted_pods_all_nodes_get_100(self) -> None:
        cluster = world(("x", 0), ("y", 0))
        assert scores(plugin(cluster), cluster, web("new", soft())) == {"a": 100, "b": 100}

    def test_pods_on_nodes_that_are_not_feasible_count_too(self) -> None:
        cluster = world(("x", 0), ("x", 2), ("y", 0))
        assert scores(plugin(cluster), cluster, web("new", soft()), ["a", "c"], normalized=False) == {"a": 3, "c": 0}

    @pytest.mark.parametrize(("count", "max_skew", "raw"), [(2, 1, 2), (2, 2, 3), (7, 1, 8), (5, 3, 7)])
    def test_trap_13_sums_are_rounded_not_cut(self, count: int, max_skew: int, raw: int) -> None:
        """One domain weighs ln(3) = 1.0986: two pods make 2.197, seven 7.69, five and two for the skew 7.49."""
        cluster = world(("x", count))
        assert scores(plugin(cluster), cluster, web("new", soft(max_skew=max_skew)), normalized=False) == {"a": raw}


class TestDefaults:
    SERVICE = make_object("Service", "web", "default", spec={"selector": {"app": "web"}})

    def replica_set(self, selector: Any) -> Any:
        return make_object("ReplicaSet", "rs", "default", spec={"selector": selector})

    def owned(self, labels: Any = None, kind: str = "ReplicaSet", version: str = "apps/v1") -> Any:
        owner = {"apiVersion": version, "kind": kind, "name": "rs", "uid": "u", "controller": True}
        return make_pod("new", labels=labels or {"app": "web"}, metadata={"ownerReferences": [owner]})

    def test_a_service_gives_the_selector(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(self.SERVICE)
        assert scores(plugin(cluster), cluster, make_pod("new", labels={"app": "web"})) is not None
        assert scores(plugin(cluster), cluster, make_pod("new", labels={"app": "db"})) is None
        assert scores(plugin(cluster), cluster, make_pod("new", labels={"app": "web"}, namespace="else")) is None

    @pytest.mark.parametrize(
        ("kind", "version", "found"),
        [("ReplicaSet", "apps/v1", True), ("ReplicaSet", "apps/v1beta1", False), ("Job", "batch/v1", False)],
    )
    def test_a_controller_gives_the_selector(self, kind: str, version: str, found: bool) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(self.replica_set(WEB))
        assert (scores(plugin(cluster), cluster, self.owned(kind=kind, version=version)) is not None) is found

    def test_a_replication_controller_gives_its_label_set(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(make_object("ReplicationController", "rs", "default", spec={"selector": {"app": "web"}}))
        pod = self.owned(kind="ReplicationController", version="v1")
        assert scores(plugin(cluster), cluster, pod) is not None

    def test_service_and_controller_must_both_mean_a_pod(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(self.SERVICE)
        cluster.put(self.replica_set({"matchLabels": {"v": "2"}}))
        labels = {"app": "web", "v": "2"}
        found = scores(plugin(cluster), cluster, self.owned(labels), normalized=False)
        only_service = scores(plugin(cluster), cluster, make_pod("new", labels=labels), normalized=False)
        assert found is not None and only_service is not None
        assert found["a"] < only_service["a"], "the old version's pod is not counted with the controller's selector"

    def test_own_constraints_replace_the_defaults(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(self.SERVICE)
        assert scores(plugin(cluster), cluster, web("new", hard())) is None

    def test_trap_24_a_missing_zone_is_a_zone_of_its_own_for_system_defaults(self) -> None:
        cluster = world(("x", 0), ("", 0))
        cluster.put(self.SERVICE)
        own, state = plugin(cluster), CycleState()
        own.pre_score(state, cluster.info(make_pod("new", labels={"app": "web"})), cluster.nodes())
        found = state.read("PodTopologySpread/score")
        by_key = dict(zip((c.topology_key for c in found.constraints), found.weights, strict=True))
        assert math.isclose(by_key[ZONE], math.log(2 + 2)), "x and the missing one"

    def test_defaults_from_a_list(self) -> None:
        cluster = world(("x", 1), ("y", 0))
        cluster.put(self.SERVICE)
        own = plugin(cluster, "List", hard(selector=None))
        pod = make_pod("new", labels={"app": "web"})
        assert {n: s.message for n, s in filter_statuses(own, cluster, pod).items()} == {"a": SKEWED, "b": ""}
        empty = plugin(cluster, "List")
        assert all(s.is_success for s in filter_statuses(empty, cluster, pod).values())


@pytest.mark.parametrize("keys", [(ZONE, "nowhere"), ("nowhere", ZONE), ("nowhere", "elsewhere")])
def test_a_key_that_no_node_has_refuses_all_nodes(keys: tuple[str, ...]) -> None:
    """No pod counts where a label is missing, so no node is too full either."""
    cluster = make_cluster(
        make_node("a", zone="x"), make_node("b", zone="y"), make_pod("old", node="a", labels={"app": "web"})
    )
    pod = make_pod("new", labels={"app": "web"}, spec={"topologySpreadConstraints": [hard(key) for key in keys]})
    found = filter_statuses(PodTopologySpread(PodTopologySpreadArgs(), make_handle(cluster)), cluster, pod)
    assert {name: status.message for name, status in found.items()} == {"a": MISSING, "b": MISSING}


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        pytest.param(V1_37, set(), id="until 1.37 it counts no pod"),
        pytest.param(V1_38, {"n0"}, id="since 1.38 it counts every pod of the namespace"),
    ],
)
def test_an_empty_selector(version: KubernetesVersion, refused: set[str]) -> None:
    cluster = make_cluster(
        *(make_node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(2)),
        make_pod("old", node="n0", labels={"app": "db"}),
        make_pod("far", node="n1", labels={"app": "db"}, namespace="other"),
    )
    handle = replace(make_handle(cluster), features=Features(version))
    statuses = filter_statuses(
        PodTopologySpread(PodTopologySpreadArgs(), handle), cluster, web("new", hard(selector={}))
    )
    assert {name for name, status in statuses.items() if not status.is_success} == refused


def test_thousands_of_constraints_look_at_each_key_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, usual = 0, NodeRows.label

    def label(self: NodeRows, key: str) -> Any:
        nonlocal asked
        asked += 1
        return usual(self, key)

    monkeypatch.setattr(NodeRows, "label", label)
    many = [hard(ZONE, selector={"matchLabels": {"app": f"a{i}"}}) for i in range(100)]
    pod = make_pod("p", labels={"app": "a1"}, spec={"topologySpreadConstraints": many})
    nodes = [make_node(f"n{i}", labels={ZONE: f"z{i}"}) for i in range(3)]
    assert Scheduler(*nodes).decide(pod).node
    assert asked <= 10 * len(many)  # its square if each constraint looks at the keys of all
