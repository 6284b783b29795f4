"""The narration: inputs, the queue, each decision with its reasons, why a pod waits and which event woke it.

Every event becomes a :class:`NarratedNote`, which is printed as text or as a line of JSON. Nothing here decides
anything: it only renders the scheduler's own values.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.selectors import UNSCHEDULABLE
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.text import printable
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.framework.extender import EXTENDER_PLUGIN
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Status
from mooring.core.queue.events import (
    BACKOFF_COMPLETE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULED_POD_ADD,
    node_changes,
)
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.cluster import group_of
from mooring.live.events import InvolvedObject
from mooring.live.informers import Listener
from mooring.live.observer import SchedulerObserver

# --------------------------------------------------------------------------------------------------------------------
# Texts of the narration: objects, events, refusals and scores.

MAX_ROWS = 5
MAX_VERBOSE_ROWS = 20
MAX_REASONS = 6


def name_of(obj: Object) -> str:
    space = obj.metadata.namespace
    return obj.metadata.name if space in ("", "default") else f"{space}/{obj.metadata.name}"


def about(obj: Object) -> str:
    return f"{type(obj).__name__.lower()} {name_of(obj)}"


def plural(noun: str) -> str:
    if noun.endswith(("s", "x")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural(noun)}"


def detail(obj: Object) -> str:
    if isinstance(obj, Node):
        parts = ["unschedulable"] if obj.spec.unschedulable else []
        parts += [f"taint {text}" for text in shown_taints(obj)]
        return " " + ", ".join(parts) if parts else ""
    if isinstance(obj, Pod) and obj.spec.priority_class_name:
        return f" priority {obj.spec.priority_class_name}"
    return ""


def shown_taints(node: Node) -> list[str]:
    """Return the taints, without the one that only repeats that the node is cordoned."""
    return [f"{taint.key}:{taint.effect}" for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key]


def plain_event(event: ClusterEvent, old: Node, new: Node) -> str:
    label = event.label
    if old.spec.unschedulable != new.spec.unschedulable and "Taint" in label:
        return "no longer unschedulable" if old.spec.unschedulable else "unschedulable"
    if "Label" in label:
        before, after = old.metadata.labels, new.metadata.labels
        changed = [f"{key}={value}" for key, value in sorted(after.items()) if before.get(key) != value]
        changed += [f"{key} removed" for key in sorted(before) if key not in after]
        return "label " + ", ".join(changed)
    if "Taint" in label:
        return "taints " + (", ".join(shown_taints(new)) or "none")
    if "Allocatable" in label:
        return "allocatable changed"
    if "Annotation" in label:
        return "annotations changed"
    if "Condition" in label:
        ready = next((each for each in new.status.conditions if each.type == "Ready"), None)
        return "Ready is " + ("unknown" if ready is None else ready.status)
    return label


def refusal_rows(decision: ScheduleResult) -> list[str]:
    """Return table rows: how many nodes each filter refused, and why; the most frequent first."""
    if decision.statuses is None:
        return []
    rows = []
    groups = sorted(decision.statuses.groups(), key=lambda group: (-len(group[1]), group[0].plugin, group[0].message))
    for status, nodes in groups[:MAX_REASONS]:
        rows.append(f"✗ {many(len(nodes), 'node'):<9} {_refused_by(status):<20} {status.message}")
    if len(groups) > MAX_REASONS:
        rows.append(f"  … and {many(len(groups) - MAX_REASONS, 'more reason')}")
    return rows


def _refused_by(status: Status) -> str:
    """Return the plugin's name. Without one, it is an extender, or PreFilter plugins that the message names."""
    return status.plugin or ("PreFilter" if "didn't satisfy plugin(s)" in status.message else EXTENDER_PLUGIN)


