"""A moment of a record: the cluster and the queue as they were, and a scheduler to repeat decisions.

The event handlers of the live scheduler maintain the cluster. The queue is not simulated: the record has the place of
each pod.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

import msgspec

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.pod_groups import PodGroup
from mooring.api.version import release_of
from mooring.core.cluster import Cluster
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.config.versions import nearest_version
from mooring.core.engine.batching import Batching
from mooring.core.engine.decision import CycleAttempt as EngineAttempt
from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.explain.why import Explanation, explain, explain_with
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.handle import Handle, Nominations
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.framework.registry import Registry
from mooring.core.framework.runtime import Profile
from mooring.core.queue.events import SCHEDULE_ATTEMPT_FAILURE
from mooring.core.session import Session, open_session
from mooring.core.state import cluster as columns
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.sharing import Overlay
from mooring.live.event_handlers import EventHandlers
from mooring.record import entries
from mooring.record.packing import RECORDED
from mooring.record.scheduler_state import ALL, RecordedExtender, Reservations, may_reserve

FOREIGN = ("watch", "lesson")  # sources with another scheduler


class QueuedPod(msgspec.Struct):
    """A pending pod."""

    key: str
    uid: str
    place: str  # "active", "backoff", "unschedulable", "gated" or "in-flight"
    since: float  # seconds since the epoch: entry into this place
    added: float  # first entry into the queue
    tries: int = 0
    event: str = ""  # the event that moved it there
    cause: str = ""  # the object of that event
    message: str = ""  # why its last attempt failed
    plugins: tuple[str, ...] = ()  # that rejected it
    entered: float = 0.0  # last entry as a new or a failed pod


class Moment:
    """Objects, assumptions, nominations and the queue at one time. ``attempt`` is the next one, if requested."""

    def __init__(
        self,
        header: entries.Header,
        registry: Registry | None = None,
        to_reserve: Container[int] = ALL,
        record: str = "",
    ) -> None:
        """``registry`` has the plugins of the recorded configuration; by default the in-tree ones.

        Attempts with these numbers are repeated on the way if they reserve volumes or devices.
        """
        self.header = header
        self.record = record  # the file that it is read from, if any
        self._registry = registry or in_tree_registry()
        self.to_reserve = to_reserve
        self.unreserved: dict[str, int] = {}  # uid -> attempt whose reservations are missing here; 0: unknown attempt
        self._reservations: Reservations | None = None
        self._group: tuple[entries.GroupAttempt, Moment] | None = None  # the last attempt at a group, and its moment
        self.time = header.started
        self.attempt: entries.Attempt | None = None
        self.queue: dict[str, QueuedPod] = {}  # by uid, in the order of entering
        self.state = columns.ClusterState()  # assumed pods are counted
        self.pods: MutableMapping[str, Pod] = {}  # as the API server last told of them, by namespace/name
        self.nominated: dict[str, tuple[str, ...]] = {}  # node -> uids
        self.waiting: set[str] = set()  # uids of pods that wait on Permit plugins
        self._configuration = header.configuration
        self._extenders = [RecordedExtender(each) for each in header.extenders]
        self._picks: Iterator[int] = iter(())
        self.features = _features(header)
        self.state.count_resizes(whole=self.features["ResizesCountWholePods"])
        self._handlers = _HandlersOfRecord(self)

    def fork(self) -> Moment:
        """Return a copy; later changes of one do not affect the other."""
        fork = Moment.__new__(Moment)
        fork.__dict__.update(self.__dict__)
        fork.state = self.state.fork()
        self.pods = Overlay(self.pods)  # earlier pods are below both, and read-only
        self._handlers = _HandlersOfRecord(self)
        fork.pods, fork.waiting = Overlay(self.pods), set(self.waiting)
        fork.queue = {uid: copy(waiting) for uid, waiting in self.queue.items()}
        fork.nominated = dict(self.nominated)
        fork.unreserved, fork._reservations = dict(self.unreserved), None
        if self._reservations is not None:
            fork.unreserved |= dict.fromkeys(self._reservations.uids, 0)
        fork._handlers = _HandlersOfRecord(fork)
        return fork

    # ---- applying entries -------------------------------------------------------------------------------------------

    def apply(self, time: float, entry: entries.Happened) -> None:
        """Apply the next entry."""
        self.time = time
        act = _ACTS.get(type(entry))  # a table is faster than isinstance checks
        if act is not None:
            act(self, time, entry)

    def apply_all(self, happened: Iterable[tuple[float, entries.Happened]], number: int = 0) -> bool:
        """Apply entries up to an attempt, which is then open; return whether it occurred.

        Consecutive pods, as in a keyframe, are counted together.
        """
        pods: dict[str, Pod] = {}  # new ones with nodes, not counted yet
        uids: set[str] = set()
        is_open = False
        for time, entry in happened:
            if type(entry) is entries.Put:
                pod = entry.object
                if type(pod) is Pod and pod.spec.node_name:
                    key, uid = pod.key, pod.metadata.uid
                    is_new = key not in self.pods and key not in pods and uid not in uids
                    if is_new and not pod.is_finished and self.state.pod(uid) is None:
                        self.time = time
                        pods[key] = pod
                        uids.add(uid)
                        continue
            if pods:
                self._add_pods(pods)
                pods, uids = {}, set()
            if type(entry) is entries.Attempt and entry.number == number:
                self.time, self.attempt, is_open = time, entry, True
                break
            self.apply(time, entry)
        if pods:
            self._add_pods(pods)
        return is_open

    def _add_pods(self, pods: dict[str, Pod]) -> None:
        """Process new pods with nodes as the handlers do."""
        self.pods.update(pods)
        self.state.add_pods(list(pods.values()))

    def _put(self, time: float, entry: entries.Put) -> None:
        self._handlers.put(entry.object)

    def _group_attempted(self, time: float, entry: entries.GroupAttempt) -> None:
        """Keep the moment: the attempts at the group's pods, which follow, were decided in it."""
        self._group = None
        before = self.fork()
        self._group = entry, before

    def _bound(self, time: float, entry: entries.Bound) -> None:
        self.queue.pop(entry.uid, None)
        self.waiting.discard(entry.uid)
        self._release(entry.uid)

    def _failed(self, time: float, entry: entries.Failed) -> None:
        self.waiting.discard(entry.uid)
        self._release(entry.uid)
        self.state.forget(entry.uid)
        if entry.uid in self.queue:
            self.queue[entry.uid].message = entry.message

    def _nominate(self, time: float, entry: entries.Nominated) -> None:
        self.nominated.pop(entry.node, None)
        if entry.uids:
            self.nominated[entry.node] = entry.uids

    def _configure(self, time: float, entry: entries.Configured) -> None:
        self._configuration = entry.configuration
        self._extenders = [RecordedExtender(each) for each in entry.extenders]
        self._reservations = None  # its plugins belong to the former configuration

    def _queued(self, time: float, entry: entries.Queued) -> None:
        self.queue[entry.uid] = QueuedPod(
            entry.key,
            entry.uid,
            entry.place,
            entry.since,
            entry.added,
            entry.tries,
            entry.event,
            entry.cause,
            entry.message,
            entry.plugins,
            entry.since,
        )

    def _assumed(self, time: float, entry: entries.Assumed) -> None:
        assumed = self._assume(entry.uid, entry.node)
        if assumed is not None and may_reserve(assumed.pod, self.state):
            self.unreserved[entry.uid] = 0
        if entry.is_waiting:
            self.waiting.add(entry.uid)

    def _wait(self, time: float, entry: entries.Waiting) -> None:
        self.waiting.add(entry.uid)

    def _waited(self, time: float, entry: entries.Waited) -> None:
        self.waiting.discard(entry.uid)

    def _gap(self, time: float, entry: entries.Gap) -> None:
        """Process a gap: the whole state follows, and objects missing from it are removed."""
        self.queue.clear()
        self.nominated.clear()
        self.waiting.clear()
        for info in self.state.pods():
            self.state.forget(info.uid)

    def _delete(self, time: float, entry: entries.Deleted) -> None:
        known = self.pods.get(entry.key) if entry.kind == "Pod" else None
        is_known = known is not None and known.uid == entry.uid
        self._handlers.delete(known if known is not None and is_known else _stub(entry))

    def _move(self, time: float, entry: entries.Moved) -> None:
        known = self.queue.get(entry.uid)
        if known is None:
            self.queue[entry.uid] = QueuedPod(
                entry.key, entry.uid, entry.place, time, time, 0, entry.event, entry.cause, entered=time
            )
        else:
            if entry.event == SCHEDULE_ATTEMPT_FAILURE:
                known.entered = time
                self.queue[entry.uid] = self.queue.pop(entry.uid)  # pods that enter at the same time have an order
            known.place, known.since, known.event, known.cause = entry.place, time, entry.event, entry.cause

    def _attempted(self, time: float, entry: entries.Attempt) -> None:
        known = self.queue.get(entry.uid)
        if known is None:
            known = self.queue[entry.uid] = QueuedPod(entry.key, entry.uid, entries.IN_FLIGHT, time, time)
        known.place, known.since = entries.IN_FLIGHT, time
        known.tries, known.plugins = entry.tries, entry.plugins
        if entry.node:
            self._place(entry)

    def _place(self, entry: entries.Attempt) -> None:
        pod = self.pods.get(entry.key)
        if pod is None or pod.uid != entry.uid or not may_reserve(pod, self.state) or self.header.source in FOREIGN:
            self._assume(entry.uid, entry.node, entry.key)
        elif entry.number not in self.to_reserve:
            self._assume(entry.uid, entry.node, entry.key)
            self.unreserved[entry.uid] = entry.number
        else:
            held = self._reserving()
            self._set_up(held.session, entry.start, entry.picks, {entry.uid: entry.hint}, entry.answers or ())
            profile = held.session.profile_for(pod)
            decision = held.session.engine.decide(self.state.info(pod), profile)
            assumed = self._assume(entry.uid, entry.node, entry.key)
            if assumed is not None:
                held.hold(profile, decision, assumed)

    def _release(self, uid: str) -> None:
        self.unreserved.pop(uid, None)
        if self._reservations is not None:
            self._reservations.release(uid)

    def _assume(self, uid: str, node: str, key: str | None = None) -> PodInfo | None:
        if key is not None:
            pod = self.pods.get(key)
        else:
            told = reversed(self.pods.values())  # type: ignore[call-overload]  # of a dict, also in an overlay
            pod = next((pod for pod in told if pod.uid == uid), None)
        if pod is None or pod.uid != uid or self.state.pod(uid) is not None:
            return None
        return self.state.assume(self.state.info(pod), node)

    # ---- queries ----------------------------------------------------------------------------------------------------

    @property
    def config(self) -> KubeSchedulerConfiguration:
        """The configuration at that time."""
        return config_from_dict(self._configuration, self.features)

    @property
    def cluster(self) -> Cluster:
        """The cluster for questions, with every pod where the scheduler counted it: a fork of what is counted here."""
        counted = {info.uid: info.pod for info in self.state.pods()}
        waiting = [pod for pod in self.pods.values() if pod.uid not in counted]
        cluster = Cluster.of(self.state.fork(), (*counted.values(), *waiting), self.nominations())
        cluster.release = release_of(self.header.kubernetes)
        cluster.records = (self.record,) if self.record else ()
        return cluster

    def nominations(self) -> Nominations:
        """The nominations that attempts take into account."""
        found = Nominations()
        by_uid = {pod.uid: pod for pod in self.pods.values()} if self.nominated else {}
        for node, uids in self.nominated.items():
            for uid in uids:
                if uid in by_uid:
                    found.nominate(self.state.info(by_uid[uid]), node)
        return found

    # ---- repeating decisions ---------------------------------------------------------------------------------------

    def decide(self) -> ScheduleResult:
        """Repeat the decision about the attempt's pod, from the same state and configuration."""
        return self._decided()[0]

    def explain(self) -> Explanation:
        """Return what ``mooring explain`` would have printed at that moment."""
        decided, session, profile = self._decided()
        return explain(session, decided, profile)

    def explain_with(self, suggestion: str) -> Explanation:
        """Return the decision at that moment if one of the suggestions, given by its text, were followed."""
        decided, session, profile = self._decided()
        for each in explain(session, decided, profile).suggestions:
            if each.text == suggestion and each.remedy:
                return explain_with(session, decided, profile, each)
        raise InputError(f"no suggestion {suggestion!r} that can be tried")

    def _decided(self) -> tuple[ScheduleResult, Session, Profile]:
        session, pod = self._session()
        profile, number = session.profile_for(pod), self.attempt.number if self.attempt else 0
        if self._group is not None:
            group, before = self._group
            if group.first <= number < group.first + len(group.uids):
                return before._decided_in_group(group, number - group.first)
        return session.engine.decide(session.engine.cluster.info(pod), profile), session, profile

    def _decided_in_group(self, entry: entries.GroupAttempt, place: int) -> tuple[ScheduleResult, Session, Profile]:
        """Repeat the decision about a whole group; return that about one of its pods."""
        group = self.state.objects.get(PodGroup, entry.group)
        by_uid = {pod.uid: pod for pod in self.pods.values()}
        if group is None or not by_uid.keys() >= set(entry.uids):
            number = entry.first + place
            raise InputError(f"attempt {number}: pod group {entry.group} is not in the record at that time")
        session = self._build(self.state.fork(), self.nominations())
        self._set_up(session, entry.start, entry.picks, dict(zip(entry.uids, entry.hints, strict=False)))
        pods = [session.engine.cluster.info(by_uid[uid]) for uid in entry.uids]
        profile = session.profile_for(pods[place].pod)
        return session.groups(profile).decide(PodGroupInfo(group, pods)).decisions[place], session, profile

    def difference(self, decision: ScheduleResult | Explanation) -> str:
        """Return how a decision differs from the recorded one, in a few words; "" if it does not."""
        attempt = self.attempt
        assert attempt is not None, "an attempt is open"
        found = decision.decided if isinstance(decision, Explanation) else decision
        if (found.node or "") != attempt.node:
            return f"{attempt.node or attempt.message or attempt.outcome}, now {found.node or found.message}"
        if not attempt.node and found.message != attempt.message:
            return f"{attempt.message!r}, now {found.message!r}"
        victims = tuple(victim.pod.key for victim in found.victims)
        if victims != attempt.victims:
            return f"victims {', '.join(attempt.victims) or 'none'}, now {', '.join(victims) or 'none'}"
        total = None if found.scores is None else found.scores.best
        if attempt.score not in (None, total):
            return f"a total of {attempt.score} for {attempt.node}, now {total}"
        return ""

    @property
    def lacks_answers(self) -> bool:
        """Report whether extenders were asked in the open attempt, and their answers are not in the record."""
        attempt = self.attempt
        is_in_group = self._group is not None and attempt is not None and attempt.uid in self._group[0].uids
        return attempt is not None and (attempt.answers is None or (is_in_group and bool(self._extenders)))

    def _session(self) -> tuple[Session, Pod]:
        attempt = self.attempt
        if attempt is None:
            raise InputError("no attempt is open: open one by its number")
        pod = self.pods.get(attempt.key)
        if pod is None or pod.uid != attempt.uid:
            raise InputError(f"attempt {attempt.number}: pod {attempt.key} is not in the record at that time")
        held = self._reservations
        session = self._build(self.state.fork(), self.nominations()) if held is None else self._reserving().session
        hints, answers = {attempt.uid: attempt.hint}, attempt.answers or ()
        return self._set_up(session, attempt.start, attempt.picks, hints, answers), pod

    def _reserving(self) -> Reservations:
        """The plugins that hold reservations; the nominations are the current ones."""
        if self._reservations is None:
            nominations = self.nominations()
            self._reservations = Reservations(self._build(self.state, nominations), nominations)
        else:
            now = self.nominations()
            self._reservations.nominate([(info, node) for node in self.nominated for info in now.nominated_pods(node)])
        return self._reservations

    def _build(self, cluster: columns.ClusterState, nominations: Nominations) -> Session:
        def prepare(handle: Handle) -> None:
            handle.pods = self.pods
            handle.pick = lambda n: min(next(self._picks, 0), n - 1)

        return open_session(
            self.config,
            cluster,
            clock=_ClockOf(self),
            nominator=nominations,
            registry=self._registry,
            features=self.features,
            prepare=prepare,
            extenders=self._extenders,
            takes_all=self.header.source in (*FOREIGN, "question"),  # our first profile decides for unknown ones
        )

    def _set_up(
        self,
        session: Session,
        start: int,
        picks: Sequence[int],
        hints: Mapping[str, str],
        answers: Sequence[entries.Answered] = (),
    ) -> Session:
        """Restore the engine's state at an attempt; ``hints`` are nodes by the pods' uids."""
        for extender in self._extenders:
            extender.open(answers)
        self._picks = iter(picks)
        session.engine.search.next_start = start
        session.engine.batching = _RecordedHints(hints)
        return session


