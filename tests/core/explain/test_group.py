"""Pod groups explained: one sentence that says what is missing, and nothing that would harm the group itself."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37
from mooring.core.explain.why import draw_group, explain_group
from mooring.core.session import open_session
from mooring.testing import bound, make_cluster, make_node, make_pod, make_pod_group

GPU = "nvidia.com/gpu"


def explained(nodes, group, pods, *running, **gates):
    features = Features(V1_37, GenericWorkload=True, **gates)
    cluster = make_cluster(*nodes, *running)
    cluster.put(group)
    for pod in pods:
        cluster.note_member(pod)
    return explain_group(open_session(config_from_dict(None, features), cluster, features=features), group, pods)


def gpu_nodes(count):
    return [make_node(f"n{i}", cpu="64", memory="64Gi", allocatable={GPU: "8"}) for i in range(count)]


def workers(count, **fields):
    return [make_pod(f"w{i}", group="train", **fields) for i in range(count)]


@pytest.mark.parametrize(
    ("nodes", "gang", "pods", "want"),
    [
        pytest.param(
            gpu_nodes(3),
            8,
            workers(8, requests={GPU: 8}),
            "3 of 8 pods of group train fit; 5 more need 8 nvidia.com/gpu each",
            id="what is missing, for each",
        ),
        pytest.param(
            gpu_nodes(7),
            8,
            workers(8, requests={GPU: 8}),
            "7 of 8 pods of group train fit; 1 more needs 8 nvidia.com/gpu",
            id="for one",
        ),
        pytest.param(gpu_nodes(1), 2, workers(2, cpu="1"), "all 2 pods of group train fit", id="all fit"),
        pytest.param(
            gpu_nodes(1),
            1,
            workers(2, requests={GPU: 8}),
            "1 of 2 pods of group train fit (1 are enough); 1 more needs 8 nvidia.com/gpu",
            id="enough fit",
        ),
        pytest.param(
            gpu_nodes(1),
            2,
            workers(2, spec={"nodeSelector": {"disk": "ssd"}}),
            "0 of 2 pods of group train fit; 2 more find no node",
            id="it is not about resources",
        ),
        pytest.param(
            gpu_nodes(1),
            4,
            workers(3, cpu="1"),
            "group train is held back: 3 of the 4 pods are there",
            id="too few pods",
        ),
    ],
)
def test_the_sentence(nodes, gang, pods, want):
    assert explained(nodes, make_pod_group("train", gang=gang), pods).headline == want


def test_pods_that_run_already_count():
    running = bound(make_pod("old", group="train", cpu="1"), "n0")
    found = explained(gpu_nodes(1), make_pod_group("train", gang=2), workers(1, cpu="1"), running)
    assert (found.headline, found.is_scheduled) == ("all 2 pods of group train fit", True)


def test_a_group_is_not_advised_to_evict_itself():
    found = explained(gpu_nodes(2), make_pod_group("train", gang=3), workers(3, requests={GPU: 8}))
    assert found.rest is not None and any("default/w0" in each.text for each in found.rest.suggestions)
    assert found.suggestions and not any("default/w" in each.text for each in found.suggestions)


def test_what_is_printed():
    found = explained(gpu_nodes(1), make_pod_group("train", gang=2), workers(2, requests={GPU: 8}))
    page = io.StringIO()
    draw_group(Console(file=page, width=200), found)
    lines = [line.rstrip() for line in page.getvalue().splitlines()]
    assert lines[0] == "1 of 2 pods of group train fit; 1 more needs 8 nvidia.com/gpu"
    assert lines[1].startswith("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")
    assert lines[3].split() == ["POD", "WOULD", "FIT", "ON", "WHY", "NOT"]
    assert lines[4].split() == ["default/w0", "n0"]
    assert lines[5].endswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_a_group_without_pods():
    found = explained(gpu_nodes(1), make_pod_group("train", gang=2), [])
    assert found.message == "the group has no pods"
    assert found.to_dict()["outcome"] == "held"


# ---- what would let the whole group run ------------------------------------------------------------------------------


def remedies(*args, **gates):
    return [each.text for each in explained(*args, **gates).remedies]


def test_a_gang_gets_suggestions_for_all_of_its_pods():
    assert remedies(gpu_nodes(3), make_pod_group("train", gang=4), workers(4, requests={GPU: 8})) == [
        "minCount 3 instead of 4: 3 pods would run",
        "4 nvidia.com/gpu instead of 8 for each pod",
        "1 more node like n0, empty",
    ]


def test_the_fewest_nodes_are_found():
    found = remedies(gpu_nodes(1), make_pod_group("train", gang=20), workers(20, requests={GPU: 8}))
    assert "19 more nodes like n0, empty" in found


def test_a_gang_that_waits_for_pods_may_need_fewer():
    assert remedies(gpu_nodes(1), make_pod_group("train", gang=4), workers(3, cpu="1")) == [
        "minCount 3 instead of 4: 3 pods would run"
    ]


def test_a_topology_that_keeps_a_gang_apart():
    racks = [make_node(f"n{i}", cpu="1", labels={"rack": f"r{i}"}) for i in range(2)]
    group = make_pod_group("train", gang=2, topology="rack")
    found = remedies(racks, group, workers(2, cpu="1"), TopologyAwareWorkloadScheduling=True)
    assert "without the topology constraint rack" in found


def test_the_lowest_priority_that_helps_and_whom_it_evicts():
    running = [bound(make_pod(f"old{i}", cpu="4", priority=p), f"n{i}") for i, p in enumerate((10, 20))]
    nodes = [make_node(f"n{i}", cpu="4") for i in range(2)]
    found = remedies(nodes, make_pod_group("train", gang=1), workers(1, cpu="4"), *running)
    assert "priority 11 for the group and its pods: evicts default/old0" in found


def test_a_group_that_runs_needs_no_remedy():
    assert remedies(gpu_nodes(1), make_pod_group("train", gang=2), workers(2, cpu="1")) == []


def test_asking_changes_neither_group_nor_pods():
    group, pods = make_pod_group("train", gang=4), workers(4, requests={GPU: 8})
    before = repr((group, pods))
    assert remedies(gpu_nodes(3), group, pods)
    assert repr((group, pods)) == before
