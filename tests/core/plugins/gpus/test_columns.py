"""The columns of GPUs, followed pod by pod, against columns that read every pod anew."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.core.plugins.gpus.columns import GpuColumns, gpus_left
from mooring.core.plugins.gpus.requests import COUNT, INDEX, MILLI
from mooring.core.state.cluster import ClusterState
from mooring.testing import bound, make_cluster, make_node, make_pod

NODES = {"a": 1, "b": 2, "c": 0}

put = st.tuples(
    st.just("put"),
    st.sampled_from("stuvwxyz"),  # pods
    st.sampled_from(sorted(NODES)),
    st.sampled_from([0, 300, 500, 1000]),
    st.integers(1, 2),
    st.sampled_from([None, "0", "1", "0-1", "7", "nonsense"]),
)
remove = st.tuples(st.just("remove"), st.sampled_from("stuvwxyz"))
steps = st.lists(st.one_of(put, put, remove, st.just(("read",))), max_size=30)


def running(name: str, node: str, milli: int, count: int, index: str | None) -> Pod:
    annotations = {MILLI: str(milli), COUNT: str(count)} if milli else {}
    if index is not None:
        annotations[INDEX] = index
    return bound(make_pod(name, cpu="1m", metadata={"annotations": annotations}), node)


def gpu_node(name: str) -> Any:
    return make_node(name, cpu="64", memory="256Gi", allocatable={COUNT: str(NODES[name])})


def figures(columns: GpuColumns) -> list[list[Any]]:
    return [column.tolist() for column in (columns.left, columns.ranked, columns.total, columns.tags)]


def take(cluster: ClusterState, step: tuple[Any, ...]) -> None:
    if step[0] == "put":  # a new pod, or other annotations or another node of one that is there
        cluster.put(running(*step[1:]))
    elif step[0] == "remove":
        cluster.remove_pod(f"uid-default-{step[1]}")
    else:
        GpuColumns.of(cluster.table)


@given(steps)
@example([("put", "x", "a", 300, 1, "0"), ("read",), ("put", "x", "a", 500, 1, "0")])  # only an annotation changes
def test_updated_columns_equal_recomputed_ones(history: list[tuple[Any, ...]]) -> None:
    cluster = make_cluster(*map(gpu_node, NODES))
    cluster.nodes()
    GpuColumns.of(cluster.table)
    for step in history:
        take(cluster, step)
    anew = GpuColumns(cluster.table)
    anew._follow(cluster.table)
    assert figures(GpuColumns.of(cluster.table)) == figures(anew)


@given(steps, put)
def test_what_is_left_without_a_pod_is_what_the_others_leave(
    history: list[tuple[Any, ...]], last: tuple[Any, ...]
) -> None:
    cluster = make_cluster(*map(gpu_node, NODES))
    cluster.nodes()
    GpuColumns.of(cluster.table)
    for step in (*history, last):
        take(cluster, step)
    uid, info = f"uid-default-{last[1]}", cluster.table.info(last[2])
    others = [pod for pod in info.pods.values() if pod.uid != uid]
    assert GpuColumns.left_without(cluster.table, info, uid) == gpus_left(NODES[info.name], others)[0]