class _ClockOf:
    """A clock fixed at the moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def now(self) -> float:
        return self._moment.time

    def monotonic(self) -> float:
        return self._moment.time


class _RecordedHints(Batching):
    """Proposes the recorded nodes: batching itself is not simulated."""

    def __init__(self, nodes: Mapping[str, str]) -> None:
        super().__init__(VirtualClock(), is_enabled=False, has_extenders=False)
        self._nodes = nodes

    def concerns(self, profile: Profile) -> bool:
        return bool(self._nodes)

    def sign(self, attempt: EngineAttempt) -> Hashable:
        return None

    def hint(self, attempt: EngineAttempt, signed: Hashable) -> int | None:
        info = attempt.nodes.table.nodes.get(self._nodes.get(attempt.pod.uid, ""))
        return None if info is None or info.row < 0 else info.row

    def remember(self, *_: object) -> None:
        pass


class _HandlersOfRecord(EventHandlers):
    """Event handlers for a record's view of the cluster; pending pods are also tracked."""

    def __init__(self, moment: Moment) -> None:
        # Handlers use only these methods of a queue.
        super().__init__(moment.state, _QueueOfRecord(moment), moment.pods)  # type: ignore[arg-type]
        self._waiting = moment.waiting

    def _reject_waiting_pod(self, uid: str) -> bool:
        return uid in self._waiting