def score_rows(decision: ScheduleResult, *, is_verbose: bool) -> list[str]:
    """Return the best nodes with the scores in which they differ."""
    scores = decision.scores
    if scores is None or not scores.by_plugin:
        return []
    count = len(scores.totals)
    limit = MAX_VERBOSE_ROWS if is_verbose else MAX_ROWS
    best = (-scores.totals).argsort(kind="stable")[: limit + 1].tolist()
    infos = scores.nodes.infos
    chosen = next((i for i in best if infos[i].name == decision.node), -1)
    if chosen < 0:  # one of very many with the same total
        chosen = next(i for i in range(count) if infos[i].name == decision.node)
    shown = [chosen, *(i for i in best if i != chosen)][:limit]
    names = {i: infos[i].name for i in shown}
    columns = {name: column for name, column in scores.by_plugin.items() if column.any()}
    telling = {name: each for name, each in columns.items() if is_verbose or each.min() != each.max()}
    width = max(map(len, names.values()))
    header = "  ".join(["  " + "node".ljust(width), "total", *telling])
    rows = [header]
    for i in shown:
        cells = [f"{int(column[i]):>{len(name)}}" for name, column in telling.items()]
        mark = "✓" if i == chosen else " "
        rows.append("  ".join([f"{mark} {names[i]:<{width}}", f"{int(scores.totals[i]):>5}", *cells]))
    if count > len(shown):
        rows.append(f"  … and {many(count - len(shown), 'more node')}")
    same = [f"{name} {int(column[0])}" for name, column in columns.items() if name not in telling]
    if same and count > 1:
        rows.append("  the same everywhere: " + ", ".join(same))
    return rows


QUIET, NORMAL, VERBOSE = 0, 1, 2

_UNTOLD = frozenset(("Namespace", "CSINode", "VolumeAttachment"))  # kinds that are not worth a line
_ORDINARY = frozenset((UNSCHEDULED_POD_ADD.label, BACKOFF_COMPLETE, POP_FROM_BACKOFF))
_CONDITION = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_CONDITION).label

_COLORS = {
    "say": "1",
    "decide": "1;36",
    "bound": "1;32",
    "waits": "33",
    "queue": "2",
    "expect": "32",
    "FAILED": "1;31",
    "error": "31",
    "victim": "31",
}


