"""Replay of recorded cases: mooring's decisions where kube-scheduler's verdicts are recorded.

A case has a configuration, objects and steps; see the format's description in ``tests/parity/golden/README.md``. The
recorded verdicts are never read: after each step only what the recording says about the *cluster* is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import msgspec

from mooring.api.clock import VirtualClock
from mooring.api.codec import from_plain, struct_of
from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.api.times import parse_time
from mooring.api.version import release_of
from mooring.api.well_known import REGION, ZONE
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.config.versions import nearest_version
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.handle import Nominations
from mooring.core.framework.registry import Registry
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.devices.allocator import binding_problem, chosen_devices
from mooring.core.plugins.volume_binding import chosen_volumes
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.live.event_handlers import EventHandlers

# --------------------------------------------------------------------------------------------------------------------
# The format of recorded cases: decoding of objects, and encoding of decisions.

TOPOLOGY_LABELS = (ZONE, REGION)
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's text


def features_of(case: Mapping[str, Any]) -> Features:
    """Return the version that a case was recorded from, or the nearest, with its gates at their defaults."""
    return Features(nearest_version(release_of(str(case.get("kubernetes", ""))))[0])


def load_object(value: Mapping[str, Any]) -> Object | None:
    """An object of a case, or None for a kind that no plugin reads."""
    struct = struct_of(str(value.get("kind")), value.get("apiVersion"))
    return None if struct is None else from_plain(struct, value)


def latest_time(values: Iterable[Mapping[str, Any]]) -> float:
    """Return a time after everything in the case: "now" for pods without a start time."""
    stamps = [value.get("metadata", {}).get("creationTimestamp") for value in values]
    return max((parse_time(stamp) for stamp in stamps if stamp), default=0.0) + 3600.0


def bound(session: Session, pod: Pod, node_name: str) -> Pod:
    """Return the pod as the API server stores it once bound: with its node's name and, since 1.35, topology labels."""
    info = session.state.table.nodes.get(node_name)
    node: Node | None = None if info is None else info.node
    placed = copy(pod)
    placed.spec = copy(pod.spec)
    placed.spec.node_name = node_name
    if node is not None and session.features["BindingCopiesTopologyLabels"]:
        topology = {key: node.metadata.labels[key] for key in TOPOLOGY_LABELS if key in node.metadata.labels}
        placed.metadata = copy(pod.metadata)
        placed.metadata.labels = {**pod.metadata.labels, **topology}
    return placed


def describe_gated(pod: Pod) -> dict[str, Any]:
    """Describe a pod that was held back without an attempt."""
    has_gates = bool(pod.spec.scheduling_gates)
    return {
        "outcome": Outcome.GATED.value,
        "reason": "SchedulingGated" if has_gates else None,
        "message": GATED_MESSAGE if has_gates else None,
    }


def describe(decision: ScheduleResult, profile: Profile) -> dict[str, Any]:
    """Return a decision in the format of recordings."""
    refusal: dict[str, Any] = {"outcome": Outcome.UNSCHEDULABLE.value, "node": None, "scores": {}, "totals": {}}
    if decision.outcome is Outcome.SCHEDULED:
        problem = binding_problem(decision.state, decision.pod.pod.key, decision.node or "")
        if not problem:
            return _describe_placement(decision, profile)
        message = f'running PreBind plugin "DynamicResources": {problem}'
        return {**refusal, "reason": "SchedulerError", "message": message, "nominatedNode": None, "victims": []}
    return {
        **refusal,
        "reason": decision.reason,
        "message": decision.message,
        "nominatedNode": nomination_after(decision) or None,
        "victims": sorted(victim.pod.key for victim in decision.victims if not victim.pod.is_terminating),
    }


def nomination_after(decision: ScheduleResult) -> str:
    """Return the node that the pod is nominated to after a rejection: the decision's, or else the previous one."""
    if decision.nominated_node is not None:
        return decision.nominated_node
    return decision.pod.pod.status.nominated_node_name


def _describe_placement(decision: ScheduleResult, profile: Profile) -> dict[str, Any]:
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


# --------------------------------------------------------------------------------------------------------------------
# Replay of cases with time and events: which of them wake a pending pod.
#
# The cluster's events pass through the same handlers and queue as in the live scheduler; the clock jumps to the next
# due event.

BETWEEN_STEPS_S = 0.05  # time between two events in a recording
MAX_ATTEMPTS = 1000  # per step; more means that a pod wakes itself