class _QueueOfRecord:
    """Replaces the queue for event handlers. The record has the place of pods; only deleted pods must be removed."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def handles(self, scheduler_name: str) -> bool:
        return True

    def delete(self, pod: Pod) -> None:
        self._moment.queue.pop(pod.uid, None)

    def add(self, pod: PodInfo) -> None:
        pass

    def update(self, old: Pod | None, new: PodInfo) -> None:
        pass

    def move_all(self, *event: object) -> None:
        pass

    def pod_changes(self, old: Pod, new: Pod) -> Sequence[ClusterEvent]:
        return ()

    def put_group(self, group: PodGroup) -> None:
        pass

    def delete_group(self, group: PodGroup) -> None:
        pass

    def get(self, key: str) -> None:
        return None

    def is_in_flight(self, uid: str) -> bool:
        return False


def _features(header: entries.Header) -> Features:
    version = nearest_version(release_of(header.kubernetes))[0]
    return Features(version, **{name: on for name, on in header.gates.items() if name in version.gates})


def _stub(entry: entries.Deleted) -> Any:
    """Return an object of which only the name is known."""
    obj = RECORDED[entry.kind]()
    obj.metadata.namespace, _, obj.metadata.name = entry.key.rpartition("/")
    obj.metadata.uid = entry.uid
    return obj


_ACTS: dict[type, Callable[[Moment, float, Any], None]] = {
    entries.Put: Moment._put,
    entries.Deleted: Moment._delete,
    entries.Configured: Moment._configure,
    entries.Attempt: Moment._attempted,
    entries.GroupAttempt: Moment._group_attempted,
    entries.Bound: Moment._bound,
    entries.Failed: Moment._failed,
    entries.Moved: Moment._move,
    entries.Waiting: Moment._wait,
    entries.Waited: Moment._waited,
    entries.Nominated: Moment._nominate,
    entries.Gap: Moment._gap,
    entries.Queued: Moment._queued,
    entries.Assumed: Moment._assumed,
}
