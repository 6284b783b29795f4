"""Generated clusters: the same for the same numbers, and each workload asks for what its name says."""

from __future__ import annotations

from itertools import islice

import pytest

from mooring.api.core import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.bench.clusters import (
    HOSTNAME,
    TEMPLATES,
    ZONE,
    add_bound_claim,
    add_csi_nodes,
    fill_with_unimportant,
    make_cluster,
    make_node,
    pods_of,
)
from mooring.bench.decisions import measure, measure_state
from mooring.core.config.load import default_config
from mooring.core.engine.decision import Outcome
from mooring.core.session import open_session


def first(workload: str, count: int = 1, *, alike: bool = True) -> list[Pod]:
    return list(islice(pods_of(workload, alike=alike), count))


def test_nodes_are_spread_over_zones_and_one_in_fifty_is_reserved() -> None:
    nodes = [make_node(i) for i in range(100)]
    assert len({node.name for node in nodes}) == len({node.metadata.labels[HOSTNAME] for node in nodes}) == 100
    assert len({node.metadata.labels[ZONE] for node in nodes}) == 10
    assert [i for i, node in enumerate(nodes) if node.spec.taints] == [49, 99]


def test_a_cluster_has_its_pods_evenly_over_its_nodes() -> None:
    cluster = make_cluster(4, running=10)
    counts = [len(info.pods) for info in cluster.table.nodes.values()]
    assert sorted(counts) == [2, 2, 3, 3]
    assert len({info.pod.metadata.labels["app"] for info in cluster.pods()}) == 10


@pytest.mark.parametrize("workload", TEMPLATES)
def test_a_workload_is_the_same_each_time(workload: str) -> None:
    assert first(workload, 7) == first(workload, 7)
    assert len({pod.metadata.uid for pod in first(workload, 7)}) == 7


@pytest.mark.parametrize("workload", [name for name in TEMPLATES if name != "preemption"])
def test_pods_that_are_not_alike_share_no_request(workload: str) -> None:
    requests = [tuple(pod.spec.containers[0].resources.requests.items()) for pod in first(workload, 1200, alike=False)]
    assert len(set(requests)) == 1200


def test_each_workload_asks_for_what_its_name_says() -> None:
    (spread,), (affinity,), (anti,) = first("spread"), first("affinity"), first("anti-affinity")
    assert [each.topology_key for each in spread.spec.topology_spread_constraints] == [ZONE, HOSTNAME]
    assert affinity.spec.affinity is not None and affinity.spec.affinity.pod_affinity is not None
    assert anti.spec.affinity is not None and anti.spec.affinity.pod_anti_affinity is not None
    assert first("preemption")[0].spec.priority == 1000
    assert first("volumes")[0].spec.volumes[0].persistent_volume_claim is not None
    kinds = {pod.metadata.labels["app"] for pod in first("mixed", 10)}
    assert len(kinds) == 5


def test_a_filled_cluster_has_room_only_by_preemption() -> None:
    cluster = make_cluster(3)
    fill_with_unimportant(cluster, 3)
    session = open_session(default_config(), cluster)
    decision = session.engine.decide(cluster.info(first("preemption")[0]), session.profiles["default-scheduler"])
    assert decision.outcome is Outcome.UNSCHEDULABLE and len(decision.victims) == 1


def test_a_claim_and_its_volume_know_each_other() -> None:
    cluster = make_cluster(1)
    add_csi_nodes(cluster, 1)
    add_bound_claim(cluster, 0)
    claim = cluster.objects.get(PersistentVolumeClaim, "default/claim-0")
    volume = cluster.objects.get(PersistentVolume, "pv-0")
    assert claim is not None and volume is not None and volume.spec.claim_ref is not None
    assert (claim.spec.volume_name, volume.spec.claim_ref.uid) == ("pv-0", claim.uid)


def test_a_measurement_counts_what_it_placed_and_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    result = measure("plain", 5, 250, running=10, progress=lambda done, total: told.append((done, total)))
    assert (result.workload, result.nodes, result.running_pods, result.pods, result.placed) == (
        "plain",
        5,
        10,
        250,
        250,
    )
    assert 0 < result.median_us <= result.p99_us
    assert result.cpu_s_per_1000 > 0 and result.peak_mib > 0
    assert [done for done, _ in told] == [99, 199] and {total for _, total in told} == {250}


def test_pods_that_fit_nowhere_are_not_counted_as_placed() -> None:
    assert measure("anti-affinity", 2, 5).placed < 5


def test_the_memory_of_a_cluster_is_measured() -> None:
    found = measure_state(10, 50)
    assert (found["nodes"], found["running_pods"]) == (10, 50)
    assert found["build_cpu_s"] >= 0
