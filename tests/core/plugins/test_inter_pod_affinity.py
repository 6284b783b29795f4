"""InterPodAffinity (spec 2.15, appendix A.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.core.config.types import InterPodAffinityArgs
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.inter_pod_affinity import InterPodAffinity
from mooring.core.state.cluster import ClusterState
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_object, make_pod, scores

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match pod affinity rules")
ANTI = (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules")
EXISTING = (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules")


def app(name: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def wish(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    kinds: dict[str, list[Any]] = {"podAffinity": [], "podAntiAffinity": []}
    for weight, term in terms:
        kinds["podAffinity" if weight > 0 else "podAntiAffinity"].append(
            {"weight": abs(weight), "podAffinityTerm": term}
        )
    return {kind: {PREFERRED: found} for kind, found in kinds.items() if found}


def pod(name: str = "new", labels: str = "new", node: str = "", namespace: str = "default", **affinity: Any) -> Any:
    spec = {"affinity": affinity} if affinity else {}
    return make_pod(name, labels={"app": labels}, node=node, namespace=namespace, spec=spec)


def world(*pods: Any) -> ClusterState:
    """Nodes a and b in zone x, c in zone y, d in none."""
    nodes = [make_node("a", zone="x"), make_node("b", zone="x"), make_node("c", zone="y"), make_node("d")]
    return make_cluster(*nodes, *pods)


def plugin(cluster: ClusterState, **args: Any) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(**args), make_handle(cluster))


def passing(cluster: ClusterState, of: Any) -> str:
    return "".join(name for name, status in filter_statuses(plugin(cluster), cluster, of).items() if status.is_success)


def why(cluster: ClusterState, of: Any) -> dict[str, tuple[Code, str]]:
    statuses = filter_statuses(plugin(cluster), cluster, of)
    return {name: (status.code, status.message) for name, status in statuses.items() if not status.is_success}


class TestRequired:
    @pytest.mark.parametrize(
        ("running", "affinity", "wanted"),
        [
            pytest.param([pod("p", "db", "a")], near(app("db")), "ab", id="the friend's whole zone"),
            pytest.param([pod("p", "db", "a")], near(app("db", HOST)), "a", id="the friend's node"),
            pytest.param([], near(app("db")), "", id="no friend anywhere"),
            pytest.param([pod("p", "db", "d")], near(app("db")), "", id="a friend on a node without the label"),
            pytest.param(
                [pod("p", "db", "a")],
                away(app("db")),
                "cd",
                id="away from the whole zone, and the missing label is no domain",
            ),
            pytest.param([pod("p", "db", "a")], away(app("db", HOST)), "bcd", id="away from the node"),
            pytest.param(
                [pod("p", "db", "a"), pod("q", "web", "c")],
                near(app("db"), app("web")),
                "",
                id="trap 25: no single pod meets all terms",
            ),
            pytest.param([pod("p", "db", "a")], near(app("db"), app("db", HOST)), "a", id="one pod meets both terms"),
        ],
    )
    def test_terms(self, running: list[Any], affinity: Any, wanted: str) -> None:
        cluster = world(*running)
        assert "".join(sorted(passing(cluster, pod(**affinity)))) == wanted

    def test_trap_20_codes_and_texts(self) -> None:
        cluster = world(pod("p", "db", "a"))
        assert why(cluster, pod(**near(app("db")))) == {"c": AFFINITY, "d": AFFINITY}
        assert why(cluster, pod(**away(app("db")))) == {"a": ANTI, "b": ANTI}

    def test_affinity_speaks_before_anti_affinity_before_the_others(self) -> None:
        cluster = world(pod("p", "db", "a", **away(app("new"))))
        both = {**near(app("db", HOST)), **away(app("db"))}
        assert why(cluster, pod(**both)) == {"a": ANTI, "b": AFFINITY, "c": AFFINITY, "d": AFFINITY}

    def test_existing_pods_keep_others_away(self) -> None:
        cluster = world(pod("p", "db", "a", **away(app("new"))))
        assert why(cluster, pod()) == {"a": EXISTING, "b": EXISTING}
        assert why(cluster, pod(labels="other")) == {}

    def test_existing_anti_affinity_on_a_node_without_the_label_repels_no_pod(self) -> None:
        assert passing(world(pod("p", "db", "d", **away(app("new")))), pod()) == "acdb"

    def test_terminating_pods_count(self) -> None:
        going = make_pod("p", labels={"app": "db"}, node="a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert set(passing(world(going), pod(**near(app("db"))))) == {"a", "b"}


class TestItself:
    """The first of a group that wants to be together is its own friend."""

    def test_it_may_go_where_the_keys_are(self) -> None:
        assert set(passing(world(), pod(labels="db", **near(app("db"))))) == {"a", "b", "c"}

    def test_not_if_it_does_not_match_its_own_terms(self) -> None:
        assert passing(world(), pod(labels="web", **near(app("db")))) == ""

    def test_trap_25_not_once_there_is_a_friend_anywhere(self) -> None:
        assert set(passing(world(pod("p", "db", "c")), pod(labels="db", **near(app("db"))))) == {"c"}

    def test_a_friend_without_the_key_is_as_good_as_none(self) -> None:
        assert set(passing(world(pod("p", "db", "d")), pod(labels="db", **near(app("db"))))) == {"a", "b", "c"}


class TestNamespaces:
    RED = make_object("Namespace", "red", metadata={"labels": {"team": "red"}})
    BLUE = make_object("Namespace", "blue", metadata={"labels": {"team": "blue"}})

    @pytest.mark.parametrize(
        ("where", "term", "found"),
        [
            pytest.param("default", {}, True, id="the own namespace by default"),
            pytest.param("red", {}, False, id="no other by default"),
            pytest.param("red", {"namespaces": ["red"]}, True, id="a listed one"),
            pytest.param("default", {"namespaces": ["red"]}, False, id="then not the own one"),
            pytest.param("red", {"namespaceSelector": {"matchLabels": {"team": "red"}}}, True, id="by its labels"),
            pytest.param("blue", {"namespaceSelector": {"matchLabels": {"team": "red"}}}, False, id="by other labels"),
            pytest.param("anything", {"namespaceSelector": {}}, True, id="{} is every namespace"),
            pytest.param(
                "blue",
                {"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "red"}}},
                True,
                id="listed or selected",
            ),
            pytest.param(
                "red",
                {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}},
                True,
                id="trap 26: a selector of only negations means every namespace for own terms",
            ),
        ],
    )
    def test_own_terms(self, where: str, term: dict[str, Any], found: bool) -> None:
        cluster = world(self.RED, self.BLUE, pod("p", "db", "a", namespace=where))
        assert bool(passing(cluster, pod(**near(app("db", **term))))) is found

    @pytest.mark.parametrize(
        ("term", "kept_away"),
        [
            pytest.param(
                {"namespaceSelector": {"matchLabels": {"team": "red"}}}, True, id="by the newcomer's namespace"
            ),
            pytest.param({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, False, id="another team"),
            pytest.param(
                {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}},
                False,
                id="negations are judged by real labels here",
            ),
            pytest.param({}, False, id="its own namespace by default"),
        ],
    )
    def test_terms_of_existing_pods(self, term: dict[str, Any], kept_away: bool) -> None:
        cluster = world(self.RED, self.BLUE, pod("p", "db", "a", **away(app("new", **term))))
        assert ("a" not in passing(cluster, pod(namespace="red"))) is kept_away


def test_a_selector_that_does_not_parse_refuses_the_pod() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}}
    found = why(world(), pod(**near(term)))
    assert set(found) == {"a", "b", "c", "d"}
    assert all(code is AFFINITY[0] and text.startswith("parsing pod: ") for code, text in found.values())


class TestHypotheses:
    def judge(self, cluster: ClusterState, of: Any, node: str, removed: str = "", added: Any = None) -> set[str]:
        own, state, info, nodes = plugin(cluster), CycleState(), cluster.info(of), cluster.nodes()
        own.pre_filter(state, info, nodes)
        at = cluster.table.nodes[node]
        if removed:
            own.remove_pod(state, info, next(p for p in cluster.pods() if p.pod.name == removed), at)
        if added is not None:
            own.add_pod(state, info, cluster.info(added), at)
        verdict = own.filter(state, info, nodes)
        ids = [0] * len(nodes) if verdict is None else verdict.ids.tolist()
        return {info.name for info, number in zip(nodes.infos, ids, strict=True) if number == 0}

    def test_a_foe_that_goes(self) -> None:
        cluster = world(pod("p", "db", "a"))
        assert self.judge(cluster, pod(**away(app("db"))), "a", removed="p") == {"a", "b", "c", "d"}

    def test_a_friend_that_goes(self) -> None:
        cluster = world(pod("p", "db", "a"), pod("q", "db", "c"))
        assert self.judge(cluster, pod(**near(app("db"))), "a", removed="p") == {"c"}

    def test_the_last_friend_that_goes_leaves_the_pod_to_itself(self) -> None:
        cluster = world(pod("p", "db", "a"))
        assert self.judge(cluster, pod(labels="db", **near(app("db"))), "a", removed="p") == {"a", "b", "c"}

    def test_one_that_keeps_others_away_comes(self) -> None:
        cluster = world(pod("p", "db", "c"))
        newcomer = pod("q", "db", **away(app("new")))
        assert self.judge(cluster, pod(**away(app("none"))), "a", added=newcomer) == {"c", "d"}

    def test_a_foe_comes_to_a_node_without_the_label(self) -> None:
        assert self.judge(world(), pod(**away(app("db"))), "d", added=pod("q", "db")) == {"a", "b", "c", "d"}


class TestScore:
    @pytest.mark.parametrize(
        ("running", "affinity", "raw"),
        [
            pytest.param(
                [pod("p", "db", "a")], wish((10, app("db"))), {"a": 10, "b": 10, "c": 0, "d": 0}, id="a wish to be near"
            ),
            pytest.param(
                [pod("p", "db", "a")],
                wish((-10, app("db"))),
                {"a": -10, "b": -10, "c": 0, "d": 0},
                id="a wish to be away",
            ),
            pytest.param(
                [pod("p", "db", "a"), pod("q", "db", "b")],
                wish((10, app("db"))),
                {"a": 20, "b": 20, "c": 0, "d": 0},
                id="each pod counts",
            ),
            pytest.param(
                [pod("p", "db", "a")],
                wish((10, app("db")), (5, app("db", HOST)), (-3, app("db"))),
                {"a": 12, "b": 7, "c": 0, "d": 0},
                id="wishes add up",
            ),
            pytest.param(
                [pod("p", "db", "a", **wish((7, app("new"))))],
                {},
                {"a": 7, "b": 7, "c": 0, "d": 0},
                id="an existing pod's wish to be near",
            ),
            pytest.param(
                [pod("p", "db", "a", **wish((-7, app("new"))))],
                {},
                {"a": -7, "b": -7, "c": 0, "d": 0},
                id="an existing pod's wish to be away",
            ),
            pytest.param(
                [pod("p", "db", "a", **near(app("new")))],
                {},
                {"a": 1, "b": 1, "c": 0, "d": 0},
                id="an existing pod's demand weighs hardPodAffinityWeight",
            ),
        ],
    )
    def test_sums(self, running: list[Any], affinity: Any, raw: dict[str, int]) -> None:
        cluster = world(*running)
        assert scores(plugin(cluster), cluster, pod(**affinity), normalized=False) == raw

    @pytest.mark.parametrize(
        ("running", "affinity"),
        [
            pytest.param([], wish((10, app("db"))), id="an unmet preference"),
            pytest.param([pod("p", "db", "d")], wish((10, app("db"))), id="met only where the label is missing"),
            pytest.param([pod("p", "db", "a", **away(app("new")))], {}, id="an existing pod's anti-affinity demand"),
            pytest.param([pod("p", "db", "a")], {}, id="no wishes at all"),
        ],
    )
    def test_nothing_to_score_is_skipped(self, running: list[Any], affinity: Any) -> None:
        cluster = world(*running)
        assert scores(plugin(cluster), cluster, pod(**affinity)) is None

    def test_hard_weight_0_takes_demands_out(self) -> None:
        cluster = world(pod("p", "db", "a", **near(app("new"))))
        assert scores(plugin(cluster, hard_pod_affinity_weight=0), cluster, pod()) is None
        heavy = scores(plugin(cluster, hard_pod_affinity_weight=50), cluster, pod(), normalized=False)
        assert heavy is not None and heavy["a"] == 50

    def test_existing_wishes_can_be_ignored_for_pods_without_wishes(self) -> None:
        cluster = world(pod("p", "db", "a", **wish((7, app("new")))))
        own = plugin(cluster, ignore_preferred_terms_of_existing_pods=True)
        assert scores(own, cluster, pod()) is None

    @pytest.mark.parametrize(
        ("raw", "wanted"),
        [([0, 29, 100], [0, 28, 100]), ([-5, 0, 10], [0, 33, 100]), ([4, 4, 4], [0, 0, 0]), ([-3], [0])],
    )
    def test_appendix_a6_and_trap_13(self, raw: list[int], wanted: list[int]) -> None:
        cluster = world()
        own = plugin(cluster)
        found = own.normalize(CycleState(), cluster.info(pod()), np.array(raw), cluster.nodes())
        assert found.tolist() == wanted
