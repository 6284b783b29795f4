"""Extenders in the cycle: what the recordings do not show, by upstream's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.core.config.load import config_from_dict
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.extender import (
    AnsweredNode,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
)
from mooring.core.framework.status import Code
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo


@dataclass
class Fake:
    """An extender without HTTP."""

    name: str = "fake"
    on_filter: Callable[[Sequence[NodeInfo]], ExtenderFilterResult] | None = None
    on_prioritize: Callable[[Sequence[NodeInfo]], Any] | None = None
    weight: int = 1
    is_ignorable: bool = False
    interested: bool = True
    offered: list[list[str]] = field(default_factory=list)
    scored: list[list[str]] = field(default_factory=list)
    is_binder: bool = False
    supports_preemption: bool = False

    @property
    def is_filter(self) -> bool:
        return self.on_filter is not None

    @property
    def is_prioritizer(self) -> bool:
        return self.on_prioritize is not None

    def is_interested(self, pod: PodInfo) -> bool:
        return self.interested

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        self.offered.append([info.name for info in nodes])
        assert self.on_filter is not None
        return self.on_filter(nodes)

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        self.scored.append([info.name for info in nodes])
        if self.on_prioritize is None:
            return Prioritized([(info.name, 0) for info in nodes], 0)
        found = self.on_prioritize(nodes)
        if isinstance(found, ExtenderError):
            raise found
        return Prioritized(found, self.weight)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        return victims

    def bind(self, pod: PodInfo, node_name: str) -> None: ...


def node(name: str, **spec: Any) -> Node:
    labels = spec.pop("labels", {})
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "20", **spec.pop("allocatable", {})}
    value = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}, "spec": spec}
    made: Node = from_plain(Node, {**value, "status": {"allocatable": allocatable}})
    return made


def pod(**spec: Any) -> Pod:
    status = spec.pop("status", {})
    containers = [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}]
    value = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "status": status}
    made: Pod = from_plain(
        Pod, {**value, "spec": {"containers": containers, "schedulerName": "default-scheduler", **spec}}
    )
    return made


def decide(
    extenders: Sequence[Fake],
    *nodes: Node,
    given: Pod | None = None,
    config: dict[str, Any] | None = None,
    pick: Callable[[int], int] = lambda n: 0,
    cluster: ClusterState | None = None,
) -> ScheduleResult:
    cluster = cluster or ClusterState()
    for each in nodes or (node("a"), node("b"), node("c")):
        cluster.put(each)
    session = open_session(
        config_from_dict(config),
        cluster,
        extenders=extenders,  # type: ignore[arg-type]
        prepare=lambda handle: setattr(handle, "pick", pick),
    )
    return session.engine.decide(cluster.info(given or pod()), session.profiles["default-scheduler"])


def keep(*names: str, **reasons: dict[str, str]) -> Callable[[Sequence[NodeInfo]], ExtenderFilterResult]:
    return lambda nodes: ExtenderFilterResult([info for info in nodes if info.name in names], **reasons)


NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        pytest.param({"failed": {"z": "ghost"}}, "1 ghost", id="a name that no node has is counted"),
        pytest.param({"failed": {"a": ""}}, "1 ", id="an empty text is a reason, too"),
        pytest.param(
            {"failed": {"a": "x", "b": "x"}, "failed_and_unresolvable": {"b": "y"}}, "1 x, 1 y", id="both maps"
        ),
    ],
)
def test_reasons(reasons: dict[str, Any], said: str) -> None:
    decision = decide([Fake(on_filter=keep(**reasons))])
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith(f"0/3 nodes are available: {said}. ")
    assert decision.unschedulable_plugins == {"Extender"}


def test_a_reason_for_a_node_that_a_plugin_had_refused_replaces_the_plugins() -> None:
    fake = Fake(on_filter=keep(failed={"a": "taken over"}))
    decision = decide([fake], node("a", unschedulable=True), node("b"))
    assert fake.offered == [["b"]]
    assert decision.message.startswith("0/2 nodes are available: 1 taken over. ")
    assert decision.unschedulable_plugins == {"NodeUnschedulable", "Extender"}


def test_nodes_dropped_silently_count_as_not_looked_at_where_a_pre_filter_had_narrowed_the_search() -> None:
    decision = decide([Fake(on_filter=keep())], given=pod(affinity=only({"a"})))
    assert decision.message.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. ")


def test_an_extender_that_is_not_interested_is_left_out() -> None:
    fake = Fake(on_filter=keep(), on_prioritize=lambda nodes: [("a", 10)], interested=False)
    decision = decide([fake])
    assert decision.outcome is Outcome.SCHEDULED and not fake.offered and not fake.scored
    assert decision.extender_scores == {}


@pytest.mark.parametrize("pick", [0, 1, 2])
def test_ties_among_mentioned_nodes_are_broken_at_random(pick: int) -> None:
    fake = Fake(on_prioritize=lambda nodes: [("b", 0), ("c", 0)])
    decision = decide([fake], pick=lambda n: pick % n)
    assert decision.node == ["b", "c", "b"][pick], "a has the same total, but the extender did not name it"


def test_without_any_extender_score_ties_are_broken_as_without_extenders() -> None:
    fake = Fake(on_prioritize=lambda nodes: ExtenderError("no"))
    assert decide([fake], pick=lambda n: n - 1).node == decide([]).node == "a"


def test_scores_are_weighted_tenfold_added_up_and_not_limited() -> None:
    heavy = Fake("heavy", on_prioritize=lambda nodes: [("a", 1), ("b", 2), ("b", 1)], weight=5)
    light = Fake("light", on_prioritize=lambda nodes: [("a", -3), ("z", 9)], weight=1)
    decision = decide([heavy, light])
    plain = decide([])
    assert decision.scores is not None and plain.scores is not None
    added = {k: v - plain.scores.totals_dict()[k] for k, v in decision.scores.totals_dict().items()}
    assert added == {"a": 20, "b": 150, "c": 0}
    assert decision.extender_scores == {"a": {"heavy": [1], "light": [-3]}, "b": {"heavy": [2, 1]}, "z": {"light": [9]}}


def test_scores_beyond_64_bits_go_round() -> None:
    decision = decide([Fake(on_prioritize=lambda nodes: [("a", 2**62)])])
    assert decision.outcome is Outcome.SCHEDULED and decision.scores is not None
    assert decision.scores.totals.dtype == np.int64


def test_the_promised_node_is_shown_to_extenders_alone_and_lost_if_they_refuse_it() -> None:
    fake = Fake(on_filter=keep("a"))
    promised = pod(status={"nominatedNodeName": "a"})
    assert decide([fake], given=promised).node == "a"
    assert fake.offered == [["a"]]
    fake = Fake(on_filter=keep("c"))
    assert decide([fake], given=promised).node == "c"
    assert fake.offered == [["a"], ["a", "b", "c"]]


def test_an_error_about_the_promised_node_is_passed_over_but_not_one_about_all() -> None:
    answers = iter([ExtenderError("once"), ExtenderError("twice")])

    def fail(nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        raise next(answers)

    decision = decide([Fake(on_filter=fail)], given=pod(status={"nominatedNodeName": "a"}))
    assert (decision.outcome, decision.message) == (Outcome.ERROR, "twice")
    assert decision.nominated_node == ""


def whole(*nodes: Node) -> Callable[[Sequence[NodeInfo]], ExtenderFilterResult]:
    def answer(offered: Sequence[NodeInfo]) -> ExtenderFilterResult:
        rows = {info.name: info.row for info in offered}
        return ExtenderFilterResult([AnsweredNode.of(n, b"{}", rows.get(n.metadata.name, -1)) for n in nodes])

    return answer


def test_a_node_that_comes_back_changed_is_scored_as_it_came_back() -> None:
    smaller = node("a", allocatable={"cpu": "1", "memory": "1Gi"})
    tainted = node("b", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    decision = decide([Fake(on_filter=whole(smaller, tainted, node("c")))])
    assert decision.scores is not None
    scores = decision.scores.to_dict()
    assert scores["a"]["NodeResourcesFit"] < scores["c"]["NodeResourcesFit"]
    assert scores["b"]["TaintToleration"] == 0 < scores["c"]["TaintToleration"]
    assert decision.node == "c"


def test_labels_that_come_back_changed_count_for_affinity_and_spread() -> None:
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "new", "operator": "In", "values": ["v"]}]}}
            ]
        }
    }
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
    fake = Fake(on_filter=whole(node("a"), node("b", labels={"new": "v", "zone": "far"})))
    decision = decide([fake], given=pod(affinity=affinity, topologySpreadConstraints=spread))
    assert decision.outcome is Outcome.SCHEDULED and decision.scores is not None, decision.message
    assert decision.scores.to_dict()["b"]["NodeAffinity"] == 200 > decision.scores.to_dict()["a"]["NodeAffinity"]


def test_an_unknown_node_is_accepted_if_returned_whole() -> None:
    assert decide([Fake(on_filter=whole(node("stranger")))]).node == "stranger"
    decision = decide([Fake(on_filter=whole(node("stranger", allocatable={"cpu": "64"}), node("a")))])
    assert decision.scores is not None and set(decision.scores.totals_dict()) == {"stranger", "a"}


def test_without_score_plugins_one_node_is_enough_unless_extenders_choose() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    config = {
        "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}}}]
    }
    binder = Fake(is_binder=True)
    assert decide([binder], *nodes, config=config).feasible_nodes == 1
    chooser = Fake(on_prioritize=lambda infos: [("n3", 1)])
    decision = decide([chooser], *nodes, config=config)
    assert (decision.feasible_nodes, decision.node) == (5, "n3")
    assert decision.scores is not None and decision.scores.totals_dict()["n0"] == 0


def test_equal_pods_are_not_batched_with_extenders() -> None:
    fake = Fake(on_filter=lambda nodes: ExtenderFilterResult(list(nodes)))
    cluster = ClusterState()
    for name in "abc":
        cluster.put(node(name))
    session = open_session(config_from_dict(None), cluster, extenders=[fake])  # type: ignore[list-item]
    for _ in range(3):
        decision = session.engine.decide(cluster.info(pod()), session.profiles["default-scheduler"])
        assert not decision.from_hint
    assert len(fake.offered) == 3 == len(fake.scored)


def test_resources_that_extenders_answer_for_replace_those_that_fit_ignores() -> None:
    requests = [
        {"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "1", "example.com/fpga": "1"}}}
    ]
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/fpga"]}}
    managed = {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    config = {
        "profiles": [{"pluginConfig": [fit]}],
        "extenders": [{"urlPrefix": "http://x", "filterVerb": "f", **managed}],
    }
    decision = decide([], given=pod(containers=requests), config=config)
    assert decision.message.startswith("0/3 nodes are available: 3 Insufficient example.com/fpga. ")


names = st.sampled_from([f"n{i}" for i in range(6)])
reasons = st.dictionaries(names, st.sampled_from(["x", "y", ""]), max_size=4)


@given(
    present=st.sets(names, min_size=1, max_size=4),
    cordoned=st.sets(names),
    narrowed=st.none() | st.sets(names, min_size=1, max_size=3),
    answers=st.lists(st.tuples(reasons, reasons), min_size=1, max_size=2),
)
def test_messages_are_those_of_a_plain_map_from_node_to_status(
    present: set[str],
    cordoned: set[str],
    narrowed: set[str] | None,
    answers: list[tuple[dict[str, str], dict[str, str]]],
) -> None:
    """The columns with what extenders said on top against upstream's way: one map, and one status for the rest."""
    looked_at = sorted(present if narrowed is None else present & narrowed)
    statuses = {name: (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, CORDONED) for name in looked_at if name in cordoned}
    feasible = [name for name in looked_at if name not in cordoned]
    fakes = []
    for i, (failed, for_good) in enumerate(answers):
        is_last = i == len(answers) - 1
        kept: list[str] = [] if is_last else feasible
        fakes.append(Fake(on_filter=keep(*kept, failed=failed, failed_and_unresolvable=for_good)))
        if feasible:
            statuses |= {name: (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text) for name, text in for_good.items()}
            statuses |= {name: (Code.UNSCHEDULABLE, text) for name, text in failed.items() if name not in for_good}
    counts = Counter(text for _, text in statuses.values())
    if narrowed is not None and len(statuses) < len(present):
        counts["node(s) didn't satisfy plugin(s) [NodeAffinity]"] += len(present) - len(statuses)
    entries = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    want = f"0/{len(present)} nodes are available:" + (f" {entries}." if entries else "")

    nodes = [node(name, unschedulable=name in cordoned) for name in sorted(present)]
    config = {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}
    decision = decide(fakes, *nodes, given=pod(affinity=only(narrowed)) if narrowed else None, config=config)
    assert decision.message == want
    assert decision.statuses is not None
    for name in present:
        code = statuses[name][0] if name in statuses else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if feasible:
            assert decision.statuses.get(name).code is code
            row = decision.statuses._table.nodes[name].row
            assert (row in decision.statuses.rows_with(Code.UNSCHEDULABLE)) == (code is Code.UNSCHEDULABLE)
    found = decision.statuses
    assert found.count_with(Code.UNSCHEDULABLE) == len(found.rows_with(Code.UNSCHEDULABLE))


CORDONED = "node(s) were unschedulable"


def only(names: set[str]) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in sorted(names)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
