"""Fragmentation: how much of the free GPUs typical pods cannot use.

The measure is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. For one kind of pod, all free GPUs of a node are fragmented if the pod does not fit
there; if it fits, only those with too little left for it. A node's fragmentation is the mean over typical pods,
weighted by their frequency.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.plugins.gpus.requests import GpuRequest
from mooring.core.state.node_table import NodeTable
from mooring.core.state.sharing import EVERYTHING, Cursor

COVERED = 0.95  # typical pods are the most frequent kinds that make up this share of all pods
NEVER = 2**31  # more GPUs than any node has
MAX_SEEN = 1 << 16  # nodes' states with cached fragmentation


class PodKind(msgspec.Struct, frozen=True):
    """A pod's requests, as far as fragmentation reads them."""

    cpu_milli: int
    gpu: GpuRequest


class TypicalPods(msgspec.Struct, frozen=True):
    """Kinds of pods and their frequencies, which add up to 1."""

    kinds: tuple[PodKind, ...]
    shares: tuple[float, ...]


def typical_pods(counts: Mapping[PodKind, int], covered: float = COVERED) -> TypicalPods:
    """Return the most frequent kinds that together cover this share of all pods. Ties: the largest first."""
    order = sorted(counts.items(), key=lambda each: (each[1], _size(each[0])), reverse=True)
    every = sum(counts.values())
    wanted = covered * every
    taken: list[tuple[PodKind, int]] = []
    so_far = 0
    for kind, count in order:
        if so_far >= wanted:
            break
        taken.append((kind, count))
        so_far += count
    shares = tuple(count / every / (so_far / every) for _, count in taken)  # the study's two divisions, to the last bit
    return TypicalPods(tuple(kind for kind, _ in taken), shares)


def count_kinds(kinds: Iterable[PodKind]) -> Counter[PodKind]:
    return Counter(kinds)


def _size(kind: PodKind) -> tuple[int, int, int, str]:
    return kind.cpu_milli, kind.gpu.milli, kind.gpu.count, "|".join(kind.gpu.models)


# Why GPUs are fragmented for a kind of pod: the sum of the study's program that they are added to.
LACKS_BOTH, LACKS_GPU, LACKS_CPU, NO_GPU_CPU_FITS, NO_GPU_LACKS_CPU, OTHER_MODEL = range(6)
WHY = np.array(  # [kind wants GPUs of this model, of others, none; 2 if there is CPU + 1 if there are GPUs]
    [
        [LACKS_BOTH, LACKS_CPU, LACKS_GPU, LACKS_GPU],  # GPUs with too little left are fragmented even if it fits
        [OTHER_MODEL] * 4,
        [NO_GPU_LACKS_CPU] * 2 + [NO_GPU_CPU_FITS] * 2,
    ],
    np.int64,
)
REASONS: list[list[int]] = WHY.tolist()


