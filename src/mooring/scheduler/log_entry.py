"""The decision log's observer: a sample of the decisions becomes lines of the log."""

from __future__ import annotations

from typing import Any

from mooring.api.times import format_micro_time
from mooring.clock import Clock, SystemClock
from mooring.engine.decision import Decision, Outcome
from mooring.framework.runtime import Profile
from mooring.observe.decision_log import DecisionLog
from mooring.observe.observer import SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo

MAX_NODES = 5
"""How many nodes' scores and reasons a line holds; the best first."""


class LoggedDecisions(SchedulerObserver):
    """Writes a sample of the decisions to a log."""

    def __init__(self, log: DecisionLog, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._is_sampled = False  # the decision that is being made

    def wants_detail(self) -> bool:
        self._is_sampled = self._log.is_sampled()
        return self._is_sampled

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        if self._is_sampled:
            self._log.record(log_entry(decision, profile, info.attempts, self._clock.now(), seconds))


def log_entry(decision: Decision, profile: Profile, attempt: int, now: float, seconds: float) -> dict[str, Any]:
    """The decision in plain data: bounded, whatever the size of the cluster."""
    pod = decision.pod.pod
    entry: dict[str, Any] = {
        "time": format_micro_time(now),
        "pod": pod.key,
        "uid": pod.uid,
        "profile": profile.scheduler_name,
        "attempt": attempt,
        "outcome": decision.outcome.value,
        "microseconds": round(seconds * 1e6),
        "nodes": decision.num_nodes,
        "evaluatedNodes": decision.evaluated_nodes,
        "feasibleNodes": decision.feasible_nodes,
    }
    if decision.outcome is Outcome.SCHEDULED:
        entry["node"] = decision.node
        entry["scores"] = _best_scores(decision)
        return entry
    entry |= {
        "reason": decision.reason,
        "message": decision.message,
        "plugins": sorted(decision.unschedulable_plugins | decision.pending_plugins),
    }
    if decision.nominated_node:
        entry["nominatedNode"] = decision.nominated_node
    if decision.victims:
        entry["victims"] = [victim.pod.key for victim in decision.victims]
    return entry


def _best_scores(decision: Decision) -> list[dict[str, Any]]:
    scores = decision.scores
    if scores is None:
        return []
    best = (-scores.totals).argsort(kind="stable")[:MAX_NODES].tolist()
    infos = scores.nodes.infos
    return [
        {
            "node": infos[i].name,
            "total": int(scores.totals[i]),
            "plugins": {plugin: int(column[i]) for plugin, column in scores.by_plugin.items()},
        }
        for i in best
    ]
