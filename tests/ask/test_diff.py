"""Two schedulers over the same pods: which pods move, why, and that ties and consequences are distinguished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring import sdk
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.ask.diff import Difference, diff
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.testing import make_node, make_object, make_pod


def strategy(kind: str) -> dict[str, Any]:
    args = {"scoringStrategy": {"type": kind, "resources": [{"name": "cpu", "weight": 1}]}}
    return {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]}


LEAST, MOST = strategy("LeastAllocated"), strategy("MostAllocated")
WITHOUT_TAINTS = {"profiles": [{"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}]}


class NotOnB(sdk.NodeFilter):
    """Nothing goes to the node b."""

    name = "NotOnB"

    def filter(self, state: sdk.CycleState, pod: Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.unschedulable("b is not for us") if node.name == "b" else sdk.SUCCESS


def half_full(*pods: Pod) -> Cluster:
    """Node a has half of its CPU in use, node b none."""
    return Cluster(make_node("a"), make_node("b"), make_pod("old", node="a", cpu="2"), *pods)


def compared(cluster: Cluster, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Difference:
    return diff(Scheduler(cluster, old), Scheduler(cluster, new))


def moves(found: Difference) -> list[tuple[str, str | None, str | None]]:
    return [(move.pod, move.before, move.after) for move in found.moved]


# ---- who moves, and which plugin tipped it -----------------------------------------------------------------------


def test_a_plugin_that_scores_otherwise_moves_a_pod() -> None:
    found = compared(half_full(make_pod("web", cpu="1")), LEAST, MOST)
    assert found and moves(found) == [("default/web", "b", "a")]
    assert found.moved[0].cause.plugin == "NodeResourcesFit"
    # 1 of 4 cores on b, 3 of 4 on a: least allocated scores 75 and 25, most allocated 25 and 75
    assert found.moved[0].cause.text == "NodeResourcesFit gives a 75 and b 25; before, 25 and 75"
    assert found.first is not None
    assert [decision.scores[0].node for decision in found.first] == ["b", "a"]


def test_a_plugin_that_refuses_moves_a_pod() -> None:
    cluster = half_full(make_pod("web", cpu="1"))
    found = diff(Scheduler(cluster), Scheduler(cluster, plugins=[NotOnB]))
    assert moves(found) == [("default/web", "b", "a")]
    assert found.moved[0].cause.text == "NotOnB refuses b: b is not for us"


def test_a_pod_that_waits_on_one_side_only() -> None:
    cluster = Cluster(make_node("b"), make_pod("web", cpu="1"))
    plain, without = Scheduler(cluster), Scheduler(cluster, plugins=[NotOnB])
    found = diff(plain, without)
    assert moves(found) == [("default/web", "b", None)]
    assert (found.sums[0].waiting, found.sums[1].waiting) == (0, 1)
    back = diff(without, plain)
    assert moves(back) == [("default/web", None, "b")]
    assert back.moved[0].cause.text == "NotOnB no longer refuses b: b is not for us"


def test_the_same_configuration_changes_nothing() -> None:
    found = compared(half_full(make_pod("web", cpu="1"), make_pod("huge", cpu="64")), LEAST, LEAST)
    assert not found and found.first is None and not found.messages
    assert found.sums[0] == found.sums[1]
    assert (found.sums[0].placed, found.sums[0].waiting, found.sums[0].nodes_in_use) == (1, 1, 2)


def test_a_node_that_is_equally_good_is_no_difference() -> None:
    """Without the taint's filter the tainted node comes first in the order of ties."""
    nodes = [make_node(name, taints=["x=y:NoSchedule"] if name == "a" else []) for name in "abc"]
    disabled = {
        "profiles": [
            {
                "plugins": {
                    "filter": {"disabled": [{"name": "TaintToleration"}]},
                    "score": {"disabled": [{"name": "TaintToleration"}]},
                }
            }
        ]
    }
    cluster = Cluster(*nodes, make_pod("web", cpu="1"))
    assert [Scheduler(cluster, config).decide("web").node for config in (None, disabled)] == ["b", "a"]
    found = compared(cluster, None, disabled)
    assert not found
    assert found.equally_good == {"default/web": ("b", "a")}


