"""How placing a pod changes fragmentation: for each node the best of its GPUs, computed for many nodes at once."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from mooring.gpus.fragmentation import Fragmentation, PodKind, Stranding
from mooring.gpus.placing import least_left
from mooring.gpus.requests import WHOLE, GpuRequest

Milli = NDArray[np.int64]
LARGEST_EXPONENT = 700.0  # more is no float


def without_pod(left: Milli, request: GpuRequest) -> tuple[NDArray[np.int64], NDArray[np.int64], Milli]:
    """The ways to place a pod on nodes: (node, GPU, what is left after that).

    A pod that shares one GPU can have any on which there is room; of GPUs with equally much left, the first. Other
    pods have one way: their GPU number is -1.
    """
    nodes = np.arange(len(left))
    if not request.count:
        return nodes, np.full(len(left), -1), left
    fits = left >= request.milli
    if request.count > 1 or request.milli == WHOLE:
        order = np.argsort(np.where(fits, left, 2 * WHOLE), axis=1, kind="stable")[:, : request.count]
        after = left.copy()
        np.put_along_axis(after, order, np.take_along_axis(left, order, axis=1) - request.milli, axis=1)
        return nodes, np.full(len(left), -1), after
    for gpu in range(1, left.shape[1]):
        fits[:, gpu] &= (left[:, :gpu] != left[:, gpu : gpu + 1]).all(axis=1)
    node, gpu_of = np.nonzero(fits)
    after = left[node]
    after[np.arange(len(node)), gpu_of] -= request.milli
    return node, gpu_of, after


def gradient(
    fragmentation: Fragmentation,
    left: Milli,
    cpu: NDArray[np.int64],
    model: NDArray[np.int64],
    kind: PodKind,
    stranding: Stranding | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(node, GPU, how much less fragmented the node is then, in milli) for every way to place the pod.

    With ``stranding``, GPUs that will lack CPU count as well.
    """
    node, gpu, after = without_pod(left, kind.gpu)
    n = len(left)
    found = fragmentation.of(
        np.concatenate((left, after)),
        np.concatenate((cpu, cpu[node] - kind.cpu_milli)),
        np.concatenate((model, model[node])),
    )
    if stranding is not None:
        found[:n] += stranding.of(left.sum(axis=1), cpu)
        found[n:] += stranding.of(after.sum(axis=1), cpu[node] - kind.cpu_milli)
    less: NDArray[np.float64] = found[:n][node] - found[n:]
    return node, gpu, less


def best_way(
    n: int, node: NDArray[np.int64], gpu: NDArray[np.int64], value: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[node]: the largest value of all its ways, and the GPU of the first way that has it. Ways are sorted by node.

    A node without a way has 0 and -1.
    """
    best, gpus = np.zeros(n, np.int64), np.full(n, -1)
    if len(node):
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        best[node[starts]] = np.maximum.reduceat(value, starts)
        is_best = np.flatnonzero(value == best[node])[::-1]
        gpus[node[is_best]] = gpu[is_best]  # the first way is written last
    return best, gpus


def best_on(
    fragmentation: Fragmentation,
    left: list[int],
    cpu: int,
    model: int,
    kind: PodKind,
    stranding: Stranding | None = None,
) -> tuple[int, int]:
    """(score, GPU) of the best way to place the pod on one node: what ``best_way`` finds for many."""
    after = list(left)
    score, best = 0, -1
    before = _measured(fragmentation, stranding, left, cpu, model)
    if not kind.gpu.is_share or kind.gpu.count > 1:
        for gpu in least_left(left, kind.gpu) or ():
            after[gpu] -= kind.gpu.milli
        return quantised(before - _measured(fragmentation, stranding, after, cpu - kind.cpu_milli, model)), -1
    for gpu, milli in enumerate(left):
        if milli < kind.gpu.milli or left.index(milli) < gpu:
            continue
        after[gpu] -= kind.gpu.milli
        found = quantised(before - _measured(fragmentation, stranding, after, cpu - kind.cpu_milli, model))
        after[gpu] = milli
        if best < 0 or found > score:
            score, best = found, gpu
    return score, best


def _measured(
    fragmentation: Fragmentation, stranding: Stranding | None, left: list[int], cpu: int, model: int
) -> float:
    found = fragmentation.of_one(left, cpu, model)
    return found if stranding is None else found + stranding.of_one(sum(left), cpu)


def quantised(less: float) -> int:
    """The study's score: a sigmoid of the change in GPUs, as a whole number from 0 to 100."""
    return int(100 / (1 + exp(min(-less / WHOLE, LARGEST_EXPONENT))))
