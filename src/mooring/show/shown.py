"""One record of the page: its columns, its configuration, and answers about it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.api.errors import MooringError
from mooring.ask.drill import Progress
from mooring.ask.scheduler import Scheduler, load
from mooring.core.cluster import Cluster
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.queue.pending import wake_labels
from mooring.core.queue.profile import EVERYTHING
from mooring.core.session import PluginReference, registry_with
from mooring.record.entries import Configured
from mooring.record.meter import measure_record
from mooring.record.moment import Moment
from mooring.show.dump import record_of
from mooring.show.source import LiveSource, Moments, NewPart, Opener, RecordBytes, RecordFile, Source
from mooring.show.timeline import NOBODY, OUTCOMES, PLACES, EventKind, PageTimeline
from mooring.show.what_if import what_if, why
from mooring.sim.library import built_in, find
from mooring.sim.player import run_in_virtual_time
from mooring.sim.scenario import Scenario
from mooring.sim.worlds import PlaySettings

# --------------------------------------------------------------------------------------------------------------------
# The last instant of a record alone, which the page shows first, while it reads the rest.
#
# It has the form of a record. On each node one pod stands for all of its pods; pending pods have their names.

MAX_WAITING = 1_000  # pending pods with names
IN_FLIGHT = PLACES.index("in-flight")
NOWHERE = 255
PODS = 2  # among the resources


@dataclass(frozen=True, slots=True)
class Head:
    """A small record, and counts that it cannot contain."""

    timeline: PageTimeline
    running: int  # pods on nodes
    waiting: list[int]  # pods by their place in the queue


def head_of(timeline: PageTimeline) -> Head:
    """Return the instant after the last event."""
    events = {name: np.array(column) for name, column in timeline.events.columns.items()}
    is_on = _last(events, (EventKind.ON, EventKind.OFF), len(timeline.pods), events["kind"]) == EventKind.ON
    on_node = np.where(is_on, _last(events, (EventKind.ON,), len(timeline.pods), events["node"]), NOBODY)
    kinds = (EventKind.NODE, EventKind.NODE_GONE)
    is_there = _last(events, kinds, len(timeline.nodes), events["kind"], by="node") == EventKind.NODE
    version = _last(events, (EventKind.NODE,), len(timeline.nodes), events["aux"], by="node")
    small = PageTimeline(0.0)
    small.now = float(events["time"][0]) if len(timeline.events) else 0.0  # it begins when the record begins
    _put_nodes(small, timeline, np.where(is_there, version, NOBODY))
    _put_used(small, timeline, on_node)
    waiting = _put_waiting(small, timeline, events)
    small.now = timeline.now
    small.happen(EventKind.BOUND)  # unknown, but it sets the time
    return Head(small, int(is_on.sum()), waiting)


def _last(
    events: dict[str, NDArray[Any]], kinds: tuple[EventKind, ...], rows: int, value: NDArray[Any], by: str = "pod"
) -> NDArray[np.int64]:
    """Return for each pod (or node) the value of its last event of these kinds; -1 without one."""
    found = np.full(rows, NOBODY, np.int64)
    which = np.isin(events["kind"], kinds)
    found[events[by][which]] = value[which]  # of several the last one stays
    return found


def _put_nodes(found: PageTimeline, timeline: PageTimeline, versions: NDArray[np.int64]) -> None:
    texts = timeline.texts.values
    for name in timeline.nodes.values:
        found.nodes.number(name)  # the same numbers as in the whole record
    for name in timeline.resources.values:
        found.resources.number(name)
    labels, allocatable, known = timeline.labels.columns, timeline.allocatable.columns, timeline.versions.columns
    starts = {
        name: np.searchsorted(np.array(table["version"]), np.arange(len(timeline.versions) + 1)).tolist()
        for name, table in (("labels", labels), ("allocatable", allocatable))
    }
    for node, version in enumerate(versions.tolist()):
        if version == NOBODY:
            continue
        row = found.versions.add(
            node, known["is_cordoned"][version], found.texts.number(texts[known["taints"][version]])
        )
        for i in range(starts["labels"][version], starts["labels"][version + 1]):
            key, value = texts[labels["key"][i]], texts[labels["value"][i]]
            found.labels.add(row, found.texts.number(key), found.texts.number(value))
        for i in range(starts["allocatable"][version], starts["allocatable"][version + 1]):
            found.allocatable.add(row, allocatable["resource"][i], allocatable["amount"][i])
        found.happen(EventKind.NODE, node=node, aux=row)


def _put_used(found: PageTimeline, timeline: PageTimeline, on_node: NDArray[np.int64]) -> None:
    """Add one pod per node that requests as much as all of its pods."""
    pod, resource, amount = (np.array(column) for column in timeline.requests.columns.values())
    at = on_node[pod]
    is_there = at != NOBODY
    resources, nodes = len(timeline.resources), len(timeline.nodes)
    used = np.bincount(at[is_there] * resources + resource[is_there], amount[is_there], nodes * resources)
    used = used.reshape(nodes, resources)
    pods = np.bincount(on_node[on_node != NOBODY], minlength=nodes)
    for node in np.flatnonzero(pods).tolist():
        row = found.pods.add(found.pod_names.number(""), 0, 0, NOBODY)
        for each, value in enumerate(used[node].tolist()):
            if value or each == PODS:
                found.requests.add(row, each, value if each != PODS else int(pods[node]) - 1)  # it counts by itself
        found.happen(EventKind.ON, pod=row, node=node)


def _put_waiting(found: PageTimeline, timeline: PageTimeline, events: dict[str, NDArray[Any]]) -> list[int]:
    """Add pending pods, with their last attempts; return how many are in each part of the queue."""
    kinds = (EventKind.PLACE, EventKind.ATTEMPT, EventKind.ON, EventKind.POD_GONE)
    last = _last(events, kinds, len(timeline.pods), np.arange(len(events["kind"])))
    kind, aux = events["kind"][last], events["aux"][last]
    place = np.where(kind == EventKind.PLACE, aux & 7, np.where(kind == EventKind.ATTEMPT, IN_FLIGHT, NOWHERE))
    place[last == NOBODY] = NOWHERE
    attempt = _last(events, (EventKind.ATTEMPT,), len(timeline.pods), np.arange(len(events["kind"])))
    shown = np.flatnonzero(place < IN_FLIGHT)[:MAX_WAITING].tolist()
    if timeline.attempt_events:  # the pod of the last attempt comes last, pending or not
        latest = int(events["pod"][timeline.attempt_events[-1]])
        shown = [*(pod for pod in shown if pod != latest), latest]
    for pod in shown:
        row = _row(found, timeline, pod)
        for event in dict.fromkeys((int(attempt[pod]), int(last[pod]))):
            if event != NOBODY and events["kind"][event] in (EventKind.ATTEMPT, EventKind.PLACE):
                _copy(found, timeline, events, event, row)
    return [int((place == each).sum()) for each in range(len(PLACES))]


def _row(found: PageTimeline, timeline: PageTimeline, pod: int) -> int:
    name = timeline.pod_names.values[timeline.pods.columns["name"][pod]]
    owner = timeline.texts.values[timeline.pods.columns["owner"][pod]]
    priority = timeline.pods.columns["priority"][pod]
    return found.pods.add(found.pod_names.number(name), priority, found.texts.number(owner), NOBODY)


def _copy(found: PageTimeline, timeline: PageTimeline, events: dict[str, NDArray[Any]], event: int, row: int) -> None:
    """Copy an event for the same pod under its number here."""
    texts = timeline.texts.values
    kind, node, aux, text, by = (int(events[name][event]) for name in ("kind", "node", "aux", "text", "by"))
    found.now = float(events["time"][event])
    found.happen(EventKind(kind), pod=row, node=node, aux=aux, text=texts[text], by=texts[by])


WHY, WHAT_IF = "why", "what-if"  # the clients
LARGE = 20_000  # pods of a record that takes a while to open
OWN_TIME = ("simulation", "scenario", "lesson")  # records with virtual time


class Shown:
    """A record that the page shows."""

    def __init__(self, title: str, source: Source, *, guide: str = "") -> None:
        self.title = title
        self.source = source
        self.generation = 0  # changes when old events were dropped
        self.guide = guide  # the story of the course that is shown beside it
        self._near: dict[str, Moments] = {}  # opened moments, by client
        self._following: PageTimeline | None = None  # the timeline since the newest part
        self._configured: dict[str, Any] | None = None  # since it was last reconfigured
        self._head: tuple[PageTimeline, int, Head] | None = None
        self._measured: tuple[tuple[int, int], dict[str, Any]] | None = None  # and the position then

    @cached_property
    def timeline(self) -> PageTimeline:
        return PageTimeline(self._begin.header.started)

    def refresh(self) -> None:
        """Process new events. One thread at a time; in the loop if the source belongs to it."""
        timeline, following = self.timeline, self._following
        for time, entry in self.source.news():
            if isinstance(entry, NewPart):
                timeline, following = self._forget()
                continue
            if isinstance(entry, Configured):
                self._configured = entry.configuration
                self.__dict__.pop("scheduler", None)
            timeline.take(time, entry)
            if following is not None:
                following.take(time, entry)

    def _forget(self) -> tuple[PageTimeline, PageTimeline]:
        """Begin a new part of the record: drop what is older than the part before it."""
        if self._following is not None:
            self.timeline = self._following
            self.generation += 1
        self._following = PageTimeline(self._begin.header.started)
        return self.timeline, self._following

    def head(self) -> Head:
        """Return the last instant alone, which is small."""
        timeline = self.timeline
        if self._head is None or self._head[0] is not timeline or self._head[1] != len(timeline.events):
            self._head = timeline, len(timeline.events), head_of(timeline)
        return self._head[2]

    def close(self, who: str = WHY) -> None:
        """Release what one client's questions have opened; called in its thread."""
        near = self._near.pop(who, None)
        if near is not None:
            near.close()

    def moment(self, event: int, who: str = WHY) -> Callable[[], Moment]:
        """Return a function for the moment of the attempt at an event, called in the client's thread.

        Threads that answer concurrently have their own moments: forks of one moment share what they intern.
        """
        number = self.timeline.attempt_number(event)
        opener = self.source.opener(number)
        return lambda: self._moments(who, opener, number).at(number)

    def last_moment(self, who: str = WHAT_IF) -> Callable[[], Moment]:
        """Gives the moment after everything that has happened so far, without an attempt, in the same thread."""
        opener, is_live = self.source.opener(), self.source.is_live

        def moment() -> Moment:
            if not is_live:
                return self._moments(who, opener).at_end()
            with opener() as record:
                return record.moment(record.last_time)

        return moment

    def get_ready(self, who: str) -> None:
        """Open a large record for the questions of a client before it asks, in the thread that answers them."""
        with suppress(MooringError):
            if not self.source.is_live and len(self.timeline.pods) > LARGE and self.timeline.attempt_events:
                self.moment(self.timeline.attempt_events[-1], who)()

    def _moments(self, who: str, opener: Opener, number: int = 0) -> Moments:
        """What is kept open for a client; opened anew where this attempt is far from it."""
        near = self._near.get(who)
        if near is None or (number and not near.has(number)):
            self.close(who)
            near = self._near[who] = Moments(opener)
        return near

    def measures(self) -> Callable[[], dict[str, Any]]:
        """Return a function that measures fragmentation as ``mooring report`` does, for any thread; times are as in
        events.
        """
        opener, length = self.source.opener(), len(self.timeline.events)

        def measure() -> dict[str, Any]:
            if self._measured is None or self._measured[0] != (self.generation, length):
                with opener() as record:
                    found = measure_record(record)
                begin = found.started_at - self._begin.header.started
                columns = {name: found.columns.get(f"fragmentation.{name}", []) for name in ("cpu", "memory")}
                times = [begin + at for at in found.columns["seconds"]]
                self._measured = (self.generation, length), {"time": times, **columns}
            return self._measured[1]

        return measure

    def why(self, moment: Moment) -> dict[str, Any]:
        """Explain the attempt of a moment."""
        assert moment.attempt is not None
        if moment.attempt.profile not in self.scheduler.profiles:
            return {"problem": f"{moment.attempt.profile} decided this, a scheduler of its own: see what it says"}
        return why(moment, self.filters(moment.attempt.profile), self.timeline.nodes.number)

    def what_if(
        self, moment: Moment, question: Mapping[str, str], progress: Progress = lambda done, of: None
    ) -> dict[str, Any]:
        """Answer a question about a moment; the record is not changed."""
        filters = self.filters(moment.attempt.profile) if moment.attempt is not None else []
        return what_if(moment, question, self.source.plugins, filters, self.timeline.nodes.number, progress)

    def filters(self, scheduler_name: str) -> list[str]:
        profile = self.scheduler.session.profiles.get(scheduler_name)
        return [] if profile is None else [plugin.name for plugin in profile.filter]

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler of the record's configuration, on an empty cluster."""
        version = str(self._begin.features.version)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about extenders, which are not called
            config = self._begin.config if self._configured is None else self._configured
            return Scheduler(Cluster(), config, self.source.plugins, kubernetes_version=version)

    @cached_property
    def _begin(self) -> Moment:
        """Return the moment before the first, which has only the configuration."""
        with self.source.opener()() as record:
            return Moment(record.header, registry_with(self.source.plugins)[0])

    def describe(self) -> dict[str, Any]:
        """Return what the page needs before it reads columns."""
        header, config = self._begin.header, self._begin.config
        return {
            "title": self.title,
            "epoch": 0 if header.source in OWN_TIME else header.started,
            "guide": self.guide,
            "isLive": self.source.is_live,
            "tables": list(self.timeline.tables),
            "kinds": [kind.name for kind in EventKind],
            "places": list(PLACES),
            "outcomes": list(OUTCOMES),
            "kubernetesVersion": header.kubernetes,
            "backoff": [config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds],
            "profiles": _profiles(self.scheduler),
        }


