"""What if: questions about a moment of a record, asked of a fork of its cluster. The record stays as it is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.errors import InputError
from mooring.record.moment import Moment
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import PluginReference, Scheduler
from mooring.ui.why import Row, told
from mooring.whatif.losing import lose
from mooring.whatif.placing import Placing

MAX_PLACED = 500  # waiting pods that are tried
MAX_ADDED = 100


def what_if(
    moment: Moment, question: Mapping[str, str], plugins: Sequence[PluginReference], filters: Sequence[str], row: Row
) -> dict[str, Any]:
    """Answer one of ``lose=NODE``, ``lose=LABEL=VALUE``, ``cordon=NODE`` and ``add=N&like=NODE``."""
    cluster = moment.cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = str(moment.features.version)
        scheduler = Scheduler(cluster, moment.config, plugins, kubernetes_version=version)
    if "lose" in question:
        return _lose(scheduler, question["lose"], row)
    if "cordon" in question:
        assert moment.attempt is not None
        return _cordon(scheduler, question["cordon"], moment.attempt.key, filters, row)
    if "add" in question:
        return _add(scheduler, question["add"], question.get("like", ""), row)
    raise InputError("what if: expected lose, cordon or add")


def _lose(scheduler: Scheduler, what: str, row: Row) -> dict[str, Any]:
    name, _, value = what.partition("=")
    cluster = scheduler.cluster
    nodes = [node.name for node in cluster.nodes if (node.labels.get(name) == value if value else node.name == name)]
    if not nodes:
        raise InputError(f"lose: no node is {what!r}")
    loss = lose(Placing.of(scheduler), (what,), nodes)
    return {
        "lost": [row(node) for node in nodes],
        "placed": {pod: row(node) for pod, node in loss.replaced.items()},
        "unplaced": loss.unplaced,
        "preempted": loss.preempted,
        "bare": loss.bare_pods,
        "budgets": loss.broken_budgets,
        "use": loss.use,
    }


def _cordon(scheduler: Scheduler, name: str, pod: str, filters: Sequence[str], row: Row) -> dict[str, Any]:
    with scheduler.cluster.fork() as fork:
        fork.cordon(name)
        found = scheduler.on(fork).explain(pod)
    return {"lost": [row(name)], "why": told(found, filters, row) | {"again": ""}}


def _add(scheduler: Scheduler, count: str, like: str, row: Row) -> dict[str, Any]:
    if not count.isdecimal() or not 1 <= int(count) <= MAX_ADDED:
        raise InputError(f"add: found {count!r}; expected a number from 1 to {MAX_ADDED}")
    fork: Cluster = scheduler.cluster.fork()
    added = fork.add(fork.get(f"node/{like}"), copies=int(count))
    placing = Placing.of(scheduler.on(fork))
    waiting = sorted(fork.pending, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp or "", pod.key))
    placed: dict[str, str] = {}
    unplaced: dict[str, str] = {}
    for pod in waiting[:MAX_PLACED]:
        decision = placing.place(placing.info(pod))
        if decision.node is None:
            unplaced[pod.key] = decision.message
        else:
            placed[pod.key] = decision.node
    known = {node.name for node in added}
    return {
        "lost": [],
        "added": sorted(known),
        "placed": {pod: -1 if node in known else row(node) for pod, node in placed.items()},
        "unplaced": unplaced,
    }