class NarratedNote(msgspec.Struct, frozen=True):
    """One event: seconds since the beginning, a word for its kind, a line, and details below it."""

    at_s: float
    kind: str
    text: str
    level: int = NORMAL
    table: tuple[str, ...] = ()
    fields: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Narrator(SchedulerObserver):
    """Turns events into notes and prints them immediately.

    It observes the scenario as its audience, the scheduler as an observer, and every object through :class:`Told`.
    """

    def __init__(
        self,
        clock: Clock,
        write: Callable[[str], None],
        *,
        level: int = NORMAL,
        as_json: bool = False,
        colored: bool = False,
        columns: int = 0,
    ) -> None:
        self._clock = clock
        self._start = clock.monotonic()
        self._write = write
        self._level = level
        self._as_json = as_json
        self._colored = colored
        self._columns = columns
        self._arrivals: list[tuple[str, str, str]] = []  # (verb, kind and detail, name) that are narrated as one line
        self._arrived_at = 0.0
        self.on_said: Callable[[str, str], None] | None = None  # also called with narrated texts, and a word
        self.failed_expectations = 0
        self.held_expectations = 0
        self.first_placement_s: float | None = None

    # ---- printing ----------------------------------------------------------------------------------------------

    def note(self, kind: str, text: str, *, level: int = NORMAL, table: Iterable[str] = (), **fields: Any) -> None:
        if level > self._level:
            return
        self._tell_arrivals()
        self._print(NarratedNote(self._clock.monotonic() - self._start, kind, text, level, tuple(table), fields))

    def _print(self, note: NarratedNote) -> None:
        if note.level > self._level:
            return
        if self._as_json:
            entry = {"seconds": round(note.at_s, 3), "type": note.kind, "text": note.text, **note.fields}
            self._write(json.dumps(entry, ensure_ascii=False))
            return
        kind = f"{note.kind:<7}"
        if self._colored and note.kind in _COLORS:
            kind = f"\x1b[{_COLORS[note.kind]}m{kind}\x1b[0m"
        first, *rest = self._wrapped(printable(note.text))
        self._write(f"{note.at_s:7.2f}s  {kind} {first}".rstrip())
        for line in rest:
            self._write(f"{'':17} {line}")
        for line in note.table:
            self._write(f"{'':17} {printable(line)}".rstrip())

    def _wrapped(self, text: str) -> list[str]:
        """Return the text in lines that fit beside the time and the word; a terminal would break it inside words."""
        room = self._columns - 18
        return (textwrap.wrap(text, room, break_on_hyphens=False) if room >= 20 else []) or [text]

    def finish(self) -> None:
        """Print the arrivals that are still collected."""
        self._tell_arrivals()

    # ---- the scenario ------------------------------------------------------------------------------------------

    def said(self, text: str) -> None:
        self._told("say", text)

    def expected(self, what: str, held: bool) -> None:
        if held:
            self.held_expectations += 1
        else:
            self.failed_expectations += 1
        self._told("expect" if held else "FAILED", what, held=held)

    def _told(self, kind: str, text: str, **fields: Any) -> None:
        self.note(kind, text, level=QUIET, **fields)
        if self.on_said is not None:
            self.on_said(text, kind)

    # ---- what comes in -----------------------------------------------------------------------------------------

    def came(self, new: Object) -> None:
        if self._level < NORMAL or (isinstance(new, Pod) and new.spec.node_name and not new.is_terminating):
            return  # nothing is narrated, or it was placed before the narration began
        self._arrive("+", type(new).__name__.lower() + detail(new), name_of(new))

    def changed(self, old: Object, new: Object) -> None:
        if isinstance(old, Node) and isinstance(new, Node):
            self._node_changed(old, new)
        elif isinstance(old, Pod) and isinstance(new, Pod):
            self._pod_changed(old, new)
        elif isinstance(old, PersistentVolumeClaim) and isinstance(new, PersistentVolumeClaim):
            if new.spec.volume_name and not old.spec.volume_name:
                self.note("volume", f"{name_of(new)} is bound to {new.spec.volume_name}")
        elif not isinstance(new, PersistentVolume):
            self.note("~", f"{type(new).__name__.lower()} {name_of(new)}", level=VERBOSE)

    def _node_changed(self, old: Node, new: Node) -> None:
        events = node_changes(old, new)
        if shown_taints(old) == shown_taints(new) and old.spec.unschedulable == new.spec.unschedulable:
            events = [event for event in events if "Taint" not in event.label]
        elif new.spec.unschedulable and not old.spec.unschedulable and not events:
            self.note("~", f"node {new.name}: unschedulable", node=new.name)
        if [event.label for event in events] == [_CONDITION] and not any(
            c.type == "Ready" for c in old.status.conditions
        ):
            return  # its kubelet has just come up
        if events:
            what = ", ".join(plain_event(event, old, new) for event in events)
            self.note("~", f"node {new.name}: {what}", node=new.name)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        name = name_of(new)
        if new.is_terminating and not old.is_terminating:
            self.note("-", f"pod {name} is to end" + (f" on {new.spec.node_name}" if new.spec.node_name else ""))
        elif old.status.phase != new.status.phase:
            self.note("pod", f"{name} is {new.status.phase}", pod=new.key, phase=new.status.phase)
        elif not new.spec.node_name and old.spec != new.spec:
            self.note("~", f"pod {name}: its spec changed", level=NORMAL)

    def left(self, old: Object) -> None:
        if isinstance(old, Pod) and old.status.phase == "Running" and not old.is_terminating:
            self.note("-", f"pod {name_of(old)} has ended", pod=old.key)
            return
        self._arrive("-", type(old).__name__.lower(), name_of(old))

    def _arrive(self, verb: str, what: str, name: str) -> None:
        now = self._clock.monotonic() - self._start
        if self._arrivals and (self._arrivals[-1][:2] != (verb, what) or now - self._arrived_at > 0.05):
            self._tell_arrivals()
        self._arrived_at = now
        self._arrivals.append((verb, what, name))

    def _tell_arrivals(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        if not arrivals:
            return
        verb, what, _ = arrivals[0]
        names = [name for _, _, name in arrivals]
        kind, _, detail = what.partition(" ")
        if len(names) == 1:
            text = f"{kind} {names[0]}"
        elif len(names) <= 4:
            text = f"{len(names)} {plural(kind)}: {', '.join(names)}"
        else:
            text = f"{len(names)} {plural(kind)}: {names[0]}, {names[1]} … {names[-1]}"
        if detail:
            text += f" ({detail})"
        self._print(NarratedNote(self._arrived_at, verb, text, NORMAL, (), {"kind": kind, "names": names}))

    # ---- the queue ---------------------------------------------------------------------------------------------

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        name = name_of(info.pod_info.pod)
        fields: dict[str, Any] = {"pod": info.key, "queue": place, "event": event}
        if event == SCHEDULE_ATTEMPT_FAILURE:
            why = ", ".join(sorted(info.rejectors))
            if place == "unschedulable":
                self.note(
                    "waits", f"{name} until something changes for {why}", plugins=sorted(info.rejectors), **fields
                )
            elif place == "backoff":
                self.note("waits", f"{name} for its backoff" + (f" ({why})" if why else ""), **fields)
            else:
                self.note("queue", f"{name} is retried immediately", **fields)
            return
        if place == "gated":
            self.note("waits", f"{name} is held back: {info.message or info.gating_plugin}", **fields)
            return
        if cause is not None:
            self.note("wakes", f"{name} → {place}: {event} ({about(cause)})", **fields)
            return
        level = VERBOSE if event in _ORDINARY else NORMAL
        self.note("queue", f"{name} → {place} ({event})", level=level, **fields)

    # ---- decisions ---------------------------------------------------------------------------------------------

    def wants_detail(self) -> bool:
        """Report whether decisions are narrated; their scores cost time."""
        return self._level >= NORMAL

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        name, attempt = name_of(decision.pod.pod), info.attempts
        again = f", attempt {attempt}" if attempt > 1 else ""
        fields: dict[str, Any] = {"pod": decision.pod.pod.key, "attempt": attempt, "outcome": decision.outcome.value}
        if decision.outcome is Outcome.SCHEDULED and self.first_placement_s is None:
            self.first_placement_s = self._clock.monotonic() - self._start
        if not self.wants_detail():
            return
        if decision.outcome is Outcome.SCHEDULED:
            fits = f"{decision.feasible_nodes} of {decision.num_nodes} nodes fit"
            if decision.num_nodes == 1:
                fits = "the only node fits"
            elif decision.feasible_nodes == 1:
                fits += "s"
            if decision.pod.pod.status.nominated_node_name == decision.node:
                fits = "its nominated node"
            elif decision.from_hint:
                fits = "next best for pods like it"
            rows = [*refusal_rows(decision), *score_rows(decision, is_verbose=self._level >= VERBOSE)]
            fields |= {"node": decision.node, "feasible": decision.feasible_nodes, "nodes": decision.num_nodes}
            if decision.scores is not None and self._as_json:
                fields["scores"], fields["totals"] = decision.scores.to_dict(), decision.scores.totals_dict()
            self.note("decide", f"{name} → {decision.node}  ({fits}{again})", table=rows, **fields)
            return
        fields |= {"reason": decision.reason, "message": decision.message}
        if decision.outcome is Outcome.ERROR:
            self.note("error", f"{name}: {decision.message}{again}", **fields)
            return
        if not decision.is_fit_error and (group := group_of(decision.pod.pod)):
            text = f"{name} waits with its group {group.rpartition('/')[2]}{again}"
            self.note("decide", text, table=[decision.message], **fields)
            return
        rows = refusal_rows(decision) or [decision.message]
        if decision.victims:
            victims = [victim.pod for victim in decision.victims]
            names = ", ".join(name_of(victim) for victim in victims)
            rows = [*rows, f"but {decision.nominated_node} has room without {names}"]
            fields |= {"nominatedNode": decision.nominated_node, "victims": [victim.key for victim in victims]}
        elif decision.post_filter_message and self._level >= VERBOSE:
            rows = [*rows, decision.post_filter_message]
        where = "on the only node" if decision.num_nodes == 1 else f"on any of {decision.num_nodes} nodes"
        self.note("decide", f"{name} does not fit {where}{again}", table=rows, **fields)

    def event(self, regarding: InvolvedObject, reason: str, note: str) -> None:
        """An Event that the scheduler writes about a pod."""
        space = "" if regarding.namespace in ("", "default") else f"{regarding.namespace}/"
        name = space + regarding.name
        if reason == "Scheduled":
            node = note.rpartition(" ")[2]
            self.note("bound", f"{name} to {node}", pod=name, node=node)
        elif reason == "Preempted":
            self.note("victim", f"{name}: {note}", pod=name)
        elif reason == "FailedScheduling":
            self.note("event", f"{name}: {note}", level=VERBOSE, pod=name, reason=reason)
        else:
            self.note("event", f"{name}: {reason}: {note}", pod=name, reason=reason)

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        pod = info.pod_info.pod
        self.note("permit", f"{name_of(pod)} holds {node_name} and waits for {', '.join(plugins)}", pod=pod.key)

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        pod = info.pod_info.pod
        self.note("error", f"{name_of(pod)}: {message}", pod=pod.key)


class Told:
    """Forwards objects to the scheduler; the narrator sees each change first."""

    def __init__(self, scheduler: Listener, narrator: Narrator) -> None:
        self._scheduler, self._narrator = scheduler, narrator

    def put(self, obj: Object) -> None:
        self.update(None, obj)

    def update(self, old: Object | None, new: Object) -> None:
        if type(new).__name__ not in _UNTOLD:
            if old is None:
                self._narrator.came(new)
            else:
                self._narrator.changed(old, new)
        self._scheduler.put(new)

    def delete(self, obj: Object) -> None:
        if type(obj).__name__ not in _UNTOLD:
            self._narrator.left(obj)
        self._scheduler.delete(obj)
