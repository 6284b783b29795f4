"""Pod groups: pods that are scheduled together, as Kubernetes since 1.37 and as scheduler-plugins have them."""

from __future__ import annotations

import msgspec

from mooring.api.meta import Condition, Object, Struct


class GangSchedulingPolicy(Struct):
    min_count: int = 0


class BasicSchedulingPolicy(Struct):
    """The pods belong together, but any number of them may run."""


class PodGroupSchedulingPolicy(Struct):
    """Exactly one of the two is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct):
    key: str = ""


class PodGroupSchedulingConstraints(Struct):
    topology: list[TopologyConstraint] = []  # at most one


class AllDisruptionMode(Struct):
    """The group is evicted as a whole."""


class DisruptionMode(Struct):
    """Without ``all`` the group's pods are evicted one by one."""

    all: AllDisruptionMode | None = None


class PodGroupResourceClaim(Struct):
    """A claim created, or held, for the whole group (gate DRAWorkloadResourceClaims)."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None  # none if no claim was needed


class PodGroupSpec(Struct):
    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(default_factory=PodGroupSchedulingPolicy)
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    resource_claims: list[PodGroupResourceClaim] = []
    preemption_policy: str | None = None  # used with the gate PodGroupPreemptionPolicy


class PodGroupStatus(Struct):
    conditions: list[Condition] = []
    resource_claim_statuses: list[PodGroupResourceClaimStatus] = []


class PodGroup(Object, kw_only=True):
    """A group of ``scheduling.k8s.io``. Pods name it in ``spec.schedulingGroup.podGroupName``."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)

    @property
    def minimum(self) -> int:
        """Number of pods that must run together; 1 for a group that is not a gang."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def is_evicted_as_one(self) -> bool:
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def topology_key(self) -> str:
        """Node label that must be equal for all pods of the group, or ""."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""


class CoschedulingSpec(Struct):
    min_member: int = 0
    schedule_timeout_seconds: int | None = None


class CoschedulingPodGroup(Object, kw_only=True):
    """A PodGroup of ``scheduling.x-k8s.io`` for the Coscheduling plugin, a different kind of the same name."""

    spec: CoschedulingSpec = msgspec.field(default_factory=CoschedulingSpec)

    @property
    def minimum(self) -> int:
        return max(self.spec.min_member, 1)
