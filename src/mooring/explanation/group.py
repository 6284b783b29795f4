"""Why a pod group is scheduled, or not: how many of its pods fit, what the others lack, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from mooring.api.core import Pod
from mooring.api.pod_groups import BasicSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from mooring.engine.build import Built
from mooring.engine.groups.decision import GroupDecision
from mooring.explanation.suggestion import Suggestion
from mooring.explanation.why import Explanation, explain_pod
from mooring.framework.pod_groups import PodGroupInfo
from mooring.framework.runtime import run_pre_enqueue
from mooring.state.cluster import Cluster
from mooring.state.quantity_text import spoken, written

SHORT = "Insufficient "


@dataclass(slots=True)
class GroupExplanation:
    """A decision about a group with everything worth saying about it."""

    group: PodGroup
    pods: Sequence[Pod]  # those without a node, in the order in which they are tried
    running: int  # pods of the group that have a node already
    held: str = ""  # why the group is not tried at all, or nothing
    decided: GroupDecision | None = None
    nodes: dict[str, str] = field(default_factory=dict)  # pod key -> node, of as many pods as fit, enough or not
    refusals: dict[str, str] = field(default_factory=dict)  # pod key -> why it has no node beside those that fit
    rest: Explanation | None = None  # of the first pod that does not fit beside those that do
    requests: dict[str, int] = field(default_factory=dict)  # what that pod asks for

    @property
    def is_scheduled(self) -> bool:
        return self.decided is not None and self.decided.status.is_success

    @property
    def message(self) -> str:
        """What people read in the group's condition, or what holds its pods back."""
        return self.held if self.decided is None else self.decided.message

    @property
    def suggestions(self) -> list[Suggestion]:
        """What would help the first pod that does not fit, without harm to others of its group."""
        own = {pod.key for pod in self.pods}
        found = [] if self.rest is None else self.rest.suggestions
        return [each for each in found if not own.intersection(each.text.replace(",", " ").split())]

    @property
    def headline(self) -> str:
        """One sentence: ``3 of 8 pods of group train-1 fit; 5 more need 8 nvidia.com/gpu each``."""
        name, total = self.group.name, self.running + len(self.pods)
        if self.held:
            there = f"{total} of the {self.group.minimum} pods" if total < self.group.minimum else f"{total} pods"
            return f"group {name} is held back: {there} are there"
        fit = self.running + len(self.nodes)
        if fit == total:
            return f"all {total} pods of group {name} fit"
        missing = total - fit
        enough = f" ({self.group.minimum} are enough)" if self.is_scheduled else ""
        return f"{fit} of {total} pods of group {name} fit{enough}; {missing} more {self._lack(missing)}"

    def _lack(self, missing: int) -> str:
        """What the pods that do not fit ask for and do not find."""
        if self.rest is None:
            return "find no node"
        each = " each" if missing > 1 else ""
        reasons = {reason for refusal in self.rest.refusals for reason in refusal.reasons}
        short = sorted(reason.removeprefix(SHORT) for reason in reasons if reason.startswith(SHORT))
        requests = self.requests
        wanted = [f"{written(name, requests[name])} {spoken(name)}" for name in short if requests.get(name)]
        needs = "need" if missing > 1 else "needs"
        return f"{needs} {' and '.join(wanted)}{each}" if wanted else "find no node"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "podGroup": self.group.key,
            "outcome": "held" if self.held else "scheduled" if self.is_scheduled else "unschedulable",
            "headline": self.headline,
            "message": self.message,
            "minCount": self.group.minimum,
            "running": self.running,
            "fits": self.running + len(self.nodes),
            "pods": [
                {"pod": pod.key, "node": self.nodes.get(pod.key), "message": self.refusals.get(pod.key, "")}
                for pod in self.pods
            ],
            "victims": sorted(each.pod.key for each in self.decided.victims) if self.decided is not None else [],
            "suggestions": [each.text for each in self.suggestions],
            "notes": [] if self.rest is None else self.rest.notes,
        }


def explain_group(built: Built, group: PodGroup, pods: Sequence[Pod]) -> GroupExplanation:
    """Decide about a group and explain the decision. ``pods`` are those without a node. Nothing changes."""
    cluster = built.handle.cluster
    placed = len(cluster.groups.placed(group.key))
    if not pods:
        return GroupExplanation(group, pods, placed, held="" if placed else "the group has no pods")
    profile = built.profile_of(pods[0])
    for pod in pods:
        held = run_pre_enqueue(profile.pre_enqueue, pod)
        if not held.is_success:
            return GroupExplanation(group, pods, placed, held=held.message)
    info = PodGroupInfo(group, [cluster.info(pod) for pod in pods])
    cycle = built.groups(profile)
    found = GroupExplanation(group, pods, placed, decided=cycle.decide(info))
    # An attempt ends when it is hopeless. As a basic group it goes on: that says how many fit.
    as_basic = replace(group.spec, scheduling_policy=PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy()))
    basic = PodGroupInfo(replace(group, spec=as_basic), info.pods)
    run = cycle.run(basic)
    found.nodes = {each.pod.pod.key: each.node_name for each in run.assignments}
    found.refusals = {each.pod.pod.key: each.message for each in run.decisions if each.node is None}
    left = [pod for pod in pods if pod.key not in found.nodes]
    if left:
        found.rest = explain_pod(built.on(_with(cluster, info, found.nodes)), left[0])
        found.requests = cluster.info(left[0]).shape.requests
    return found


def _with(cluster: Cluster, info: PodGroupInfo, nodes: dict[str, str]) -> Cluster:
    """The cluster as it would be with the pods that fit."""
    fork = cluster.fork()
    for pod in info.pods:
        if pod.pod.key in nodes:
            fork.assume(pod, nodes[pod.pod.key])
    return fork
