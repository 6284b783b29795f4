"""One record as the page shows it: its columns, its configuration, and the answers to questions about it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from mooring.framework.resolved import ResolvedPlugin
from mooring.queue.pending import wake_labels
from mooring.queue.profile import EVERYTHING
from mooring.record.entries import Configured
from mooring.record.moment import Moment
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Scheduler, registry_with
from mooring.ui.head import Head, head_of
from mooring.ui.moments import Moments
from mooring.ui.source import NewPart, Source
from mooring.ui.timeline import OUTCOMES, PLACES, Kind, Timeline
from mooring.ui.what_if import what_if
from mooring.ui.why import why

OWN_TIME = ("simulation", "scenario", "lesson")  # records whose time began when they began


class Shown:
    """A record that the page shows."""

    def __init__(self, title: str, source: Source, *, guide: str = "") -> None:
        self.title = title
        self.source = source
        self.generation = 0  # another number when what was long ago has been forgotten
        self.guide = guide  # which story of the course is told beside it
        self._near: Moments | None = None
        self._following: Timeline | None = None  # the timeline from the newest part on
        self._configured: dict[str, Any] | None = None  # since it was last configured anew
        self._head: tuple[Timeline, int, Head] | None = None

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self._begin.header.started)

    def refresh(self) -> None:
        """Take in what has happened since. One thread at a time; in the loop where the source belongs to it."""
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

    def _forget(self) -> tuple[Timeline, Timeline]:
        """A new part of the record begins: what is older than the part before it is forgotten."""
        if self._following is not None:
            self.timeline = self._following
            self.generation += 1
        self._following = Timeline(self._begin.header.started)
        return self.timeline, self._following

    def head(self) -> Head:
        """The last instant alone, which is small."""
        timeline = self.timeline
        if self._head is None or self._head[0] is not timeline or self._head[1] != len(timeline.events):
            self._head = timeline, len(timeline.events), head_of(timeline)
        return self._head[2]

    def close(self) -> None:
        """Let go of what questions have kept open; called where questions are answered."""
        if self._near is not None:
            self._near.close()
            self._near = None

    def moment(self, event: int) -> Callable[[], Moment]:
        """Gives the moment of the attempt at an event, in the thread in which questions are answered."""
        number = self.timeline.attempt_number(event)
        opener = self.source.opener(number)

        def moment() -> Moment:
            if self._near is None or not self._near.has(number):
                self.close()
                self._near = Moments(opener)
            return self._near.at(number)

        return moment

    def why(self, moment: Moment) -> dict[str, Any]:
        """Explain the attempt of a moment."""
        assert moment.attempt is not None
        if moment.attempt.profile not in self.scheduler.profiles:
            return {"problem": f"{moment.attempt.profile} decided this, a scheduler of its own: see what it says"}
        return why(moment, self.filters(moment.attempt.profile), self.timeline.nodes.number)

    def what_if(self, moment: Moment, question: Mapping[str, str]) -> dict[str, Any]:
        """Answer a question about a moment; the record stays as it is."""
        assert moment.attempt is not None
        filters = self.filters(moment.attempt.profile)
        return what_if(moment, question, self.source.plugins, filters, self.timeline.nodes.number)

    def filters(self, scheduler_name: str) -> list[str]:
        profile = self.scheduler.built.profiles.get(scheduler_name)
        return [] if profile is None else [plugin.name for plugin in profile.filter]

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler of the record's configuration, on an empty cluster."""
        version = str(self._begin.features.version)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about extenders that are not called: nobody asks this one anything
            config = self._begin.config if self._configured is None else self._configured
            return Scheduler(Cluster(), config, self.source.plugins, kubernetes_version=version)

    @cached_property
    def _begin(self) -> Moment:
        """The moment before the first: nothing is there but the configuration."""
        with self.source.opener()() as record:
            return Moment(record.header, registry_with(self.source.plugins)[0])

    def describe(self) -> dict[str, Any]:
        """What the page has to know before it reads columns."""
        header, config = self._begin.header, self._begin.config
        return {
            "title": self.title,
            "epoch": 0 if header.source in OWN_TIME else header.started,
            "guide": self.guide,
            "isLive": self.source.is_live,
            "tables": list(self.timeline.tables),
            "kinds": [kind.name for kind in Kind],
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
        for name, profile in scheduler.built.profiles.items()
    ]


def _wakes(plugin: ResolvedPlugin) -> list[str]:
    """The events after which a pod that this plugin refused is worth another attempt."""
    wanted = EVERYTHING if plugin.events_to_register is None else plugin.events_to_register()
    return list(wake_labels([each.event for each in wanted]))
