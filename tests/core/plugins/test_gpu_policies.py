"""The policies of the fragmentation study against their rules, written out for one node at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mooring.api.errors import ConfigError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.plugins.gpu_policies import (
    GpuBestFit,
    GpuClustering,
    GpuDotProduct,
    GpuFragmentation,
    GpuPacking,
    GpuRandom,
)
from mooring.core.plugins.gpus.fragmentation import PodKind, typical_pods
from mooring.core.plugins.gpus.openb import node_prefixes, read_pods
from mooring.core.plugins.gpus.requests import CHOICE, COUNT, INDEX, MILLI, MODEL, GpuRequest
from mooring.core.plugins.gpus.scoring import first_wins
from mooring.core.state.cluster import ClusterState
from mooring.testing import bound, make_cluster, make_handle, make_node, make_pod, scores
from tests.core.plugins.gpus.test_fragmentation import by_definition

SIZES = (160, 470, 810, 1000)


def gpu_pod(name: str, cpu: int, milli: int, count: int = 1, index: str = "") -> Any:
    annotations = {MILLI: str(milli), COUNT: str(count), **({INDEX: index} if index else {})}
    return make_pod(name, cpu=f"{cpu}m", metadata={"annotations": annotations} if milli else {})


class Node:
    """What the rules look at."""

    def __init__(self, gpus: int, cpu: int) -> None:
        self.left, self.cpu, self.tags = [1000] * gpus, cpu, set[str]()


def random_cluster() -> tuple[ClusterState, dict[str, Node]]:
    """Nodes with one to eight GPUs, some idle, some with pods that share GPUs and pods with whole ones."""
    rng = np.random.default_rng(3)
    cluster, nodes = make_cluster(), {}
    for i in range(60):
        name, gpus = f"n{i:02}", int(rng.choice([1, 2, 4, 8]))
        node = nodes[name] = Node(gpus, 64_000)
        cluster.put(make_node(name, cpu="64", labels={MODEL: "T4"}, allocatable={COUNT: str(gpus)}))
        for j in range(int(rng.integers(0, 6))):
            milli, gpu = int(rng.choice(SIZES)), int(rng.integers(0, gpus))
            if node.left[gpu] >= milli:
                node.left[gpu] -= milli
                node.cpu -= 3000
                node.tags.add("1" if milli == 1000 else "share")
                cluster.put(bound(gpu_pod(f"{name}-{j}", 3000, milli, index=str(gpu)), name))
    return cluster, nodes


def dot_product(node: Node, cpu: int, milli: int, count: int) -> int:
    product = (node.cpu / 128000) * (cpu / 128000) + (sum(node.left) / 8000) * (milli * count / 8000)
    return int(100 * (1 - product / 2))


def best_fit(node: Node, cpu: int, milli: int, count: int) -> int:
    return int((1 - (0.5 * (node.cpu - cpu) / 128000 + 0.5 * (sum(node.left) - milli * count) / 8000)) * 100)


def clustering(node: Node, cpu: int, milli: int, count: int) -> int:
    if not milli:
        return 0
    base, tag = 25 * (8000 - sum(node.left)) // 8000, str(count) if milli == 1000 else "share"
    if tag in node.tags:
        return base + (75 if len(node.tags) == 1 else 50)
    return base if node.tags else base + 25


def packing(node: Node, cpu: int, milli: int, count: int) -> int:
    if not milli:
        return 0
    n = len(node.left)
    if all(left == 1000 for left in node.left):
        return max(33 - n, n)
    chosen = sorted(left for left in node.left if left >= milli)[:count]
    idle = sum(left == 1000 for left in chosen)
    return max(50 - idle, 33) if idle else max(100 - (sum(chosen) * 100 // 1000) // 10, 50)


PODS = [(2000, 0, 0), (4000, 160, 1), (8000, 470, 1), (8000, 1000, 1), (16000, 1000, 2)]


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: f"{pod[2]} GPUs with {pod[1]}")
@pytest.mark.parametrize(
    ("plugin", "rule"),
    [(GpuDotProduct, dot_product), (GpuBestFit, best_fit), (GpuClustering, clustering), (GpuPacking, packing)],
)
def test_scores_are_what_the_rule_says(plugin: Any, rule: Any, pod: tuple[int, int, int]) -> None:
    cluster, nodes = random_cluster()
    cpu, milli, count = pod
    feasible = [name for name, node in nodes.items() if sum(left >= milli for left in node.left) >= count]
    found = scores(
        plugin(None, make_handle(cluster)), cluster, gpu_pod("p", cpu, milli, count), feasible, normalized=False
    )
    assert found == {name: rule(nodes[name], cpu, milli, count) for name in feasible}


def test_best_fit_spreads_its_scores_from_0_to_100() -> None:
    cluster, _ = random_cluster()
    found = scores(GpuBestFit(None, make_handle(cluster)), cluster, gpu_pod("p", 1000, 0))
    assert found is not None and (min(found.values()), max(found.values())) == (0, 100)


def test_random_scores_one_node_and_chooses_a_random_gpu() -> None:
    cluster, _ = random_cluster()
    plugin, state = GpuRandom(None, make_handle(cluster, pick=lambda n: n - 1)), CycleState()
    pod = gpu_pod("p", 1000, 160)
    found = scores(plugin, cluster, pod)
    assert found is not None and sorted(found.values()) == [0] * 59 + [100] and found["n59"] == 100
    assert plugin.pre_filter(state, cluster.info(pod), cluster.nodes()).is_skip  # type: ignore[union-attr]
    choose = state.read(CHOICE)
    assert choose("n59", [100, 1000, 500], GpuRequest(160, 1)) == 1  # the second one that fits draws 1: it does not win
    lots = iter([0, 0, 1])
    plugin = GpuRandom(None, make_handle(cluster, pick=lambda n: next(lots)))
    plugin.pre_filter(state, cluster.info(pod), cluster.nodes())
    assert state.read(CHOICE)("n59", [1000, 100, 500, 200], GpuRequest(160, 1)) == 2


STUDY_PODS = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *(f"p{i},1000,1,1,500" for i in range(9))]


@pytest.mark.parametrize(
    ("was_scored", "was_placed", "drawn"),
    [
        pytest.param(True, True, [100, 60], id="a lot for the sample, and one for the node"),
        pytest.param(False, True, [100], id="the only node needs no lot"),
        pytest.param(False, False, [100, 60], id="a pod that fits nowhere: preemption draws where it begins"),
    ],
)
def test_random_draws_what_the_program_of_the_study_draws(
    tmp_path: Any, was_scored: bool, was_placed: bool, drawn: list[int]
) -> None:
    file = tmp_path / "pods.csv"
    file.write_text("\n".join(STUDY_PODS))
    cluster, nodes = random_cluster()
    gpus = sum(len(node.left) for node in nodes.values())
    _, study = node_prefixes(read_pods(file), 42, gpus=gpus, nodes=60)
    plugin = GpuRandom({"lots": {"podsFile": str(file), "seed": 42}}, make_handle(cluster))
    pod = gpu_pod("p", 1000, 160)
    state = CycleState()
    plugin.pre_filter(state, cluster.info(pod), cluster.nodes())
    if was_scored:
        plugin.score(state, cluster.info(pod), cluster.nodes())
    if was_placed:
        assert plugin.reserve(state, cluster.info(pod), "n00").is_success
    plugin.pre_filter(state, cluster.info(pod), cluster.nodes())
    for n in (*drawn, 100):
        study.intn(n)
    found = plugin.score(state, cluster.info(pod), cluster.nodes())
    assert np.flatnonzero(found).tolist() == [study.intn(60)]
    lots = [study.intn(n) for n in (1, 2, 3)]
    want = max(i for i, lot in enumerate(lots) if lot == 0)
    assert state.read(CHOICE)("n00", [1000, 500, 200], GpuRequest(160, 1)) == want


@pytest.mark.parametrize(
    ("lots", "want"),
    [
        pytest.param(
            {"podsFile": "/none.csv", "seed": 1}, "args: lots.podsFile: /none.csv: No such file", id="no file"
        ),
        pytest.param(
            {"podsFile": "x", "seed": "y"}, "args: Expected `int`, got `str` - at `$.lots.seed`", id="no seed"
        ),
    ],
)
def test_wrong_lots_are_one_line(lots: Any, want: str) -> None:
    with pytest.raises(ConfigError) as error:
        GpuRandom({"lots": lots}, make_handle(make_cluster()))
    assert str(error.value).startswith(want)


# ---- fragmentation -------------------------------------------------------------------------------------------------

TYPICAL = [
    {"count": 5, "cpuMilli": 8000, "gpuMilli": 1000},
    {"count": 3, "cpuMilli": 4000, "gpuMilli": 470},
    {"count": 2, "cpuMilli": 4000, "gpuMilli": 1000, "gpuCount": 4},
    {"count": 2, "cpuMilli": 16000},
]
COUNTED = typical_pods(
    {
        PodKind(8000, GpuRequest(1000, 1)): 5,
        PodKind(4000, GpuRequest(470, 1)): 3,
        PodKind(4000, GpuRequest(1000, 4)): 2,
        PodKind(16000, GpuRequest()): 2,
    }
)


def fragmentation(node: Node, cpu: int, milli: int, count: int) -> tuple[int, int]:
    """The score, and the GPU that makes it."""

    def value(left: list[int]) -> int:
        less = by_definition(COUNTED, node.left, node.cpu, "T4") - by_definition(COUNTED, left, node.cpu - cpu, "T4")
        return int(100 / (1 + math.exp(-round(less, 6) / 1000)))

    if not 0 < milli < 1000:
        after, taken = list(node.left), 0
        for i, left in enumerate(node.left):
            if milli and left == 1000 and taken < count:
                after[i], taken = 0, taken + 1
        return value(after), -1
    ways = []
    for i, left in enumerate(node.left):
        if left >= milli:
            after = list(node.left)
            after[i] -= milli
            ways.append((value(after), -i))
    best = max(ways)
    return best[0], -best[1]


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: f"{pod[2]} GPUs with {pod[1]}")
def test_fragmentation_scores_and_chooses_gpus_as_the_rule_says(pod: tuple[int, int, int]) -> None:
    cluster, nodes = random_cluster()
    cpu, milli, count = pod
    feasible = [name for name, node in nodes.items() if sum(left >= milli for left in node.left) >= count]
    plugin = GpuFragmentation({"typicalPods": TYPICAL}, make_handle(cluster))
    wanted = gpu_pod("p", cpu, milli, count)
    found = scores(plugin, cluster, wanted, feasible, normalized=False)
    assert found == {name: fragmentation(nodes[name], cpu, milli, count)[0] for name in feasible}
    if 0 < milli < 1000:
        for name in feasible:
            state = CycleState()
            plugin.pre_filter(state, cluster.info(wanted), cluster.nodes())
            assumed = cluster.assume(cluster.info(wanted), name)
            chosen = state.read(CHOICE)(name, nodes[name].left, GpuRequest(milli, count))
            assert chosen == fragmentation(nodes[name], cpu, milli, count)[1]
            cluster.forget(assumed.uid)


def test_cached_scores_equal_recomputed_ones() -> None:
    cluster, _ = random_cluster()
    kept = GpuFragmentation({"typicalPods": TYPICAL}, make_handle(cluster))
    wanted = gpu_pod("p", 4000, 160)
    for i in range(20):
        feasible = [f"n{j:02}" for j in range(60) if (i + j) % 3]
        anew = GpuFragmentation({"typicalPods": TYPICAL}, make_handle(cluster))
        assert scores(kept, cluster, wanted, feasible) == scores(anew, cluster, wanted, feasible)
        cluster.put(bound(gpu_pod(f"more{i}", 1000, 160, index="0"), f"n{3 * i:02}"))
        if i == 10:
            cluster.put(make_node("n07", cpu="8", labels={MODEL: "T4"}, allocatable={COUNT: "2"}))
        if i == 15:
            cluster.remove_pod("uid-default-more3")


def test_without_arguments_typical_pods_are_those_that_run() -> None:
    cluster, _ = random_cluster()
    plugin = GpuFragmentation(None, make_handle(cluster))
    found = scores(plugin, cluster, gpu_pod("p", 1000, 160))
    assert found is not None and len(set(found.values())) > 1


def test_typical_pods_are_counted_in_a_file(tmp_path: Any) -> None:
    file = tmp_path / "pods.csv"
    lines = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli"]
    lines += [f"p{i},8000,1,1,1000" for i in range(5)] + [f"q{i},4000,1,1,470" for i in range(3)]
    lines += [f"r{i},4000,1,4,1000" for i in range(2)] + [f"s{i},16000,1,0,0" for i in range(2)]
    file.write_text("\n".join(lines))
    cluster, _ = random_cluster()
    handle, wanted = make_handle(cluster), gpu_pod("p", 4000, 470)
    by_file = scores(GpuFragmentation({"typicalPodsFile": str(file)}, handle), cluster, wanted)
    assert by_file == scores(GpuFragmentation({"typicalPods": TYPICAL}, handle), cluster, wanted)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({"typicalPodsFile": "/none.csv"}, "args: typicalPodsFile: /none.csv: No such file", id="no file"),
        pytest.param({"typicalPod": []}, "args: Object contains unknown field `typicalPod`", id="a misspelt argument"),
        pytest.param({"tieBreak": "Lowest"}, "args: Invalid enum value 'Lowest' - at `$.tieBreak`", id="no such order"),
    ],
)
def test_wrong_arguments_are_one_line(args: Any, want: str) -> None:
    with pytest.raises(ConfigError) as error:
        GpuFragmentation(args, make_handle(make_cluster()))
    assert str(error.value).startswith(want)


# ---- equal nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param([3, 7, 7, 2], [3, 7, 8, 2], id="the first of the best gets one point more"),
        pytest.param([0, 0, 0, 0], [0, 0, 0, 1], id="also where all have none"),
        pytest.param([100, 100, 5, 100], [99, 99, 5, 100], id="at the top the others lose one"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], id="a single best node stays as it is"),
    ],
)
def test_the_first_of_the_best_wins(given: list[int], want: list[int]) -> None:
    assert first_wins(np.array(given), np.array([3, 2, 1, 0])).tolist() == want


@pytest.mark.parametrize("order", ["FirstByName", "FirstByLot"])
def test_equal_nodes_win_in_the_order_that_is_configured(order: str) -> None:
    lots = iter([5, 9, 1])
    cluster = make_cluster(*(make_node(name, allocatable={COUNT: "1"}) for name in ("b", "a", "c")))
    plugin = GpuPacking({"tieBreak": order}, make_handle(cluster, pick=lambda n: next(lots)))
    found = scores(plugin, cluster, gpu_pod("p", 100, 500))
    assert found is not None and max(found, key=lambda name: found[name]) == ("a" if order == "FirstByName" else "c")


def test_equal_nodes_stay_equal_without_an_order() -> None:
    cluster = make_cluster(*(make_node(name, allocatable={COUNT: "1"}) for name in ("b", "a")))
    assert scores(GpuPacking(None, make_handle(cluster)), cluster, gpu_pod("p", 100, 500)) == {"a": 32, "b": 32}