def _profiles(scheduler: Scheduler) -> list[dict[str, Any]]:
    return [
        {
            "schedulerName": name,
            "filter": [plugin.name for plugin in profile.filter],
            "score": [[plugin.name, weight] for plugin, weight in profile.score],
            "wakes": {plugin.name: _wakes(plugin) for plugin in profile.plugins.values()},
        }
        for name, profile in scheduler.session.profiles.items()
    ]


def _wakes(plugin: ResolvedPlugin) -> list[str]:
    """Return the events after which a pod that this plugin rejected is retried."""
    wanted = EVERYTHING if plugin.events_to_register is None else plugin.events_to_register()
    return list(wake_labels([each.event for each in wanted]))


# --------------------------------------------------------------------------------------------------------------------
# A story, played in virtual time to its end, as a record that the page shows.


def played(scenario: Scenario, *, seed: int = 0) -> Shown:
    """Play a story, and return its record."""
    source = source_for(scenario)
    settings = PlaySettings(level=0, write=lambda line: None, observers=(source.recorder,), seed=seed)
    run_in_virtual_time(scenario, settings)
    shown = Shown(scenario.title or scenario.name, source)
    shown.refresh()
    source.is_live = False
    return shown


def source_for(scenario: Scenario | None) -> LiveSource:
    """Return an observer of a story's scheduler, with the story's own plugins for repeated decisions."""
    plugins: tuple[PluginReference, ...] = ()
    if scenario is not None:
        plugins = (*scenario.plugins, *scenario.plugin_files)
    return LiveSource("scenario", plugins)


# --------------------------------------------------------------------------------------------------------------------
# Opening what a user names: the file of a record, a dump, or a story, which is played first.

STORIES = (".yaml", ".yml", ".py")
DUMP = ".json"  # output of kubectl get -o json


def is_story(name: str | Path) -> bool:
    """Report whether this is a story rather than the file of a record."""
    path = Path(name)
    return path.suffix in STORIES or (not path.exists() and str(name) in {each.name for each in built_in()})


def opened(name: str | Path, plugins: Iterable[PluginReference] = ()) -> Shown:
    """Open the record, dump or story of this name, read up to its present end."""
    if is_story(name):
        return played(find(str(name)))
    path = Path(name)
    is_dump = path.suffix == DUMP and path.exists()
    source = RecordBytes(record_of(load(path), plugins), plugins) if is_dump else RecordFile(path, plugins)
    found = Shown(path.name, source)
    found.refresh()
    return found
