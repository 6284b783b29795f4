"""The session: put, decide, commit, undo and fork, by one rule for everybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring import sdk
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.config.load import config_from_dict, default_config
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.handle import Nominations
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.testing import bound, make_cluster, make_node, make_object, make_pod

LOCAL = make_object(
    "StorageClass", "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
)


def volume(name: str, node: str) -> Object:
    return make_object("PersistentVolume", name, spec=spec_of_volume(node), status={"phase": "Available"})


def spec_of_volume(node: str) -> dict[str, Any]:
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
    }


def claim(name: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return make_object("PersistentVolumeClaim", name, "default", spec=spec)


def using(name: str, **more: Any) -> Pod:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return make_pod(f"uses-{name}", spec={"volumes": volumes}, **more)


def session_of(*objects: Object, config: Any = None, **more: Any) -> Session:
    session = open_session(config_from_dict(config), make_cluster(), **more)
    for obj in objects:
        session.put(obj)
    return session


def contents(session: Session) -> dict[str, Any]:
    """What a commit may touch, as plain values."""
    state = session.state
    nodes, objects = state.nodes(), state.objects
    return {
        "nodes": [info.name for info in nodes.infos],
        "requested": nodes.requested_of(("cpu", "memory")).tolist(),
        "pods": {pod.uid: pod.pod.spec.node_name for pod in state.pods()},
        "assumed": [pod.uid for pod in state.assumed()],
        "claim users": dict(state.claim_users),
        "nominations": {
            name: sorted(pod.uid for pod in session.nominations.nominated_pods(name))
            for name in session.nominations.nominated_nodes()
        },
        "claims": {each.key: (each.spec, each.metadata.annotations) for each in objects.all(PersistentVolumeClaim)},
        "volumes": {each.key: (each.spec, each.status) for each in objects.all(PersistentVolume)},
        "budgets": {each.key: each.status.disruptions_allowed for each in objects.all(PodDisruptionBudget)},
    }


# ---- which profile answers ------------------------------------------------------------------------------------------

TWO = {"profiles": [{"schedulerName": "first"}, {"schedulerName": "second"}]}


@pytest.mark.parametrize(
    ("name", "takes_all", "want"),
    [
        pytest.param("second", False, "second", id="the one that the pod asks for"),
        pytest.param("second", True, "second", id="the one that the pod asks for, whatever else is taken"),
        pytest.param("volcano", True, "first", id="the first one for a scheduler that has none"),
        pytest.param("volcano", False, None, id="none, where every scheduler is to have one"),
    ],
)
def test_which_profile_answers(name: str, takes_all: bool, want: str | None) -> None:
    session, pod = session_of(config=TWO, takes_all=takes_all), make_pod("p", spec={"schedulerName": name})
    if want is None:
        with pytest.raises(InputError, match="no profile for 'volcano'; the configuration has first, second"):
            session.decide(pod)
    else:
        assert session.profile_for(pod).scheduler_name == want
    assert session.fork().profile_for(pod).scheduler_name == (want or "first"), "a fork takes all"


# ---- putting and removing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(make_pod("p", status={"nominatedNodeName": "a"}), "a", id="as its status says"),
        pytest.param(make_pod("p"), None, id="not at all"),
        pytest.param(make_pod("p", node="a", status={"nominatedNodeName": "a"}), None, id="not where it runs"),
        pytest.param(
            make_pod("p", status={"nominatedNodeName": "a", "phase": "Failed"}), None, id="not when it has finished"
        ),
    ],
)
def test_a_pod_that_is_put_is_nominated(pod: Pod, want: str | None) -> None:
    session = session_of(make_node("a"), pod)
    assert session.nominations.node_of(pod.uid) == want
    session.remove(pod)
    session.remove(pod)
    assert session.nominations.node_of(pod.uid) is None and session.state.pod(pod.uid) is None


def test_objects_are_put_and_removed() -> None:
    node, budget = make_node("a"), make_object("PodDisruptionBudget", "b", "default")
    session = session_of(node, budget)
    assert session.decide(make_pod("p")).node == "a"
    for _ in range(2):
        session.remove(node)
        session.remove(budget)
    assert session.decide(make_pod("p")).message == "no nodes available to schedule pods"
    assert not list(session.state.objects.all(PodDisruptionBudget))


# ---- committing -----------------------------------------------------------------------------------------------------


class Refuses(sdk.NodeFilter):
    """Reserve says no, or breaks, after the filter has said yes."""

    name = "Refuses"
    answer: Any = None

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.SUCCESS

    def reserve(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> sdk.Status:
        assert pod.spec.node_name == node_name, "it gets the pod as it is assumed"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def unreserve(self, state: sdk.CycleState, pod: sdk.Pod, node_name: str) -> None: ...


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        pytest.param(
            sdk.unschedulable("the last one is gone"),
            Outcome.UNSCHEDULABLE,
            "0/1 nodes are available: 1 the last one is gone.",
            id="a refusal, in the live scheduler's words",
        ),
        pytest.param(
            ValueError("odd"), Outcome.ERROR, 'running Reserve plugin "Refuses": ValueError: odd', id="what is raised"
        ),
    ],
)
def test_what_reserve_refuses_is_not_counted_in(
    answer: Any, outcome: Outcome, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refuses, "answer", answer)
    registry = in_tree_registry()
    registry.register(Refuses)
    config = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Refuses"}]}}}]}
    pod = make_pod("p", cpu="1", status={"nominatedNodeName": "a"})
    session = session_of(make_node("a"), pod, config=config, registry=registry)
    before = contents(session)
    decision = session.commit(session.decide(make_pod("p", cpu="1")))
    assert (decision.outcome, decision.node) == (outcome, None)
    assert decision.message.startswith(message)
    assert contents(session) == before


def test_a_pod_is_counted_in_once() -> None:
    session = session_of(make_node("a"))
    decision = session.decide(make_pod("p"))
    session.commit(decision)
    again = session.commit(decision)
    assert (again.outcome, again.message) == (Outcome.ERROR, "pod default/p is already counted on a")
    assert session.state.pod(decision.pod.uid) is not None, "the first time counts"


def test_a_claim_is_bound_for_later_decisions_and_free_after_undo() -> None:
    objects = [make_node("a"), make_node("b"), LOCAL, volume("only", "b"), claim("one"), claim("two")]
    session = session_of(*objects)
    before = contents(session)
    decision = session.place(session.info(using("one")))
    assert decision.node == "b"
    held = session.state.objects.get(PersistentVolumeClaim, "default/one")
    assert held is not None and held.spec.volume_name == "only"
    for other in (session, session.fork()):
        assert "didn't find available persistent volumes" in other.decide(using("two")).message
    session.undo(decision)
    assert contents(session) == before
    assert session.decide(using("two")).node == "b"


def test_later_changes_survive_an_undo() -> None:
    session = session_of(make_node("a"), LOCAL, volume("v", "a"), claim("one"))
    decision = session.place(session.info(using("one")))
    session.state.objects.remove(PersistentVolumeClaim, "default/one")
    session.undo(decision)
    assert session.state.objects.get(PersistentVolumeClaim, "default/one") is None


def test_victims_go_and_their_budgets_allow_one_less() -> None:
    ready = [{"type": "Ready", "status": "True"}]
    victim = make_pod("v", node="a", cpu="3", labels={"app": "v"}, status={"phase": "Running", "conditions": ready})
    selector = {"selector": {"matchLabels": {"app": "v"}}}
    budget = make_object("PodDisruptionBudget", "pdb", "default", spec=selector, status={"disruptionsAllowed": 0})
    session = session_of(make_node("a", cpu="4"), victim, budget)
    pod = session.info(make_pod("p", cpu="2", priority=5))
    assert session.place(pod).node is None and session.state.pod(victim.uid) is not None
    decision = session.place(pod, preempt=True)
    assert (decision.node, [each.uid for each in decision.victims]) == ("a", [victim.uid])
    assert session.broken_budgets == {"default/pdb"} and session.state.pod(victim.uid) is None


def test_a_pod_that_is_held_back_is_not_tried() -> None:
    session = session_of(make_node("a"))
    decision = session.place(session.info(make_pod("p", spec={"schedulingGates": [{"name": "wait"}]})))
    assert (decision.outcome, decision.node, session.state.num_pods) == (Outcome.GATED, None, 0)


# ---- anything that may happen ---------------------------------------------------------------------------------------

NODES = [make_node(name, cpu="4", zone=f"z{name}") for name in "abc"]
KINDS: list[dict[str, Any]] = [
    {"cpu": "1"},
    {"cpu": "2", "labels": {"app": "web"}, "status": {"nominatedNodeName": "b"}},
    {"host_ports": [80]},
    {"cpu": "3", "priority": 5},
    {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}},
    {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "two"}}]}, "cpu": "2"},
]
PODS = [make_pod(f"p{i}", **kind) for i, kind in enumerate(KINDS)]
ORDER = st.permutations(range(len(PODS)))


def full_session() -> Session:
    volumes = [volume("first", "a"), volume("second", "c")]
    return session_of(*NODES, LOCAL, *volumes, claim("one"), claim("two"), *PODS)


def told(decision: ScheduleResult) -> Any:
    totals = None if decision.scores is None else decision.scores.totals_dict()
    return decision.outcome, decision.node, decision.message, totals, decision.nominated_node


def commit_all(session: Session, order: list[int]) -> list[ScheduleResult]:
    decisions = [session.place(session.info(PODS[i])) for i in order]
    return [decision for decision in decisions if decision.node is not None]


@settings(max_examples=60, deadline=None)
@given(ORDER, st.integers(0, len(PODS)), st.integers(0, len(PODS)))
def test_what_is_committed_and_undone_leaves_no_trace(order: list[int], first: int, then: int) -> None:
    session = full_session()
    commit_all(session, order[:first])
    before, decided = contents(session), [told(session.decide(pod)) for pod in PODS]
    for decision in reversed(commit_all(session, order[first:][:then])):
        session.undo(decision)
    assert contents(session) == before
    assert [told(session.decide(pod)) for pod in PODS] == decided


@settings(max_examples=60, deadline=None)
@given(ORDER, st.integers(0, len(PODS)))
def test_a_fork_never_changes_its_parent(order: list[int], first: int) -> None:
    parent = full_session()
    commit_all(parent, order[:first])
    before, decided = contents(parent), [told(parent.decide(pod)) for pod in PODS]
    fork = parent.fork()
    for decision in commit_all(fork, order[first:])[::2]:
        fork.undo(decision)
    for pod in PODS:
        fork.remove(pod)
    assert contents(parent) == before
    assert [told(parent.decide(pod)) for pod in PODS] == decided


@settings(max_examples=60, deadline=None)
@given(ORDER, st.integers(0, len(PODS)))
def test_a_fork_after_a_commit_decides_as_a_cluster_where_the_pods_run(order: list[int], first: int) -> None:
    session = full_session()
    placed = {each.pod.pod.name: each.node or "" for each in commit_all(session, order[:first])}
    state = ClusterState()
    for obj in (*NODES, *session.state.objects, *(bound(pod, placed[pod.name]) for pod in PODS if pod.name in placed)):
        state.put(obj)
    nominations = Nominations()
    waits = [pod for pod in PODS if pod.name not in placed and pod.status.nominated_node_name]
    for pod in waits:
        nominations.nominate(state.info(pod), pod.status.nominated_node_name)
    really = open_session(default_config(), state, nominator=nominations)
    fork = session.fork()
    new = [make_pod(f"new-{i}", **kind) for i, kind in enumerate(KINDS)]
    assert [told(fork.decide(pod)) for pod in new] == [told(really.decide(pod)) for pod in new]