class QueueReplay:
    """One case: a cluster, a queue, a scheduler, and a clock that advances only when nothing is left to do."""

    def __init__(
        self,
        case: Mapping[str, Any],
        config: KubeSchedulerConfiguration | None = None,
        registry: Registry | None = None,
        features: Features | None = None,
    ) -> None:
        features = features or features_of(case)
        self.cluster = ClusterState()
        self.clock = VirtualClock(latest_time(case.get("objects", ())) + 0.3)
        self.pods: dict[str, Pod] = {}
        nominator = QueueNominator(known=self.pods.get)
        self.session = open_session(
            config or config_from_dict(case.get("config"), features),
            self.cluster,
            clock=self.clock,
            nominator=nominator,
            registry=registry,
            features=features,
        )
        options = QueueOptions(
            gated_hold_nomination=features["GatedPodsHoldTheirNomination"],
            whole_resizes=features["ResizesCountWholePods"],
            tells_growth=features["EventsTellGrowth"],
        )
        self.queue = SchedulingQueue(self.session.queue_profiles(), self.clock, options=options, nominator=nominator)
        self.handlers = EventHandlers(self.cluster, self.queue, self.pods)
        self._verdicts: dict[str, list[dict[str, Any]]] = {}  # by pod, one per attempt
        self._seen: dict[str, int] = {}  # attempts at each pod before the last action
        self._lingering: dict[str, Mapping[str, Any]] = {}  # victims that stay terminating, by uid
        self._forced: dict[str, str] = {}  # pod -> its node in the recording
        self._writes = 0
        for value in case.get("objects", ()):
            obj = load_object(value)
            if obj is not None:
                self.handlers.put(obj)
        self._serve()

    # ---- steps -------------------------------------------------------------------------------------------------

    def step(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        if "pod" in step:
            return self._pod(step)
        if "action" in step:
            self._act(str(step["action"]), step["object"])
            return None
        if "await" in step:
            return self._await(step["await"])
        raise InputError(f"expected a step with a pod, an action or an await, found one with {', '.join(sorted(step))}")

    def _pod(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self._let_pass(BETWEEN_STEPS_S)
        pod: Pod = from_plain(Pod, step["pod"])
        if pod.spec.node_name or not self.queue.handles(pod.spec.scheduler_name):
            self.handlers.put(pod)
            return {"outcome": "ignored"}
        self._lingering = {effect["metadata"]["uid"]: effect for effect in step.get("effects", ())}
        afterwards = str(step.get("afterwards", ""))
        if afterwards.startswith("bound:"):
            self._forced[pod.key] = afterwards.removeprefix("bound:")
        self._verdicts[pod.key] = []
        self.handlers.put(pod)
        self._serve()
        self._remember_attempts()
        verdicts = self._verdicts[pod.key]
        if not verdicts:
            return describe_gated(pod)
        result = dict(verdicts[0])
        if "then" in step and len(verdicts) > 1:
            result["then"] = verdicts[-1]
        if afterwards == "deleted" and pod.key in self.pods:
            self.handlers.delete(self.pods[pod.key])
        return result

    def _act(self, action: str, value: Mapping[str, Any]) -> None:
        self._remember_attempts()
        self._let_pass(BETWEEN_STEPS_S)
        obj = load_object(value)
        if obj is None:
            return
        if action == "delete":
            self.handlers.delete(obj)
        else:
            self.handlers.put(obj)
        self._serve()

    def _await(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        key = str(wanted["pod"])
        self._run_until_bound(key, float(wanted["seconds"]))
        verdicts = self._verdicts.get(key, [])
        result = dict(verdicts[-1]) if verdicts else describe_gated(self.pods[key])
        result["retried"] = len(verdicts) > self._seen.get(key, 0)
        return result

    def _remember_attempts(self) -> None:
        self._seen = {key: len(verdicts) for key, verdicts in self._verdicts.items()}

    # ---- time --------------------------------------------------------------------------------------------------

    def _let_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.queue.run_timers()

    def _run_until_bound(self, key: str, seconds: float) -> None:
        end = self.clock.now() + seconds
        while True:
            self._serve()
            pod = self.pods.get(key)
            if pod is None or pod.spec.node_name:
                return
            due = self.queue.next_wakeup()
            if due is None or due > end:
                self.clock.advance_to(end)
                return
            self.clock.advance_to(due)
            self.queue.run_timers()

    # ---- the scheduler -----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Attempt every pod that is ready, until none is."""
        for _ in range(MAX_ATTEMPTS):
            item = self.queue.pop()
            if item is None:
                return
            assert isinstance(item, QueuedPodInfo), "recorded cases of this kind have no pod groups"
            self._attempt(item)
        raise InputError(f"still busy after {MAX_ATTEMPTS} attempts; a pod seems to wake itself")

    def _attempt(self, item: QueuedPodInfo) -> None:
        pod = item.pod_info.pod
        profile = self.session.profile_for(pod)
        decision = self.session.engine.decide(item.pod_info, profile)
        self._verdicts.setdefault(pod.key, []).append(describe(decision, profile))
        if decision.outcome is Outcome.SCHEDULED:
            self.queue.nominator.withdraw(pod.uid)
            self.queue.done(item.uid)
            node_name = self._forced.get(pod.key) or decision.node or ""
            self.handlers.put(self._stored(bound(self.session, pod, node_name)))
        else:
            self._refuse(item, decision)

    def _refuse(self, item: QueuedPodInfo, decision: ScheduleResult) -> None:
        pod = self.pods[item.pod_info.pod.key]
        self.queue.add_unschedulable_if_not_present(
            item,
            unschedulable_plugins=decision.unschedulable_plugins,
            pending_plugins=decision.pending_plugins,
            pod=self.cluster.info(pod),
            message=decision.message,
        )
        self.queue.nominator.add(pod, decision.nominated_node)
        changed = copy(pod)
        changed.status = copy(pod.status)
        if decision.nominated_node is not None:
            changed.status.nominated_node_name = decision.nominated_node
        self.handlers.put(self._stored(changed))
        for victim in decision.victims:
            lingering = self._lingering.get(victim.uid)
            if lingering is not None:
                self.handlers.put(from_plain(Pod, lingering))
            elif victim.pod.key in self.pods:
                self.handlers.delete(self.pods[victim.pod.key])

    def _stored(self, pod: Pod) -> Pod:
        """The pod as the API server would store it: with its own resource version."""
        self._writes += 1
        stored = copy(pod)
        stored.metadata = copy(pod.metadata)
        stored.metadata.resource_version += f"-{self._writes}"
        return stored


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
        self.cluster = ClusterState()
        self.nominations = Nominations()
        self.clock = VirtualClock(latest_time(case.get("objects", ())))
        # Pods arrived one at a time, except in families about quick succession.
        self._pause_s = 0.0 if case.get("family") == "batching" else 1.0
        self.session: Session = open_session(
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
        """Decide about the pod of a step, then apply the recorded state of the cluster."""
        if "pod" not in step:
            raise InputError(f"expected a step with a pod, found one with {', '.join(sorted(step))}")
        self.clock.advance(self._pause_s)
        pod: Pod = from_plain(Pod, step["pod"])
        profile = self.session.profiles.get(pod.spec.scheduler_name)
        if pod.spec.node_name or profile is None:
            result: dict[str, Any] = {"outcome": "ignored"}
            self._afterwards(step, pod, None, ())
            return result
        decision = self.session.decide(pod)
        if decision.outcome is Outcome.GATED:
            result = describe_gated(pod)
            self._afterwards(step, pod, None, ())
            return result
        result = describe(decision, profile)
        for other in self.nominations.nominated_pods(decision.nominated_node or ""):
            if other.priority < decision.pod.priority:  # a preemptor takes the node from lower-priority nominated pods
                self.nominations.withdraw(other.uid)
        if "then" in step:
            result["then"] = self._second_attempt(step, pod, decision, profile)
        self._afterwards(step, pod, nomination_after(decision), decision.victims)
        return result

    def _second_attempt(
        self, step: Mapping[str, Any], pod: Pod, decision: ScheduleResult, profile: Profile
    ) -> dict[str, Any]:
        """Decide again about a preemptor: its victims are gone, and it is nominated to its node."""
        self._evict(step, decision.victims)
        again = copy(pod)
        again.status = copy(pod.status)
        again.status.nominated_node_name = decision.nominated_node or ""
        return describe(self.session.engine.decide(self.cluster.info(again), profile), profile)

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
            profile = self.session.profiles.get(pod.spec.scheduler_name)
            if profile is not None:
                self.session.engine.adopt(profile, afterwards.removeprefix("bound:"))
            self.cluster.put(bound(self.session, pod, afterwards.removeprefix("bound:")))
        elif afterwards == "kept" and pod.spec.node_name:
            self.cluster.put(pod)
        elif afterwards == "kept" and nominated:
            self.nominations.nominate(self.cluster.info(pod), nominated)


def _check_form(case: Mapping[str, Any]) -> None:
    """Reject a case that does not consist of lists of objects. The codec checks the objects themselves."""
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
