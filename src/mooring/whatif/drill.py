"""What would be lost with each node, zone or rack: tried on forks, one loss after another."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from mooring.errors import InputError
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Configuration, PluginReference, Scheduler
from mooring.whatif.domains import Domain, domains
from mooring.whatif.losing import Loss, lose
from mooring.whatif.placing import Placing

PARALLEL_FROM = 5_000_000  # nodes of the cluster times losses: less is done before other processes have started
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Drill:
    """All losses that were tried, the worst first. Printed, it reads as ``mooring drill`` shows it."""

    lose: str
    n: int
    losses: list[Loss]

    @property
    def is_safe(self) -> bool:
        """Report whether each of these losses does no harm."""
        return all(loss.is_harmless for loss in self.losses)

    @property
    def harmful(self) -> list[Loss]:
        return [loss for loss in self.losses if not loss.is_harmless]

    def to_list(self) -> list[dict[str, Any]]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return [loss.to_dict() for loss in self.losses]

    def __repr__(self) -> str:
        from mooring.whatif.drill_text import text

        return text(self)


def drill(
    cluster: Cluster,
    lose: str = "node",
    n: int = 1,
    *,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Drill:
    """Say what each loss would do. The cluster stays as it is.

    ``lose`` is ``"node"``, ``"zone"``, ``"label=KEY"``, or the name of one node or zone. With ``n=2`` two are lost at
    once: every pair is tried.
    """
    return drill_with(Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version), lose, n)


def drill_with(
    scheduler: Scheduler, lose: str = "node", n: int = 1, progress: Progress = lambda done, total: None
) -> Drill:
    """The same, asked of a scheduler and its cluster."""
    if n not in (1, 2):
        raise InputError(f"n: {n}; expected 1 or 2 losses at once")
    nodes = scheduler.cluster.nodes
    if not nodes:
        raise InputError("the cluster has no nodes to lose")
    tried = domains(nodes, lose, n)
    losses: list[Loss] = []
    for loss in _losses(Placing.of(scheduler), tried, len(nodes)):
        losses.append(loss)
        progress(len(losses), len(tried))
    return Drill(lose, n, sorted(losses, key=lambda loss: (tuple(-part for part in loss.harm), loss.lost)))


def _losses(base: Placing, tried: Sequence[Domain], num_nodes: int) -> Iterator[Loss]:
    base.state.nodes()  # laid out once, for all forks
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores < 2 or len(tried) * num_nodes < PARALLEL_FROM:
        yield from (lose(base, each.names, each.nodes) for each in tried)
        return
    # Forked processes share the cluster's memory; nothing of it is sent to them.
    forks = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, forks, _start_from.append, (base,)) as pool:
        yield from pool.map(_lose, tried, chunksize=20)


_start_from: list[Placing] = []  # in a forked process: what it forks for each loss


def _lose(domain: Domain) -> Loss:
    return lose(_start_from[0], domain.names, domain.nodes)
