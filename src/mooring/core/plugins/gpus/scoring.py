"""Common parts of the GPU score plugins: arguments, fragmentation scores, and random tie-breaking."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from math import exp
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import ConfigError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.core.framework.registry import Reads, Traits
from mooring.core.plugins.gpus.columns import GpuColumns, GpuRows, safe_request_of
from mooring.core.plugins.gpus.fragmentation import Fragmentation, PodKind, Stranding
from mooring.core.plugins.gpus.requests import WHOLE, GpuRequest, least_left
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU

LARGEST_CPU, LARGEST_GPU = 128_000, 8_000  # of the largest node, to which the study relates nodes
A = TypeVar("A", bound=msgspec.Struct)


class GpuScoreArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``pluginConfig`` of the GPU score plugins.

    ``tieBreak`` says which of equal nodes wins: the first by name (``FirstByName``), or the first in a random order
    that is fixed once (``FirstByLot``, as in the study). Without it, the one that kube-scheduler takes.
    """

    tie_break: Literal["", "FirstByName", "FirstByLot"] = ""


def typed_args(kind: type[A], args: Any) -> A:
    """Return the arguments as their type; raise a one-line error for invalid ones."""
    try:
        return msgspec.convert(args or {}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"args: {error}") from None


class GpuScore:
    """Base class of the GPU score plugins. A plugin defines ``_scores``: a number from 0 to 100 for each node."""

    _args_type: ClassVar[type[GpuScoreArgs]] = GpuScoreArgs
    traits: ClassVar[Traits] = Traits(score_reads=Reads.LOCAL, uses_volumes=False, in_range=True)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle
        self._ties = TieBreak(typed_args(self._args_type, args).tie_break, handle)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        base = self._handle.cluster.table
        gpus = GpuColumns.of(base).on(nodes, base)
        return self._scores(cpu_left(nodes), cpu_of(pod), gpus, safe_request_of(pod))

    def _scores(self, cpu: NDArray[np.int64], wanted: int, gpus: GpuRows, request: GpuRequest) -> Scores:
        raise NotImplementedError

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        rank = self._ties.rank()
        if rank is None:
            return scores
        return first_wins(scores, rank if nodes.index is None else rank[nodes.index])


class TieBreak:
    """The order between equal nodes, as configured."""

    def __init__(self, name: str, handle: Handle) -> None:
        self._name = name
        self._handle = handle
        self._lots: dict[str, int] = {}  # by node
        self._rank: NDArray[np.int64] | None = None
        self._generation = -1

    def rank(self) -> NDArray[np.int64] | None:
        """Return ranks by node of the cluster's table: the smallest wins; None if there is no such order."""
        table = self._handle.cluster.table
        if self._name and self._generation != table.generation:
            names = [info.name for info in table.infos]
            if self._name == "FirstByLot":
                for name in names:
                    if name not in self._lots:
                        self._lots[name] = self._handle.pick(2**40)
                self._lots = {name: self._lots[name] for name in names}
            order = sorted(range(len(names)), key=lambda row: (self._lots.get(names[row], 0), names[row]))
            self._rank = np.empty(len(names), np.int64)
            self._rank[order] = np.arange(len(names))
            self._generation = table.generation
        return self._rank


def first_wins(scores: Scores, rank: NDArray[np.int64]) -> Scores:
    """Return the scores with the first of the best nodes one point above the others."""
    best = int(scores.max())
    equal = np.flatnonzero(scores == best)
    if len(equal) == 1:
        return scores
    first = equal[rank[equal].argmin()]
    scores = scores.copy()
    if best < MAX_NODE_SCORE:
        scores[first] = best + 1
    else:
        scores[equal] = best - 1
        scores[first] = best
    return scores


def cpu_of(pod: PodInfo) -> int:
    return pod.shape.requests.get(CPU, 0)


def cpu_left(nodes: NodeRows) -> NDArray[np.int64]:
    """Return milli CPU left, by node."""
    return nodes.allocatable(CPU) - nodes.requested(CPU)


# ---- change of fragmentation by a pod: for each node the best of its GPUs, computed for many nodes at once -----------

Milli = NDArray[np.int64]
LARGEST_EXPONENT = 700.0  # beyond it, exp() overflows


