"""The decision about a pod group: one Decision per pod, and what is said of the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.engine.decision import Decision
from mooring.framework.pod_groups import PodGroupInfo
from mooring.framework.status import SUCCESS, Status
from mooring.state.pod_info import PodInfo

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


@dataclass(slots=True)
class GroupDecision:
    """What became of a group. If it succeeded, the pods that have a node are bound; otherwise no pod is."""

    info: PodGroupInfo
    status: Status
    decisions: list[Decision]  # one per pod, in the order in which they are tried
    found: Mapping[str, str] = field(default_factory=dict)  # uid -> node, also where the group failed
    attempt_status: Status = SUCCESS  # the status before room was looked for: it says how the group is tried again
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0
    disruptions: int = 0
    post_filter_plugin: str = ""  # the plugin that chose the victims

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def condition(self) -> tuple[str, str, str]:
        """Status, reason and message of the condition PodGroupInitiallyScheduled."""
        if self.status.is_success:
            return "True", "Scheduled", self.message
        return "False", "Unschedulable" if self.status.is_rejected else "SchedulerError", self.message
