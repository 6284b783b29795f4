"""Workload controllers, budgets and priorities: what spreading and preemption read of them."""

from __future__ import annotations

import msgspec

from mooring.api.meta import LabelSelector, Object, Struct


class SelectorSpec(Struct):
    """The spec of a ReplicaSet or StatefulSet, as far as spreading reads it."""

    selector: LabelSelector | None = None


class ReplicaSet(Object, kw_only=True):
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class StatefulSet(Object, kw_only=True):
    spec: SelectorSpec = msgspec.field(default_factory=SelectorSpec)


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, kw_only=True):
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(Object, kw_only=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class GangPolicy(Struct):
    min_count: int = 0


class SchedulingPolicy(Struct):
    gang: GangPolicy | None = None


class PodGroupSpec(Struct):
    """Of the 1.36 alpha PodGroup and of scheduler-plugins' PodGroup: the number that must run together."""

    scheduling_policy: SchedulingPolicy | None = None  # the alpha API
    min_member: int = 0  # scheduler-plugins
    schedule_timeout_seconds: int | None = None


class PodGroup(Object, kw_only=True):
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)

    @property
    def minimum(self) -> int:
        """How many pods must come together; a group that is no gang asks for one."""
        policy = self.spec.scheduling_policy
        if policy is not None and policy.gang is not None:
            return policy.gang.min_count
        return max(self.spec.min_member, 1)
