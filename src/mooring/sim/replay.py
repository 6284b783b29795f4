"""Replaying recorded cases: what mooring decides where kube-scheduler's verdict is on record.

A case brings a configuration, objects and steps; see the format's description
in ``tests/parity/golden/README.md``. The recorded verdicts are never looked at:
after each step only what the recording says about the *cluster* is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.clock import VirtualClock
from mooring.config.features import Features
from mooring.config.load import config_from_dict
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.build import Built, build
from mooring.engine.decision import Decision
from mooring.errors import InputError
from mooring.framework.nominator import Nominations
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile, run_pre_enqueue
from mooring.sim.queue_replay import QueueReplay
from mooring.sim.recording import (
    bound,
    describe,
    describe_gated,
    features_of,
    latest_time,
    load_object,
    nomination_after,
)
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo


class Replay:
    """One case: a cluster, a scheduler without a queue, and the steps one after another."""

    def __init__(
        self,
        case: Mapping[str, Any],
        config: KubeSchedulerConfiguration | None = None,
        registry: Registry | None = None,
        features: Features | None = None,
    ) -> None:
        features = features or features_of(case)
        self.cluster = Cluster()
        self.nominations = Nominations()
        self.clock = VirtualClock(latest_time(case.get("objects", ())))
        # Pods came one at a time, except where quick succession is what the family is about.
        self._pause_s = 0.0 if case.get("family") == "batching" else 1.0
        self.built: Built = build(
            config or config_from_dict(case.get("config"), features),
            self.cluster,
            clock=self.clock,
            nominator=self.nominations,
            registry=registry,
            features=features,
        )
        for value in case.get("objects", ()):
            self._apply(value)

    def _apply(self, value: Mapping[str, Any]) -> None:
        obj = load_object(value)
        if obj is not None:
            self.cluster.put(obj)

    def step(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """Decide about the pod of a step, then bring the cluster to its recorded state."""
        if "pod" not in step:
            raise InputError(f"expected a step with a pod, found one with {', '.join(sorted(step))}")
        self.clock.advance(self._pause_s)
        pod: Pod = from_plain(Pod, step["pod"])
        profile = self.built.profiles.get(pod.spec.scheduler_name)
        if pod.spec.node_name or profile is None:
            result: dict[str, Any] = {"outcome": "ignored"}
            self._afterwards(step, pod, None, ())
            return result
        info = self.cluster.info(pod)
        held = run_pre_enqueue(profile.pre_enqueue, pod)
        if not held.is_success:
            result = describe_gated(pod)
            self._afterwards(step, pod, None, ())
            return result
        decision = self.built.engine.decide(info, profile)
        result = describe(decision, profile)
        for other in self.nominations.nominated_pods(decision.nominated_node or ""):
            if other.priority < info.priority:  # a preemptor takes the node from less important nominated pods
                self.nominations.withdraw(other.uid)
        if "then" in step:
            result["then"] = self._second_attempt(step, pod, decision, profile)
        self._afterwards(step, pod, nomination_after(decision), decision.victims)
        return result

    def _second_attempt(
        self, step: Mapping[str, Any], pod: Pod, decision: Decision, profile: Profile
    ) -> dict[str, Any]:
        """Decide again about a preemptor: its victims are gone, and it is nominated to its node."""
        self._evict(step, decision.victims)
        again = copy(pod)
        again.status = copy(pod.status)
        again.status.nominated_node_name = decision.nominated_node or ""
        return describe(self.built.engine.decide(self.cluster.info(again), profile), profile)

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
            self.cluster.put(bound(self.cluster, pod, afterwards.removeprefix("bound:")))
        elif afterwards == "kept" and pod.spec.node_name:
            self.cluster.put(pod)
        elif afterwards == "kept" and nominated:
            self.nominations.nominate(self.cluster.info(pod), nominated)


def _check_form(case: Mapping[str, Any]) -> None:
    """Refuse a case that is not made of lists of objects. The codec checks the objects themselves."""
    for field in ("objects", "steps"):
        values = case.get(field, [])
        if not isinstance(values, list):
            raise InputError(f"{field}: expected a list, found {type(values).__name__}")
        for i, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise InputError(f"{field}[{i}]: expected an object, found {type(value).__name__}")
    for i, value in enumerate(case.get("objects", [])):
        if not isinstance(value.get("metadata", {}), Mapping):
            found = type(value["metadata"]).__name__
            raise InputError(f"objects[{i}].metadata: expected an object with a name, found {found}")


def start_replay(
    case: Mapping[str, Any],
    config: KubeSchedulerConfiguration | None = None,
    registry: Registry | None = None,
    features: Features | None = None,
) -> Replay | QueueReplay:
    """Prepare a case; the caller takes its steps. Without ``features``, the case says the version."""
    _check_form(case)
    needs_queue = any("action" in step or "await" in step for step in case.get("steps", ()))
    kind = QueueReplay if needs_queue else Replay
    return kind(case, config, registry, features)


def replay_case(
    case: Mapping[str, Any],
    config: KubeSchedulerConfiguration | None = None,
    registry: Registry | None = None,
    features: Features | None = None,
) -> dict[str, Any]:
    """Replay one case and return ``{"id", "steps"}``; one with actions and awaits goes through the queue."""
    replay = start_replay(case, config, registry, features)
    return {"id": case.get("id"), "steps": [replay.step(step) for step in case.get("steps", ())]}