def without_pod(left: Milli, request: GpuRequest) -> tuple[NDArray[np.int64], NDArray[np.int64], Milli]:
    """Return the ways to place a pod on nodes: (node, GPU, what is left after that).

    A pod that shares one GPU can have any with enough room; of GPUs with equally much left, the first. Other pods have
    one way: their GPU number is -1.
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
    """Return (node, GPU, decrease of the node's fragmentation in milli) for every way to place the pod.

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


def best_assignment(
    n: int, node: NDArray[np.int64], gpu: NDArray[np.int64], value: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, by node, the largest value of all its ways, and the GPU of the first such way. Ways are sorted by node.

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
    """Return (score, GPU) of the best way to place the pod on one node, as ``best_assignment`` does for many."""
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
    """Return the study's score: a sigmoid of the change in GPUs, as a whole number from 0 to 100."""
    return int(100 / (1 + exp(min(-less / WHOLE, LARGEST_EXPONENT))))


# --------------------------------------------------------------------------------------------------------------------
# Go's ``math/rand`` generator, as Go 1 fixed it: the same seed gives the same numbers as in a Go program.
#
# The generator adds two of its last 607 outputs: x[n] = x[n - 607] + x[n - 273], modulo 2^64. Go mixes seeds with a
# table of 607 constants, which is the state of the same generator after 7.8e12 steps. ``go_random.table`` has them, and
# a test computes them.

LENGTH, TAP = 607, 273
PRIME = 2**31 - 1
MASK_63 = 2**63 - 1
PLACES = (LENGTH - TAP - 1 - np.arange(LENGTH)) % LENGTH
"""Go's index of each output, beginning with the one that is overwritten next."""


class GoRandom:
    """A generator like ``rand.New(rand.NewSource(seed))``."""

    def __init__(self, seed: int) -> None:
        mixed = [((a << 40) ^ (b << 20) ^ c) & (2**64 - 1) for a, b, c in seeds(seed)]
        state: NDArray[np.uint64] = np.array(mixed, np.uint64) ^ table()
        self.uint64: Callable[[], int] = _outputs(state[PLACES]).__next__

    def int63(self) -> int:
        """Return Go's ``Int``, and ``Int63``."""
        return self.uint64() & MASK_63

    def intn(self, n: int) -> int:
        """Return Go's ``Intn`` for n below 2^31: a remainder of 31 bits, repeated above the last multiple of n."""
        drawn = self.int63() >> 32
        if n & (n - 1) == 0:
            return drawn & (n - 1)
        largest = 2**31 - 1 - 2**31 % n
        while drawn > largest:
            drawn = self.int63() >> 32
        return drawn % n

    def perm(self, n: int) -> list[int]:
        """Return Go's ``Perm``: the numbers below n in random order."""
        order = [0] * n
        for i in range(n):
            j = self.intn(i + 1)
            order[i] = order[j]
            order[j] = i
        return order

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place as Go's ``Shuffle``."""
        for i in range(len(items) - 1, 0, -1):
            j = self._bounded(i + 1)
            items[i], items[j] = items[j], items[i]

    def _bounded(self, n: int) -> int:
        """Return the upper half of a product with 32 random bits: what ``Shuffle`` uses instead of ``Intn``."""
        product = (self.int63() >> 31) * n
        if product % 2**32 < n:
            threshold = 2**32 % n
            while product % 2**32 < threshold:
                product = (self.int63() >> 31) * n
        return product >> 32


def table() -> NDArray[np.uint64]:
    """Return the constants that seeds are mixed with, in Go's order."""
    return np.frombuffer(Path(__file__).with_name("go_random.table").read_bytes(), "<u8")


def _outputs(last: NDArray[np.uint64]) -> Iterator[int]:
    """Yield the remaining outputs in groups that are independent of each other."""
    while True:
        drawn = last[:TAP] + last[LENGTH - TAP :]
        last = np.concatenate((last[TAP:], drawn))
        yield from drawn.tolist()


def seeds(seed: int) -> list[tuple[int, int, int]]:
    """Return three numbers of a linear congruential generator for each place of the state; the first 20 are skipped."""
    x = seed % PRIME or 89_482_311
    for _ in range(20):
        x = x * 48_271 % PRIME
    drawn = []
    for _ in range(3 * LENGTH):
        x = x * 48_271 % PRIME
        drawn.append(x)
    return list(zip(drawn[::3], drawn[1::3], drawn[2::3], strict=True))
