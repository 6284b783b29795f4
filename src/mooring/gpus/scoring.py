"""What the GPU score plugins have in common: their arguments, what they look at, and how equal nodes are told apart."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.errors import ConfigError
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import MAX_NODE_SCORE, Scores
from mooring.framework.traits import Reads, Traits
from mooring.gpus.columns import GpuColumns, GpuRows, safe_request_of
from mooring.gpus.requests import GpuRequest
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo
from mooring.state.requests import CPU

LARGEST_CPU, LARGEST_GPU = 128_000, 8_000  # milli of the largest node: what the study measures nodes against
A = TypeVar("A", bound=msgspec.Struct)


class GpuScoreArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``pluginConfig`` of the GPU score plugins.

    ``tieBreak`` says which of the best nodes wins: the first in the order of their names (``FirstByName``), or in an
    order that is drawn once by lot (``FirstByLot``, as in the study). Without it, the one that kube-scheduler takes.
    """

    tie_break: Literal["", "FirstByName", "FirstByLot"] = ""


def typed_args(kind: type[A], args: Any) -> A:
    """The arguments as their type, or one line on what is wrong."""
    try:
        return msgspec.convert(args or {}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"args: {error}") from None


class GpuScore:
    """Base of the GPU score plugins. A plugin defines ``_scores``: a number from 0 to 100 for each node."""

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
    """The order in which equal nodes win, as the configuration names it."""

    def __init__(self, name: str, handle: Handle) -> None:
        self._name = name
        self._handle = handle
        self._lots: dict[str, int] = {}  # by node
        self._rank: NDArray[np.int64] | None = None
        self._generation = -1

    def rank(self) -> NDArray[np.int64] | None:
        """[node] of the cluster's table: the smallest wins; None if there is no such order."""
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
    """The scores with the first of the best nodes one point above the others."""
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
    """[node], milli"""
    return nodes.allocatable(CPU) - nodes.requested(CPU)
