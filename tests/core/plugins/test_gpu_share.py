"""GpuShare: which nodes have room on their GPUs, which GPUs a pod gets, and what is counted after a restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.core import Pod
from mooring.core.framework.cluster_event import ActionType, EventResource, Hint
from mooring.core.framework.cycle_state import BINDING_ANNOTATIONS, CycleState
from mooring.core.framework.status import Code
from mooring.core.plugins.gpu_policies import GpuShare
from mooring.core.plugins.gpus.columns import GpuColumns
from mooring.core.plugins.gpus.requests import COUNT, INDEX, MILLI, MODEL
from mooring.core.state.cluster import ClusterState
from mooring.sim.scenario import Scenario
from mooring.sim.simulate import Arrival, simulate, story_of
from mooring.testing import Scheduler, bound, facts, filter_statuses, make_cluster, make_handle, make_node, make_pod

ENABLED = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "GpuShare"}]}}}]}


def gpu_node(name: str, gpus: int = 2, model: str = "T4") -> Any:
    return make_node(name, cpu="64", memory="256Gi", labels={MODEL: model}, allocatable={COUNT: str(gpus)})


def gpu_pod(name: str = "pod", milli: int | str = 1000, count: int | str = 1, **more: Any) -> Pod:
    annotations = {MILLI: str(milli), COUNT: str(count), **more.pop("annotations", {})}
    return make_pod(name, cpu="1", metadata={"annotations": annotations}, **more)


def holding(name: str, node: str, milli: int, index: str | None, count: int = 1) -> Pod:
    return bound(gpu_pod(name, milli, count, annotations={} if index is None else {INDEX: index}), node)


def left(cluster: ClusterState) -> dict[str, list[int]]:
    cluster.nodes()
    columns = GpuColumns.of(cluster.table)
    return {info.name: columns.left[i, : columns.capacity[i]].tolist() for i, info in enumerate(cluster.table.infos)}


# ---- filter --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(gpu_pod(milli=400), "", id="exactly what is left fits"),
        pytest.param(gpu_pod(milli=401), "node(s) had no GPU with 401 milli left", id="one milli more does not"),
        pytest.param(gpu_pod(milli=1000), "node(s) had no idle GPU", id="a whole GPU needs an idle one"),
        pytest.param(
            gpu_pod(milli=300, count=2), "node(s) had fewer than 2 GPUs with 300 milli left", id="parts of two"
        ),
        pytest.param(gpu_pod(milli=1000, count=3), "node(s) had fewer than 3 GPUs", id="more GPUs than there are"),
        pytest.param(
            gpu_pod(milli=10, annotations={MODEL: "V100|A10"}),
            "node(s) had GPUs of another model than V100 or A10",
            id="another model",
        ),
        pytest.param(gpu_pod(milli=10, annotations={MODEL: "V100|T4"}), "", id="one of several models"),
        pytest.param(make_pod(cpu="1"), "", id="a pod without GPUs"),
        pytest.param(gpu_pod(milli=500, count=0), "", id="a pod that asks for no GPU"),
        pytest.param(
            make_pod(requests={"nvidia.com/gpu": 1}), "node(s) had no idle GPU", id="the resource of NVIDIA's plugin"
        ),
        pytest.param(
            gpu_pod(milli="1.5"),
            f"annotation {MILLI}: '1.5' is not a whole number from 0 to 1000",
            id="an annotation that makes no sense",
        ),
    ],
)
def test_filter(pod: Pod, reason: str) -> None:
    cluster = make_cluster(gpu_node("a"), holding("x", "a", 600, "0"), holding("y", "a", 800, "1"))
    status = filter_statuses(GpuShare(None, make_handle(cluster)), cluster, pod)["a"]
    assert status.message == reason


def test_nodes_without_gpus_cannot_be_helped_by_evicting_pods() -> None:
    cluster = make_cluster(make_node("plain"), gpu_node("a"), holding("x", "a", 1000, "0-1", count=2))
    statuses = filter_statuses(GpuShare(None, make_handle(cluster)), cluster, gpu_pod())
    assert statuses["plain"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert statuses["plain"].message == "node(s) had no GPUs"
    assert statuses["a"].code is Code.UNSCHEDULABLE


def test_facts_name_the_gpu_that_comes_closest() -> None:
    cluster = make_cluster(gpu_node("node-17", 4), *(holding(f"x{i}", "node-17", 600 + i, str(i)) for i in range(4)))
    found = facts(GpuShare(None, make_handle(cluster)), cluster, gpu_pod(milli=460))
    assert found == ["GPU 0 of node-17 has 400 left, 460 wanted"]


def test_facts_count_gpus_for_a_pod_that_wants_several() -> None:
    cluster = make_cluster(gpu_node("a", 4), holding("x", "a", 100, "1"))
    found = facts(GpuShare(None, make_handle(cluster)), cluster, gpu_pod(count=4))
    assert found == ["3 of 4 GPUs of a have 1000 left, 4 wanted"]


# ---- what is counted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], [1000, 1000], id="an idle node"),
        pytest.param([holding("x", "a", 300, "1")], [1000, 700], id="the GPU that the annotation names"),
        pytest.param([holding("x", "a", 1000, "0-1", 2)], [0, 0], id="several GPUs"),
        pytest.param([holding("x", "a", 300, None)], [700, 1000], id="a pod that does not say gets the first"),
        pytest.param(
            [holding("x", "a", 300, None), holding("y", "a", 400, "1")],
            [1000, 300],
            id="a pod that does not say goes where the least is left, after those that say",
        ),
        pytest.param([holding("x", "a", 300, "7")], [1000, 1000], id="a GPU that the node does not have"),
        pytest.param([holding("x", "a", 300, "one")], [700, 1000], id="an index that makes no sense is none"),
        pytest.param(
            [holding("x", "a", 800, "0"), holding("y", "a", 800, "0")],
            [0, 1000],
            id="more than there is leaves nothing",
        ),
    ],
)
def test_pods_that_run_are_counted_by_their_annotations(pods: list[Pod], want: list[int]) -> None:
    assert left(make_cluster(gpu_node("a"), *pods))["a"] == want


def test_columns_follow_pods_and_nodes_that_come_and_go() -> None:
    cluster = make_cluster(gpu_node("a"), gpu_node("b", 1))
    assert left(cluster) == {"a": [1000, 1000], "b": [1000]}
    cluster.put(holding("x", "b", 250, "0"))
    assert left(cluster)["b"] == [750]
    cluster.put(gpu_node("b", 2, "V100"))
    assert left(cluster)["b"] == [750, 1000]
    assert GpuColumns.of(cluster.table).allowed(("V100",)).tolist() == [False, True]
    cluster.put(gpu_node("b", 8))
    assert left(cluster)["b"] == [750] + 7 * [1000]
    cluster.remove_pod("uid-default-x")
    cluster.remove_node("a")
    assert left(cluster) == {"b": 8 * [1000]}


def test_a_fork_is_read_without_changing_the_cluster() -> None:
    cluster = make_cluster(gpu_node("a"), gpu_node("b"))
    columns, nodes = GpuColumns.of(cluster.table), cluster.nodes().fork()
    nodes.table.add_pod(nodes.table.infos[1], cluster.info(holding("x", "b", 1000, "0")))
    columns = GpuColumns.of(cluster.table)
    assert columns.on(nodes, cluster.table).left.tolist() == [[1000, 1000], [0, 1000]]
    assert columns.on(nodes.subset(np.array([1])), cluster.table).left.tolist() == [[0, 1000]]
    assert columns.left.tolist() == [[1000, 1000], [1000, 1000]]


# ---- reserve -------------------------------------------------------------------------------------------------------


def reserved(cluster: ClusterState, pod: Pod) -> tuple[Any, CycleState, Any]:
    plugin, state = GpuShare(None, make_handle(cluster)), CycleState()
    assumed = cluster.assume(cluster.info(pod), "a")
    return plugin.reserve(state, assumed, "a"), state, assumed


@pytest.mark.parametrize(
    ("pod", "index"),
    [
        pytest.param(gpu_pod(milli=300), "1", id="the GPU with the least left that is enough"),
        pytest.param(gpu_pod(milli=600), "0", id="not one with too little left"),
        pytest.param(gpu_pod(count=2), "0-2", id="idle GPUs, the first ones"),
        pytest.param(gpu_pod(milli=300, count=2), "0-1", id="parts of two GPUs"),
    ],
)
def test_reserve_gives_the_pod_its_gpus(pod: Pod, index: str) -> None:
    cluster = make_cluster(gpu_node("a", 3), holding("x", "a", 500, "1"))
    status, state, assumed = reserved(cluster, pod)
    assert status.is_success
    assert state.read(BINDING_ANNOTATIONS) == {INDEX: index}
    assert assumed.pod.metadata.annotations[INDEX] == index
    assert INDEX not in pod.metadata.annotations


def test_a_pod_without_gpus_gets_no_annotation() -> None:
    status, state, _ = reserved(make_cluster(gpu_node("a")), make_pod(cpu="1"))
    assert status.is_success and state.read(BINDING_ANNOTATIONS) is None


def test_reserve_refuses_where_the_room_is_gone() -> None:
    cluster = make_cluster(gpu_node("a", 1), holding("x", "a", 500, "0"))
    status, _, _ = reserved(cluster, gpu_pod())
    assert status.code is Code.UNSCHEDULABLE and status.message == "node(s) had no idle GPU"


def test_what_was_assumed_and_is_forgotten_is_free_again() -> None:
    cluster = make_cluster(gpu_node("a", 1))
    pod = gpu_pod(milli=300)
    reserved(cluster, pod)
    assert left(cluster)["a"] == [700]
    cluster.forget(pod.uid)
    assert left(cluster)["a"] == [1000]


# ---- in a profile --------------------------------------------------------------------------------------------------


def test_pods_share_gpus_until_they_are_full() -> None:
    arrivals = [Arrival(i, gpu_pod(f"p{i}", 400)) for i in range(5)]
    outcome = simulate([gpu_node("a", 2)], arrivals, config=_config())
    assert sorted(outcome.placements or ()) == [f"default/p{i}" for i in range(4)]
    assert "node(s) had no GPU with 400 milli left" in outcome.pending["default/p4"]


def test_a_pod_that_ends_makes_room_for_one_that_waits() -> None:
    arrivals = [Arrival(0, gpu_pod("first"), run_s=10), Arrival(1, gpu_pod("second"))]
    outcome = simulate([gpu_node("a", 1)], arrivals, config=_config())
    assert round((outcome.placements or {})["default/second"].at_s) >= 10


def test_a_pod_of_higher_priority_takes_a_gpu_from_another() -> None:
    scheduler = Scheduler(gpu_node("a", 1), config=ENABLED)
    scheduler.put(bound(gpu_pod("low", 600, priority=0, annotations={INDEX: "0"}), "a"))
    decision = scheduler.decide(gpu_pod("high", 600, priority=10))
    assert decision.nominated_node == "a" and [victim.pod.name for victim in decision.victims] == ["low"]


def test_the_plugin_is_off_by_default() -> None:
    assert Scheduler(make_node("plain")).decide(gpu_pod()).node == "plain"


def _config() -> Any:
    from mooring.core.config.load import config_from_dict

    return config_from_dict(ENABLED)


# ---- what brings a pod back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gone", "want"),
    [
        pytest.param(bound(gpu_pod("x"), "a"), Hint.QUEUE, id="a pod with a GPU goes"),
        pytest.param(bound(make_pod("x"), "a"), Hint.SKIP, id="a pod without one goes"),
        pytest.param(gpu_pod("x"), Hint.SKIP, id="a pod goes that had no node"),
        pytest.param(bound(gpu_pod("x", milli="lots"), "a"), Hint.SKIP, id="a pod goes that was counted on no GPU"),
    ],
)
def test_a_pod_that_goes_helps_if_it_had_gpus(gone: Pod, want: Hint) -> None:
    plugin = GpuShare(None, make_handle(make_cluster()))
    event = next(each for each in plugin.events_to_register() if each.event.resource is EventResource.POD)
    assert event.event.action is ActionType.DELETE
    assert event.hint is not None and event.hint(gpu_pod(), gone, None) is want


# ---- with an API server ----------------------------------------------------------------------------------------------


def test_the_binding_carries_the_gpus_to_the_api_server() -> None:
    found: list[Any] = []
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": {MILLI: "300", "team": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }

    async def play(cluster: Any) -> None:
        await cluster.create(pod)
        await cluster.advance(5)
        found.append(await cluster.get("pod/p"))

    simulate(Scenario("gpus", "", story_of([gpu_node("a")], play=play)), config=ENABLED)
    assert found[0]["spec"]["nodeName"] == "a"
    assert found[0]["metadata"]["annotations"] == {MILLI: "300", "team": "a", INDEX: "0"}
