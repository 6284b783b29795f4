"""The lots of the fragmentation study: one Go generator, seeded once, draws pods, nodes and all that comes after."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.errors import ConfigError, InputError
from mooring.gpus.columns import GpuColumns
from mooring.gpus.go_random import GoRandom
from mooring.gpus.openb import node_prefixes, read_pods
from mooring.state.cluster import Cluster

SAMPLED = 100  # one attempt of so many is measured: the study's scheduler draws which ones


class StudyLotsArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The trace that the pods come from, with the columns of the study, and the seed of the run."""

    pods_file: str
    seed: int


class StudyLots:
    """Draws as the study's program does. It has to hear of every attempt: each draws numbers, for nothing here."""

    def __init__(self, args: StudyLotsArgs, cluster: Cluster) -> None:
        try:
            self._pods = read_pods(Path(args.pods_file))
        except InputError as error:
            raise ConfigError(f"args: lots.podsFile: {error}") from None
        self._seed, self._cluster = args.seed, cluster
        self._rng: GoRandom | None = None
        self._is_unplaced = False  # the pod of the last attempt, as far as is known

    def attempt(self) -> None:
        """A pod is about to be placed. If the last one was not, preemption has drawn the node it begins with."""
        if self._is_unplaced:
            self.pick(len(self._cluster.table.infos))
        self.pick(SAMPLED)
        self._is_unplaced = True

    def placed(self) -> None:
        self._is_unplaced = False

    def pick(self, n: int) -> int:
        """One of n."""
        if self._rng is None:  # now the nodes are there
            table = self._cluster.table
            gpus = int(GpuColumns.of(table).capacity.sum())
            _, self._rng = node_prefixes(self._pods, self._seed, gpus=gpus, nodes=len(table.infos))
        return self._rng.intn(n)