class Fragmentation:
    """The measure for one set of typical pods and one list of GPU models.

    Amounts are added in the order of the study's program: kind by kind, one sum for each reason, and then the sums. A
    score is a rounded difference of two of these, so that the last bit of a sum can decide between two nodes. ``of`` is
    for many nodes, ``of_one`` for few; both agree to the last bit.
    """

    def __init__(self, typical: TypicalPods, models: Sequence[str]) -> None:
        gpus = [kind.gpu for kind in typical.kinds]
        self._shares = np.array(typical.shares, np.float64)[:, None]  # [kind, 1]
        self._cpu = np.array([kind.cpu_milli for kind in typical.kinds], np.int64)[:, None]  # [kind, 1]
        self._count = np.array([gpu.count or NEVER for gpu in gpus], np.int64)[:, None]  # [kind, 1]
        self._millis, self._milli_of = np.unique(np.array([gpu.milli for gpu in gpus], np.int64), return_inverse=True)
        self._wants = np.array(  # [kind, model]: the row of WHY
            [
                [2 if not gpu.count else int(bool(gpu.models) and model not in gpu.models) for model in models]
                for gpu in gpus
            ],
            np.int64,
        ).reshape(len(gpus), len(models))
        self._steps = sorted(set(self._cpu.ravel().tolist()))  # CPU between two of these makes no difference
        columns = (self._shares, self._cpu, self._count, self._milli_of)
        self._each = list(zip(*(np.ravel(each).tolist() for each in columns), strict=True))
        self._seen: dict[tuple[int, ...], float] = {}

    def of_one(self, left: Sequence[int], cpu: int, model: int) -> float:
        """Return the fragmentation of one node, in milli. The order of GPUs does not matter, so few states occur."""
        state = (model, bisect_right(self._steps, cpu), *sorted(left))
        found = self._seen.get(state)
        if found is None:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            found = self._seen[state] = self._added_up(sorted(left), cpu, model)
        return found

    def _added_up(self, left: list[int], cpu: int, model: int) -> float:
        total = sum(left)
        if not self._each:
            return float(total)
        starts = [bisect_left(left, milli) for milli in self._millis.tolist()]
        usable = [(len(left) - start, total - sum(left[start:])) for start in starts]  # GPUs, milli of the others
        sums = [0.0] * (OTHER_MODEL + 1)
        for (share, wanted, count, milli), wants in zip(self._each, self._wants[:, model].tolist(), strict=True):
            gpus, amount = usable[milli]
            has_cpu, has_gpus = wanted <= cpu, count <= gpus
            if wants or not has_cpu or not has_gpus:
                amount = total
            sums[REASONS[wants][2 * has_cpu + has_gpus]] += share * amount
        found = 0.0
        for each in sums:  # not sum(), which rounds in another way since Python 3.12
            found += each
        return found

    def of(self, left: NDArray[np.int64], cpu: NDArray[np.int64], model: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the fragmentation of nodes, [node] in milli, from [node, gpu] left, [node] CPU and GPU model."""
        total = left.sum(axis=1)
        n = len(left)
        if not len(self._shares):
            return np.asarray(total, np.float64)
        enough = left >= self._millis[:, None, None]  # [milli, node, gpu]
        count = enough.sum(axis=2)
        usable = (left * enough).sum(axis=2)
        has_gpus = self._count <= count.take(self._milli_of, axis=0)  # [kind, node]
        has_cpu = self._cpu <= cpu
        wants = self._wants.take(model, axis=1)
        fits = has_gpus & has_cpu & (wants == 0)
        amount = total - usable.take(self._milli_of, axis=0) * fits
        why = WHY.take(4 * wants + 2 * has_cpu + has_gpus)
        why *= n
        why += np.arange(n)
        sums = np.bincount(why.ravel(), (self._shares * amount).ravel(), (OTHER_MODEL + 1) * n)
        found: NDArray[np.float64] = np.zeros(n)
        for each in sums.reshape(-1, n):
            found += each
        return found


class Stranding:
    """GPUs that will lack CPU: looks further ahead than fragmentation, which considers the next pod only.

    Future pods need a certain amount of CPU for each GPU, on average. Where a node has less CPU left than its GPUs will
    need, part of them will stay idle however well they are packed. ``cpu_share`` says how much of that mean counts:
    less than 1, since pods that need less than the mean go where CPU is short.
    """

    def __init__(self, typical: TypicalPods, weight: float, cpu_share: float) -> None:
        pods = [(kind, share) for kind, share in zip(typical.kinds, typical.shares, strict=True) if kind.gpu.count]
        gpu = sum(share * kind.gpu.total for kind, share in pods)
        cpu = cpu_share * sum(share * kind.cpu_milli for kind, share in pods)
        self._weight = weight if cpu > 0 else 0.0
        self._gpu_per_cpu = gpu / cpu if cpu > 0 else 0.0

    def of(self, left: NDArray[np.int64], cpu: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the stranded GPUs times the weight, [node] in milli."""
        found: NDArray[np.float64] = self._weight * np.maximum(0, left - cpu * self._gpu_per_cpu)
        return found

    def of_one(self, left: int, cpu: int) -> float:
        return self._weight * max(0.0, left - cpu * self._gpu_per_cpu)


# --------------------------------------------------------------------------------------------------------------------
# Scores of one kind of pod on all nodes, cached between pods and updated for changed nodes.
#
# A placement changes one row. A row is updated when a pod of the kind arrives for which its node is feasible: most rows
# of a full cluster never are.

Rows = NDArray[np.int64]
Compute = Callable[[Rows], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Computes (value, GPU) of rows; GPU -1: the pod does not share one."""

MAX_BYTES = 64 << 20


class KeptScores:
    """Values and GPUs by row."""

    def __init__(self, table: NodeTable) -> None:
        n = len(table)
        self.values = np.zeros(n, np.int64)  # [node]
        self.gpus = np.full(n, -1, np.int64)  # [node]
        self._is_stale = np.ones(n, np.bool_)  # [node]
        self._cursors: tuple[Cursor[int], ...] = (table.node_log.cursor(), table.pod_log.cursor())
        for cursor in self._cursors:
            cursor.take()

    def on(self, rows: Rows, compute: Compute) -> NDArray[np.int64]:
        """Return the up-to-date values of these rows."""
        for cursor in self._cursors:
            changes = cursor.take()
            if changes is EVERYTHING:
                self._is_stale[:] = True
            elif changes:
                self._is_stale[list(changes)] = True
        stale = rows[self._is_stale[rows]]
        if len(stale):
            self.values[stale], self.gpus[stale] = compute(stale)
            self._is_stale[stale] = False
        return self.values[rows]


class KeptByKind:
    """Cached scores by kind of pod, with least-recently-used eviction."""

    def __init__(self) -> None:
        self._kept: OrderedDict[PodKind, KeptScores] = OrderedDict()
        self._token: object = None

    def of(self, kind: PodKind, table: NodeTable, version: int) -> KeptScores:
        """Return the scores of this kind; another ``version`` recomputes all of them."""
        token = (table.generation, version)
        if token != self._token:
            self._kept.clear()
            self._token = token
        kept = self._kept.get(kind)
        if kept is None:
            kept = self._kept[kind] = KeptScores(table)
            while len(self._kept) > max(16, MAX_BYTES // (17 * len(table) + 1024)):
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(kind)
        return kept


def distinct_rows(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
    """Return the distinct rows, and for each row its index among them. Many nodes are alike before pods arrive."""
    rows = [row.tobytes() for row in table]
    number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    distinct = np.frombuffer(b"".join(number), table.dtype).reshape(len(number), table.shape[1])
    return distinct, [number[row] for row in rows]
