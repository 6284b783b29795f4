"""Two runs compared by their records: a simulation under two schedulers, or any two records of the same pods.

The outcome of each pod is read from the records. The cause of a move is found in the first record: the cluster is
restored to the pod's attempt, and the second scheduler's configuration decides there.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mooring.api.core import Pod
from mooring.ask.diff import Difference, PodMove, Sum, sum_of
from mooring.ask.sides import FOLLOWS, DifferenceCause, cause_of, goal, is_as_good
from mooring.core.engine.decision import ScheduleResult as EngineDecision
from mooring.core.explain.decision import Decision
from mooring.record.entries import Attempt, Configured, Evicted, Put
from mooring.record.meter import measure_record
from mooring.record.moment import Moment
from mooring.record.reader import Record

NOT_ASKED = DifferenceCause("not asked; --top N asks about N pods")


def diff_runs(before: Record, after: Record, *, causes: int = 20) -> Difference:
    """Compare the outcomes of pods in two runs. At most this many causes are searched; each takes a moment."""
    one, two = _Run.read(before), _Run.read(after)
    ends = {key: (one.node.get(key), two.node.get(key)) for key in dict.fromkeys([*one.pods, *two.pods])}
    found = Difference("run", len(ends))
    differing = sorted((key for key, nodes in ends.items() if nodes[0] != nodes[1]), key=one.when)
    for key in differing:
        cause, pair = _why(key, one, two) if len(found.moved) < causes else (NOT_ASKED, None)
        if cause is None:
            old, new = ends[key]
            found.equally_good[key] = (old or "", new or "")
            continue
        found.moved.append(PodMove(key, *ends[key], cause))
        if found.first is None and pair is not None and not cause.follows:
            found.first = pair
    found.messages = {
        key: (one.waits[key], two.waits[key])
        for key in one.waits
        if key in two.waits and one.waits[key] != two.waits[key]
    }
    found.sums = one.sum(), two.sum()
    return found


def diff_record(record: Record, configuration: dict[str, Any]) -> Difference:
    """Compare every recorded decision with that of another configuration at the same moment.

    Each moment is as recorded: the consequences of another decision are not simulated.
    """
    found = Difference("record", 0)
    first = next(record.attempts(), None)
    if first is None:
        return found
    moment, happened = record.from_attempt(first[1].number)
    seen: set[str] = set()
    counts = [[0, 0], [0, 0]]  # placed and not, on both sides
    for time, entry in happened:
        if isinstance(entry, Attempt):
            found.pods += 1
            moment.time = time
            new = _asked(moment, entry, configuration)
            counts[0][not entry.node] += 1
            counts[1][new.node is None] += 1
            if entry.key not in seen and (new.node or "") != entry.node:
                _note(found, moment, entry, new, seen)
        moment.apply(time, entry)
    old_sum, new_sum = (Sum(placed, waiting, 0, 0) for placed, waiting in counts)
    found.sums = old_sum, new_sum
    return found


def _note(found: Difference, moment: Moment, entry: Attempt, new: EngineDecision, seen: set[str]) -> None:
    if is_as_good(new, entry.node or None):
        found.equally_good[entry.key] = (entry.node, new.node or "")
        return
    seen.add(entry.key)
    old = _asked(moment, entry, None)
    found.moved.append(PodMove(entry.key, entry.node or None, new.node, cause_of(old, new)))
    if found.first is None:
        found.first = _shown(moment, entry, old), _shown(moment, entry, new)


@dataclass(slots=True)
class _Run:
    """Outcomes of the pods in one record."""

    record: Record
    pods: dict[str, None] = field(default_factory=dict)  # in order of arrival
    node: dict[str, str] = field(default_factory=dict)  # the last one of each pod that was not evicted
    number: dict[str, int] = field(default_factory=dict)  # of the deciding attempt, or of the last one
    evicted: int = 0
    waits: dict[str, str] = field(default_factory=dict)  # why pods are pending at the end
    placed: int = 0

    @classmethod
    def read(cls, record: Record) -> _Run:
        run = cls(record)
        for _, entry in record.entries():
            match entry:
                case Put(object=Pod() as pod):
                    run.pods.setdefault(pod.key)
                    if pod.spec.node_name and pod.key not in run.number:
                        run.node[pod.key] = pod.spec.node_name
                case Attempt(key=key, node=node, number=number):
                    if node:
                        run.node[key], run.number[key] = node, number
                        run.placed += 1
                    elif key not in run.node:
                        run.number[key] = number
                case Evicted(key=key):
                    run.node.pop(key, None)
                    run.evicted += 1
        run.waits = {each.key: each.message for each in record.moment(record.last_time).queue.values()}
        return run

    def when(self, key: str) -> tuple[int, str]:
        return self.number.get(key, 1 << 60), key

    @property
    def configuration(self) -> dict[str, Any]:
        return self.record.header.configuration

    def sum(self) -> Sum:
        cluster = self.record.moment(self.record.last_time).cluster
        found = sum_of(cluster, placed=self.placed, waiting=len(self.waits), evicted=self.evicted)
        row = measure_record(self.record).row
        return Sum(found.placed, found.waiting, found.evicted, found.nodes_in_use, found.use, found.spread, dict(row))


def _why(key: str, one: _Run, two: _Run) -> tuple[DifferenceCause | None, tuple[Decision, Decision] | None]:
    """Return the cause, and both decisions; no cause if the other node is as good."""
    number = one.number.get(key)
    if number is None:
        return FOLLOWS, None
    moment = one.record.attempt(number)
    attempt = moment.attempt
    assert attempt is not None
    new = _asked(moment, attempt, two.configuration)
    if goal(new) == (attempt.node or attempt.nominated or None):
        return FOLLOWS, None
    if is_as_good(new, attempt.node or None):
        return None, None
    old = _asked(moment, attempt, None)
    cause, there = cause_of(old, new), goal(new)
    if there != two.node.get(key):  # other pods had also moved before it
        cause = replace(cause, text=f"in the same cluster it would go to {there or 'no node'}: {cause.text}")
    return cause, (_shown(moment, attempt, old), _shown(moment, attempt, new))


def _asked(moment: Moment, attempt: Attempt, configuration: dict[str, Any] | None) -> EngineDecision:
    """Decide about the attempt's pod at this moment, under another configuration if there is one."""
    asked = copy(moment)
    asked.attempt = attempt
    if configuration is not None:
        asked = moment.fork()
        asked.apply(moment.time, Configured(configuration))
        asked.attempt = msgspec.structs.replace(attempt, hint="")  # the ranking of another configuration
    return asked.decide()


def _shown(moment: Moment, attempt: Attempt, decided: EngineDecision) -> Decision:
    return Decision(decided, attempt.profile, moment.state)
