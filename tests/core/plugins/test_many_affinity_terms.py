"""A pod with thousands of anti-affinity terms costs its own attempt little, also where it may preempt."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.config.types import NodeAffinityArgs
from mooring.core.framework.cluster_event import Hint
from mooring.core.plugins.node_affinity import NodeAffinity
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_selector import CompiledTerm, node_requirements
from mooring.core.state.pod_info import AffinityTerm
from mooring.testing import Scheduler, make_cluster, make_handle, make_node, make_pod

NODES, TERMS, PODS_PER_NODE = 30, 200, 3
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _avoiding(number: int) -> Any:
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"app-{i}"}}}
        for i in range(number)
    ]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a term was compared with a pod."""
    count = [0]
    original = AffinityTerm.matches

    def matches(self: AffinityTerm, *arguments: Any) -> bool:
        count[0] += 1
        return original(self, *arguments)

    monkeypatch.setattr(AffinityTerm, "matches", matches)
    return count


def test_terms_are_compared_with_kinds_of_pods_not_with_every_pod_of_every_dry_run(comparisons: list[int]) -> None:
    nodes = [make_node(f"n{i}", cpu=4) for i in range(NODES)]
    running = [
        make_pod(f"p{i}-{k}", node=f"n{i}", cpu="1", labels={"app": f"app-{k}"})
        for i in range(NODES)
        for k in range(PODS_PER_NODE)
    ]
    scheduler = Scheduler(*nodes, *running)
    pod = make_pod("high", cpu="4", priority=1000, labels={"app": "high"}, spec=_avoiding(TERMS))
    decision = scheduler.decide(pod)
    assert decision.nominated_node and len(decision.victims) == PODS_PER_NODE
    kinds = PODS_PER_NODE
    # Each term with each kind of pod once for the counts, once for the dry runs, and a few times for the pod itself.
    assert comparisons[0] <= 4 * TERMS * (kinds + 1)


KINDS = ("podAntiAffinity", "podAffinity")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", [REQUIRED, PREFERRED])
def test_terms_that_match_most_pods_are_compared_with_all_kinds_together(
    comparisons: list[int], kind: str, rule: str
) -> None:
    terms: list[dict[str, Any]] = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"other-{i}"]}]},
        }
        for i in range(TERMS)
    ]
    if rule == PREFERRED:
        terms = [{"weight": 1 + i % 100, "podAffinityTerm": term} for i, term in enumerate(terms)]
    running = [make_pod(f"p{i}", node=f"n{i % NODES}", labels={"app": f"app-{i}"}) for i in range(10 * NODES)]
    scheduler = Scheduler(*(make_node(f"n{i}", cpu=400) for i in range(NODES)), *running)
    pod = make_pod("high", cpu="1", priority=1000, labels={"app": "high"}, spec={"affinity": {kind: {rule: terms}}})
    decision = scheduler.decide(pod)
    if (kind, rule) == (KINDS[0], REQUIRED):
        assert decision.nominated_node and len(decision.victims) == len(running) // NODES
    else:
        assert decision.node
    assert comparisons[0] <= 4 * TERMS, "not each term with each of 300 kinds of pods"


def _hostile(kind: str) -> Any:
    """A pod that names a topology key of its own in each of many terms or constraints; no node has one of them."""
    if kind == "spread":
        rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "high"}}}
        return {"topologySpreadConstraints": [{**rule, "topologyKey": f"key-{i}"} for i in range(TERMS)]}
    terms = [{"topologyKey": f"key-{i}", "labelSelector": {"matchLabels": {"app": "low"}}} for i in range(TERMS)]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


@pytest.mark.parametrize("kind", ["spread", "anti-affinity"])
def test_keys_that_no_node_has_cost_no_dry_run_anything(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    label = NodeRows.label
    monkeypatch.setattr(NodeRows, "label", lambda rows, key: asked.append(key) or label(rows, key))
    running = [make_pod(f"p{i}", node=f"n{i}", cpu="4", labels={"app": "low"}) for i in range(NODES)]
    scheduler = Scheduler(*(make_node(f"n{i}", cpu=4) for i in range(NODES)), *running)
    decision = scheduler.decide(make_pod("high", cpu="4", priority=1000, labels={"app": "high"}, spec=_hostile(kind)))
    assert bool(decision.nominated_node) == (kind == "anti-affinity"), "every node lacks the labels to spread over"
    assert len(asked) <= 4 * (TERMS + 4 * NODES), "not every key for every node"


def test_a_node_selector_with_many_terms_is_compiled_once_and_asked_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CompiledTerm] = []
    matches = CompiledTerm.matches
    monkeypatch.setattr(CompiledTerm, "matches", lambda term, *of: asked.append(term) or matches(term, *of))
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [f"v{i}"]}]} for i in range(TERMS)]
    pod = make_pod("picky", spec={"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
    cluster = make_cluster()
    (registered,) = NodeAffinity(NodeAffinityArgs(), make_handle(cluster)).events_to_register()
    assert registered.hint is not None
    known = cluster.info(pod)  # as the queue holds it
    for _ in range(2):
        assert registered.hint(pod, None, make_node("n", labels={"disk": "other"})) is Hint.SKIP
        assert registered.hint(pod, None, make_node("n", labels={"disk": "v7"})) is Hint.QUEUE
    assert len(asked) <= 4 and node_requirements(known.shape) is node_requirements(cluster.info(pod).shape)
