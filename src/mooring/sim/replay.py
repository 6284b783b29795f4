"""Replaying recorded cases: what mooring decides where kube-scheduler's verdict is on record.

A case brings a configuration, objects and steps; see the format's description
in ``tests/parity/golden/README.md``. The recorded verdicts are never looked at:
after each step only what the recording says about the *cluster* is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import msgspec

from mooring.api.codec import KINDS, from_plain
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.times import parse_time
from mooring.clock import VirtualClock
from mooring.config.load import config_from_dict
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.build import Built, build
from mooring.engine.cycle import pre_enqueue
from mooring.engine.decision import Decision, Outcome
from mooring.errors import InputError
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile
from mooring.plugins.dynamic_resources.attempt import chosen_devices
from mooring.plugins.volume_binding import chosen_volumes
from mooring.sim.nominations import Nominations
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo

TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's words, not ours


def load_object(value: Mapping[str, Any]) -> Object | None:
    """An object of a case, or None for a kind that no plugin reads."""
    kind = KINDS.get(str(value.get("kind")))
    return None if kind is None else from_plain(kind, value)


def latest_time(values: Iterable[Mapping[str, Any]]) -> float:
    """A moment after everything in the case: "now" for pods that have no start time."""
    stamps = [value.get("metadata", {}).get("creationTimestamp") for value in values]
    return max((parse_time(stamp) for stamp in stamps if stamp), default=0.0) + 3600.0


class Replay:
    """One case: a cluster, a scheduler without a queue, and the steps one after another."""

    def __init__(
        self,
        case: Mapping[str, Any],
        config: KubeSchedulerConfiguration | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.cluster = Cluster()
        self.nominations = Nominations()
        self.clock = VirtualClock(latest_time(case.get("objects", ())))
        # Pods came one at a time, except where quick succession is what the family is about.
        self._pause_s = 0.0 if case.get("family") == "batching" else 1.0
        self.built: Built = build(
            config or config_from_dict(case.get("config")),
            self.cluster,
            clock=self.clock,
            nominator=self.nominations,
            registry=registry,
        )
        for value in case.get("objects", ()):
            self._apply(value)

    def _apply(self, value: Mapping[str, Any]) -> None:
        obj = load_object(value)
        if obj is not None:
            self.cluster.put(obj)

    def step(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """Decide a pod step and then make the cluster what it was after it."""
        if "pod" not in step:
            raise InputError(f"a step with {', '.join(sorted(step))} where one with a pod would be right")
        self.clock.advance(self._pause_s)
        pod: Pod = from_plain(Pod, step["pod"])
        profile = self.built.profiles.get(pod.spec.scheduler_name)
        if pod.spec.node_name or profile is None:
            result: dict[str, Any] = {"outcome": "ignored"}
            self._afterwards(step, pod, None, ())
            return result
        info = self.cluster.info(pod)
        held = pre_enqueue(profile, info)
        if not held.is_success:
            has_gates = bool(pod.spec.scheduling_gates)
            result = {
                "outcome": Outcome.GATED.value,
                "reason": "SchedulingGated" if has_gates else None,
                "message": GATED_MESSAGE if has_gates else None,
            }
            self._afterwards(step, pod, None, ())
            return result
        decision = self.built.engine.decide(info, profile)
        result = self.describe(decision, profile)
        if "then" in step:
            result["then"] = self._second_attempt(step, pod, decision, profile)
        self._afterwards(step, pod, decision.nominated_node, decision.victims)
        return result

    def _second_attempt(
        self, step: Mapping[str, Any], pod: Pod, decision: Decision, profile: Profile
    ) -> dict[str, Any]:
        """The preemptor comes again, its victims gone and its node promised."""
        self._evict(step, decision.victims)
        again = copy(pod)
        again.status = copy(pod.status)
        again.status.nominated_node_name = decision.nominated_node or ""
        return self.describe(self.built.engine.decide(self.cluster.info(again), profile), profile)

    def _evict(self, step: Mapping[str, Any], victims: Iterable[PodInfo]) -> None:
        lingering = {effect.get("metadata", {}).get("uid") for effect in step.get("effects", ())}
        for victim in victims:
            if victim.uid not in lingering and not victim.pod.is_terminating:
                self.cluster.remove_pod(victim.uid)

    def _afterwards(self, step: Mapping[str, Any], pod: Pod, nominated: str | None, victims: Iterable[PodInfo]) -> None:
        self._evict(step, victims)
        for effect in step.get("effects", ()):
            self._apply(effect)
        self.nominations.withdraw(pod.metadata.uid)
        afterwards = str(step.get("afterwards", "deleted"))
        if afterwards.startswith("bound:"):
            profile = self.built.profiles.get(pod.spec.scheduler_name)
            if profile is not None:
                self.built.engine.adopt(profile, afterwards.removeprefix("bound:"))
            self.cluster.put(self.bound(pod, afterwards.removeprefix("bound:")))
        elif afterwards == "kept" and pod.spec.node_name:
            self.cluster.put(pod)
        elif afterwards == "kept" and nominated:
            self.nominations.nominate(self.cluster.info(pod), nominated)

    def bound(self, pod: Pod, node_name: str) -> Pod:
        """The pod as the API server stores it once bound: with its node's name and topology labels."""
        info = self.cluster.table.nodes.get(node_name)
        node: Node | None = None if info is None else info.node
        placed = copy(pod)
        placed.spec = copy(pod.spec)
        placed.spec.node_name = node_name
        if node is not None:
            topology = {key: node.metadata.labels[key] for key in TOPOLOGY_LABELS if key in node.metadata.labels}
            placed.metadata = copy(pod.metadata)
            placed.metadata.labels = {**pod.metadata.labels, **topology}
        return placed

    def describe(self, decision: Decision, profile: Profile) -> dict[str, Any]:
        """A decision in the format that recordings are compared in."""
        if decision.outcome is Outcome.SCHEDULED:
            return self._describe_placement(decision, profile)
        return {
            "outcome": Outcome.UNSCHEDULABLE.value,
            "node": None,
            "scores": {},
            "totals": {},
            "reason": decision.reason,
            "message": decision.message,
            "nominatedNode": decision.nominated_node or None,
            "victims": sorted(victim.pod.key for victim in decision.victims if not victim.pod.is_terminating),
        }

    def _describe_placement(self, decision: Decision, profile: Profile) -> dict[str, Any]:
        node = decision.node or ""
        result: dict[str, Any] = {
            "outcome": Outcome.SCHEDULED.value,
            "node": node,
            "scores": {} if decision.scores is None else decision.scores.to_dict(),
            "totals": {} if decision.scores is None else decision.scores.totals_dict(),
        }
        status = profile.run_reserve(decision.state, decision.pod, node)
        if status.is_success:
            result["volumes"] = chosen_volumes(decision.state, node)
            result["devices"] = {
                claim: [_device(found) for found in results]
                for claim, results in chosen_devices(decision.state, decision.pod.pod.metadata.name, node).items()
            }
        profile.run_unreserve(decision.state, decision.pod, node)
        return result


def _device(result: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(result)
    keys = ("request", "driver", "pool", "device", "adminAccess", "consumedCapacity")
    return {key: fields[key] for key in keys if fields.get(key)}


def replay_case(
    case: Mapping[str, Any], config: KubeSchedulerConfiguration | None = None, registry: Registry | None = None
) -> dict[str, Any]:
    """Replay one case and return ``{"id", "steps"}``."""
    replay = Replay(case, config, registry)
    return {"id": case.get("id"), "steps": [replay.step(step) for step in case.get("steps", ())]}
