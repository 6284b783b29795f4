"""Where pods of groups run, nodes without any are tried together. That changes no decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37
from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.dry_run import DryRun
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_node, make_object, make_pod, make_pod_group

NODES = 4
MILLIS = {"500m": 500, "1": 1000, "2": 2000}


def built_on(cluster: ClusterState) -> Session:
    features = Features(V1_37, GenericWorkload=True)
    return open_session(config_from_dict(None, features), cluster, features=features)


def decide(session: Session, cluster: ClusterState, pod: Pod) -> ScheduleResult:
    return session.engine.decide(cluster.info(pod), session.profiles["default-scheduler"])


def told(decision: ScheduleResult) -> tuple[Any, ...]:
    victims = [victim.pod.name for victim in decision.victims]
    return decision.node, decision.nominated_node, victims, decision.pdb_violations, decision.post_filter_message


RUNNING = st.tuples(
    st.integers(0, NODES - 1),  # its node
    st.sampled_from(sorted(MILLIS)),
    st.sampled_from([0, 5, 20]),  # priority
    st.sampled_from(["", "", "", "as-one", "single", "unknown"]),  # its group
    st.sampled_from([None, "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]),  # when it started
    st.sampled_from(["x", "y"]),
)
WANTING = st.tuples(st.sampled_from(["1", "3", "4"]), st.sampled_from([10, 30]), st.booleans())


def cluster_of(running: list[tuple[int, str, int, str, str | None, str]], allowed: int | None) -> ClusterState:
    cluster = ClusterState()
    for i in range(NODES):
        cluster.put(make_node(f"n{i}", cpu="4", labels={"kubernetes.io/hostname": f"n{i}"}))
    cluster.put(make_pod_group("as-one", priority=5, evicted_as_one=True))
    cluster.put(make_pod_group("single", priority=15))
    if allowed is not None:
        spec = {"selector": {"matchLabels": {"app": "x"}}}
        budget = make_object("PodDisruptionBudget", "x", "default", spec=spec, status={"disruptionsAllowed": allowed})
        cluster.put(budget)
    for i, (node, cpu, priority, group, started, app) in enumerate(running):
        status = {"startTime": started} if started else {}
        labels = {"app": app}
        pod = make_pod(f"p{i}", node=f"n{node}", cpu=cpu, priority=priority, group=group, labels=labels, status=status)
        cluster.put(pod)
    for node in range(NODES):  # the free resources are taken by pods of high priority
        free = 4000 - sum(MILLIS[cpu] for where, cpu, *_ in running if where == node)
        if free > 0:
            cluster.put(make_pod(f"full{node}", node=f"n{node}", cpu=f"{free}m", priority=100))
    return cluster


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@settings(max_examples=150, deadline=None)
@given(st.lists(RUNNING, max_size=16), st.lists(WANTING, min_size=1, max_size=4), st.sampled_from([None, 0, 1]))
@example([*[(0, "1", 0, "", None, "x")] * 4, (1, "1", 20, "single", None, "y")], [("1", 10, False)], None)
def test_decisions_are_those_of_trying_each_node_by_itself(
    running: list[tuple[int, str, int, str, str | None, str]],
    wanting: list[tuple[str, int, bool]],
    allowed: int | None,
) -> None:
    cluster = cluster_of(running, allowed)
    together, alone = built_on(cluster), built_on(cluster)
    for i, (cpu, priority, is_apart) in enumerate(wanting):
        pod = make_pod(f"w{i}", cpu=cpu, priority=priority, spec=apart("x") if is_apart else {})
        found = told(decide(together, cluster, pod))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DryRun, "_has_groups", np.ones(NODES, np.bool_))
            assert told(decide(alone, cluster, pod)) == found


def test_only_nodes_with_groups_are_tried_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the comparison above would compare nothing."""
    cluster = cluster_of([(row, "1", 0, "single" if row == 2 else "", None, "x") for row in range(NODES)], None)
    tried: list[int] = []
    original = DryRun._try_units

    def note(self: DryRun, row: int) -> None:
        tried.append(row)
        original(self, row)

    monkeypatch.setattr(DryRun, "_try_units", note)
    decision = decide(built_on(cluster), cluster, make_pod("w", cpu="2", priority=10))
    assert decision.post_filter_message.endswith("1 No preemption victims found for incoming pod, 3 Insufficient cpu.")
    assert tried == [2]