def test_a_move_caused_by_another_is_marked() -> None:
    """web goes to b or a by its score; small then goes beside or away by what is left, not by its own score."""
    cluster = Cluster(
        make_node("a", cpu="4"),
        make_node("b", cpu="4"),
        make_pod("old", node="a", cpu="2"),
        make_pod("web", cpu="2", priority=10),
        make_pod("pinned", cpu="3", spec={"nodeSelector": {"kubernetes.io/hostname": "b"}}),
    )
    found = compared(cluster, LEAST, MOST)
    assert moves(found) == [("default/web", "b", "a"), ("default/pinned", None, "b")]
    assert [move.cause.follows for move in found.moved] == [False, True]


def test_all_pods_are_placed_again_in_the_order_of_creation() -> None:
    """The first two pods of two cores: spread over both nodes, or packed onto one."""
    first = make_pod("x-first", node="b", cpu="2", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    second = make_pod("a-second", node="b", cpu="2", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    cluster = Cluster(make_node("a"), make_node("b"), first, second)
    assert not compared(cluster, LEAST, MOST), "no pod waits"
    found = diff(Scheduler(cluster, LEAST), Scheduler(cluster, MOST), "all")
    assert moves(found) == [("default/a-second", "b", "a")]
    assert (found.sums[0].nodes_in_use, found.sums[1].nodes_in_use) == (2, 1)
    assert found.sums[1].spread["cpu"] == pytest.approx(0.5)
    assert {pod.spec.node_name for pod in cluster.pods} == {"b"}, "the cluster stays as it is"


def test_preemption_is_carried_out_and_victims_are_named() -> None:
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "low", "uid": "u", "controller": True}]}
    cluster = Cluster(
        make_node("a", cpu="2"),
        make_node("b", cpu="2", taints=["x=y:NoSchedule"]),
        make_pod("low", node="a", cpu="2", priority=0, metadata=owner),
        make_pod("high", cpu="2", priority=100),
    )
    found = compared(cluster, None, WITHOUT_TAINTS)
    assert moves(found) == [("default/high", "a", "b"), ("default/low", None, "a")]
    assert found.moved[0].cause.text == "TaintToleration no longer refuses b: node(s) had untolerated taint(s)"
    assert found.moved[1].cause.text == "no longer evicted for default/high"
    assert (found.sums[0].evicted, found.sums[1].evicted) == (1, 0)


def test_pods_of_other_schedulers_stay_where_they_are() -> None:
    found = compared(half_full(make_pod("web", cpu="1", spec={"schedulerName": "volcano"})), LEAST, MOST)
    assert not found and found.pods == 0 and found.left_out == {"volcano": 1}


def test_what_comes_later_can_let_an_earlier_pod_run() -> None:
    """The first pod wants to be with the second one, which is placed after it."""
    terms = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [terms]}}
    cluster = half_full(
        make_pod("web", cpu="1", priority=5, spec={"affinity": affinity}), make_pod("db", cpu="1", labels={"app": "db"})
    )
    found = compared(cluster, LEAST, MOST)
    assert moves(found) == [("default/web", "b", "a"), ("default/db", "b", "a")]
    assert found.sums[0].waiting == 0


