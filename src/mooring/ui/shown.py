"""One record as the page shows it: its columns, its scheduler, and who may be asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mooring.framework.resolved import ResolvedPlugin
from mooring.queue.pending import wake_labels
from mooring.queue.profile import EVERYTHING
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Scheduler
from mooring.ui.timeline import OUTCOMES, PLACES, Kind, Timeline
from mooring.ui.why import MakeScheduler, Why


@dataclass(slots=True)
class Shown:
    """A record that the page shows."""

    title: str
    timeline: Timeline
    make_scheduler: MakeScheduler = Scheduler
    epoch: float = 0.0  # when it begins, in seconds since 1970; 0: its time is its own
    guide: str = ""  # which story of the course is told beside it
    why: Why = field(init=False)

    def __post_init__(self) -> None:
        self.why = Why(self.timeline, self.make_scheduler)

    def describe(self) -> dict[str, Any]:
        """What the page has to know before it reads columns."""
        scheduler = self.why.on(Cluster())
        return {
            "title": self.title,
            "epoch": self.epoch,
            "guide": self.guide,
            "isLive": not self.timeline.is_ended,
            "tables": list(self.timeline.tables),
            "kinds": [kind.name for kind in Kind],
            "places": list(PLACES),
            "outcomes": [outcome.value for outcome in OUTCOMES],
            "kubernetesVersion": scheduler.kubernetes_version,
            "profiles": _profiles(scheduler),
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
