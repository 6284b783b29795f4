"""Fragmentation against the definition, written out for one node and one kind of pod at a time."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.plugins.gpus.fragmentation import (
    Fragmentation,
    PodKind,
    Stranding,
    TypicalPods,
    distinct_rows,
    typical_pods,
)
from mooring.core.plugins.gpus.requests import GpuRequest
from mooring.core.plugins.gpus.scoring import best_assignment, best_on, gradient, quantised, without_pod

MODELS = ["", "T4", "V100"]


def kind(cpu: int, milli: int = 0, count: int = 1, *models: str) -> PodKind:
    return PodKind(cpu, GpuRequest(milli, count, models) if milli else GpuRequest())


def by_definition(typical: TypicalPods, left: list[int], cpu: int, model: str) -> float:
    total = 0.0
    for each, share in zip(typical.kinds, typical.shares, strict=True):
        gpu = each.gpu
        fits = gpu.count and (not gpu.models or model in gpu.models) and cpu >= each.cpu_milli
        fits = fits and sum(milli >= gpu.milli for milli in left) >= gpu.count
        total += share * (sum(milli for milli in left if milli < gpu.milli) if fits else sum(left))
    return total


TYPICAL = typical_pods(
    {
        kind(4000, 460): 50,
        kind(8000, 1000): 30,
        kind(16000, 1000, 4): 5,
        kind(2000): 20,
        kind(2000, 500, 1, "T4", "P100"): 9,
        kind(6000, 250, 2): 4,
    },
    covered=1.0,
)


def test_fragmentation_is_what_the_definition_says() -> None:
    rng = np.random.default_rng(1)
    left = rng.choice([0, 40, 190, 460, 540, 810, 1000], (300, 8))
    cpu = rng.integers(0, 20_000, 300)
    model = rng.integers(0, 3, 300)
    found = Fragmentation(TYPICAL, MODELS).of(left, cpu, model)
    want = [by_definition(TYPICAL, left[i].tolist(), int(cpu[i]), MODELS[model[i]]) for i in range(300)]
    assert found == pytest.approx(want)


def test_amounts_are_added_in_the_order_of_the_study_to_the_last_bit() -> None:
    rng = np.random.default_rng(2)
    left, cpu = rng.choice([0, 190, 540, 1000], (40, 8)), rng.integers(0, 20_000, 40)
    found = Fragmentation(TYPICAL, MODELS).of(left, cpu, np.zeros(40, np.int64))
    for i in range(40):
        sums = [
            0.0
        ] * 6  # lacks both, lacks GPU, lacks CPU, no GPU wanted and CPU fits, no GPU and CPU lacks, no access
        for each, share in zip(TYPICAL.kinds, TYPICAL.shares, strict=True):
            total, short = int(left[i].sum()), int(left[i][left[i] < each.gpu.milli].sum())
            has_cpu, has_gpus = cpu[i] >= each.cpu_milli, (left[i] >= each.gpu.milli).sum() >= each.gpu.count
            if not each.gpu.count:
                sums[3 if has_cpu else 4] += share * total
            elif each.gpu.models:
                sums[5] += share * total
            elif has_cpu:
                sums[1] += share * (short if has_gpus else total)
            else:
                sums[2 if has_gpus else 0] += share * total
        want = 0.0
        for each_sum in sums:
            want += each_sum
        assert found[i] == want


def test_an_idle_node_without_pods_for_cpu_only_is_not_fragmented() -> None:
    typical = typical_pods({kind(1000, 500): 1, kind(1000, 1000, 2): 1})
    found = Fragmentation(typical, [""]).of(np.array([[1000, 1000]]), np.array([64_000]), np.array([0]))
    assert found.tolist() == [0]


def test_typical_pods_are_the_most_frequent_that_cover_95_percent() -> None:
    counts = {kind(1, 100): 90, kind(1, 200): 5, kind(2, 100): 3, kind(3, 100): 2}
    found = typical_pods(counts)
    assert found.kinds == (kind(1, 100), kind(1, 200))
    assert found.shares == pytest.approx((90 / 95, 5 / 95))


def test_of_kinds_that_are_equally_frequent_the_largest_comes_first() -> None:
    counts = {kind(1, 100): 1, kind(2, 50): 1, kind(1, 200): 1}
    assert typical_pods(counts, covered=1).kinds == (kind(2, 50), kind(1, 200), kind(1, 100))


def test_no_pods_are_no_typical_pods() -> None:
    empty = typical_pods({})
    assert empty.kinds == ()
    assert Fragmentation(empty, [""]).of(np.array([[1000]]), np.array([1]), np.array([0])).tolist() == [1000]


# ---- ways to place a pod -------------------------------------------------------------------------------------------


def test_a_pod_that_shares_may_have_each_gpu_with_room_once_for_equal_ones() -> None:
    node, gpu, after = without_pod(np.array([[1000, 400, 1000, 500], [460, 0, 0, 0]]), GpuRequest(460, 1))
    assert list(zip(node.tolist(), gpu.tolist(), strict=True)) == [(0, 0), (0, 3), (1, 0)]
    assert after.tolist() == [[540, 400, 1000, 500], [1000, 400, 1000, 40], [0, 0, 0, 0]]


def test_whole_gpus_are_the_first_idle_ones() -> None:
    _, gpu, after = without_pod(np.array([[900, 1000, 1000, 1000]]), GpuRequest(1000, 2))
    assert gpu.tolist() == [-1] and after.tolist() == [[900, 0, 0, 1000]]


def test_a_part_of_several_gpus_is_of_those_with_the_least_left() -> None:
    _, _, after = without_pod(np.array([[1000, 500, 200, 700]]), GpuRequest(300, 2))
    assert after.tolist() == [[1000, 200, 200, 400]]


def test_the_gradient_is_the_difference_of_fragmentation() -> None:
    measure = Fragmentation(TYPICAL, MODELS)
    left, cpu, model = np.array([[1000, 540], [1000, 1000]]), np.array([20_000, 5_000]), np.array([0, 0])
    node, gpu, less = gradient(measure, left, cpu, model, kind(4000, 460))
    want = []
    for i, j in zip(node.tolist(), gpu.tolist(), strict=True):
        after = left[i].tolist()
        after[j] -= 460
        before = by_definition(TYPICAL, left[i].tolist(), int(cpu[i]), "")
        want.append(before - by_definition(TYPICAL, after, int(cpu[i]) - 4000, ""))
    assert less == pytest.approx(want)


def test_the_best_way_is_the_first_of_the_highest() -> None:
    values, gpus = best_assignment(3, np.array([0, 0, 0, 2]), np.array([1, 3, 5, 7]), np.array([4, 9, 9, 2]))
    assert values.tolist() == [9, 0, 2] and gpus.tolist() == [3, -1, 7]


@pytest.mark.parametrize("wanted", [kind(4000, 460), kind(3000, 1000, 2), kind(1500, 300, 3), kind(7000)])
@pytest.mark.parametrize("weight", [0, 1])
def test_single_nodes_agree_with_many_to_the_last_bit(wanted: PodKind, weight: int) -> None:
    rng = np.random.default_rng(3)
    left, cpu = rng.choice([0, 40, 190, 460, 540, 810, 1000], (300, 8)), rng.integers(0, 20_000, 300)
    model = rng.integers(0, 3, 300)
    left[:, :3] = np.where((left >= wanted.gpu.milli).sum(axis=1, keepdims=True) < 3, 1000, left[:, :3])
    measure, stranding = Fragmentation(TYPICAL, MODELS), Stranding(TYPICAL, weight, 0.8) if weight else None
    nodes = list(zip(left.tolist(), cpu.tolist(), model.tolist(), strict=True))
    assert [measure.of_one(*node) for node in nodes] == measure.of(left, cpu, model).tolist()
    node, gpu, less = gradient(measure, left, cpu, model, wanted, stranding)
    scores, gpus = best_assignment(len(left), node, gpu, np.array([quantised(each) for each in less.tolist()]))
    assert [best_on(measure, *each, wanted, stranding) for each in nodes] == list(zip(scores, gpus, strict=True))


def test_an_extreme_change_is_no_error() -> None:
    assert [quantised(-1e9), quantised(0), quantised(1e9)] == [0, 50, 100]


# ---- stranding -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "cpu", "want"),
    [
        pytest.param(2000, 16_000, 0, id="as much CPU as the GPUs need"),
        pytest.param(2000, 8_000, 1000, id="CPU for half of them"),
        pytest.param(2000, 0, 2000, id="no CPU"),
        pytest.param(0, 0, 0, id="no GPU left"),
        pytest.param(1000, 64_000, 0, id="more CPU than they need"),
    ],
)
def test_gpus_that_will_lack_cpu_are_stranded(left: int, cpu: int, want: float) -> None:
    typical = typical_pods({kind(8000, 1000): 3, kind(4000, 500): 3, kind(64_000): 5}, covered=1)  # 8 cores per GPU
    assert Stranding(typical, 1, 1).of(np.array([left]), np.array([cpu])).tolist() == [want]
    assert Stranding(typical, 2, 1).of(np.array([left]), np.array([cpu])).tolist() == [2 * want]


def test_without_gpu_pods_nothing_is_stranded() -> None:
    found = Stranding(typical_pods({kind(1000): 1}), 1, 1).of(np.array([1000]), np.array([0]))
    assert found.tolist() == [0]


def test_a_pod_with_much_cpu_goes_where_cpu_is_left_over() -> None:
    typical = typical_pods({kind(8000, 1000): 1})
    left, cpu, model = np.array([[1000, 1000], [1000, 1000]]), np.array([24_000, 96_000]), np.array([0, 0])
    _, _, less = gradient(Fragmentation(typical, [""]), left, cpu, model, kind(12_000), Stranding(typical, 1, 1))
    assert less[0] < less[1] == 0


def test_equal_rows_are_evaluated_once() -> None:
    table = np.array([[1, 2], [3, 4], [1, 2], [1, 4], [3, 4]])
    distinct, row_of = distinct_rows(table)
    assert distinct.tolist() == [[1, 2], [3, 4], [1, 4]] and distinct[row_of].tolist() == table.tolist()