def test_versions_are_compared_on_clusters_that_count_as_they_do() -> None:
    """1.37 counts a pod that is being resized by the largest of three sums."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    other = {**container, "name": "other", "resources": {"requests": {"cpu": "3"}}}
    status = {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
            {"name": "other", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}},
        ]
    }
    resized = make_pod("resized", node="a", spec={"containers": [container, other]}, status=status)
    cluster = Cluster(make_node("a", cpu="6"), resized, make_pod("web", cpu="1"))
    found = diff(
        Scheduler(cluster, kubernetes_version="1.36"), Scheduler(cluster, kubernetes_version="1.37"), "pending"
    )
    assert moves(found) == [("default/web", None, "a")]


def test_two_clusters_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="expected two schedulers of one cluster"):
        diff(Scheduler(half_full()), Scheduler(half_full()))


def test_a_difference_reads_as_the_command_prints_it() -> None:
    found = compared(half_full(make_pod("web", cpu="1")), LEAST, MOST)
    lines = repr(found).splitlines()
    assert lines[0] == "1 pod moved: 1 pending pod, under before and under after."
    assert lines[3].split()[:3] == ["default/web", "b", "a"]
    assert found.to_dict()["moved"] == [
        {
            "pod": "default/web",
            "from": "b",
            "to": "a",
            "because": "NodeResourcesFit gives a 75 and b 25; before, 25 and 75",
            "plugin": "NodeResourcesFit",
            "follows": False,
            "changes": [],
        }
    ]


# ---- against two separate runs -----------------------------------------------------------------------------------

_sizes = st.integers(1, 6).map(lambda half: f"{half * 500}m")
_pods = st.lists(st.tuples(_sizes, st.sampled_from([None, "a", "b", "c"]), st.integers(0, 2)), min_size=1, max_size=7)
_configs = st.sampled_from([None, LEAST, MOST, WITHOUT_TAINTS])


@settings(max_examples=25, deadline=None)
@given(pods=_pods, cpus=st.lists(st.integers(1, 6), min_size=3, max_size=3), old=_configs, new=_configs)
def test_it_is_what_two_separate_runs_give(
    pods: list[tuple[str, str | None, int]],
    cpus: list[int],
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
) -> None:
    cluster = Cluster(
        *(
            make_node(name, cpu=cpu, taints=["x=y:NoSchedule"] if name == "c" else [])
            for name, cpu in zip("abc", cpus, strict=True)
        ),
        make_object("PriorityClass", "never", value=0, preemptionPolicy="Never"),
    )
    for i, (cpu, wanted, priority) in enumerate(pods):
        selector = {"nodeSelector": {"kubernetes.io/hostname": wanted}} if wanted else {}
        cluster.add(make_pod(f"p{i}", cpu=cpu, priority=priority, spec={"preemptionPolicy": "Never", **selector}))
    found = compared(cluster, old, new)
    order = sorted(cluster.pending, key=lambda pod: -(pod.spec.priority or 0))
    first = _alone(cluster, old, [pod.key for pod in order], {})
    second = _alone(cluster, new, [pod.key for pod in order], first)
    want = {key: (first[key], second[key]) for key in first if first[key] != second[key]}
    assert {move.pod: (move.before, move.after) for move in found.moved} == want
    assert (old == new) <= (not found)
    assert all(move.cause.text for move in found.moved)


def _alone(
    cluster: Cluster, config: Mapping[str, Any] | None, order: list[str], favoured: Mapping[str, str | None]
) -> dict[str, str | None]:
    """One scheduler by itself, pod by pod. Of nodes that are equally good it takes the favoured one."""
    fork = cluster.fork()
    scheduler = Scheduler(fork, config)
    placed: dict[str, str | None] = {}
    for key in order:
        decision = scheduler.decide(key)
        node = decision.node
        best = {share.node for share in decision.scores if share.total == decision.scores[0].total}
        if favoured.get(key) in best:
            node = favoured[key]
        placed[key] = node
        if node is not None:
            pod = fork.find_pod(key)
            assert pod is not None
            fork.bind(pod, node)
    return placed


def test_a_cluster_is_compared_under_two_configurations() -> None:
    cluster = half_full(make_pod("new", cpu="1"))
    found = diff(cluster, configs=(LEAST, MOST))
    assert moves(found) == moves(compared(cluster, LEAST, MOST)) == [("default/new", "b", "a")]
    assert "default/new" in found._repr_html_()


def test_a_cluster_is_compared_under_two_versions() -> None:
    assert not diff(half_full(make_pod("new", cpu="1")), versions=("1.36", "1.37"))
    with pytest.raises(InputError, match=r"diff: versions: found '1.36'; expected two to compare"):
        diff(half_full(), versions="1.36")  # type: ignore[arg-type]
