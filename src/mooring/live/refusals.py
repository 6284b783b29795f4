"""Pods that are refused as the pod before them was, decided in one step.

In a full cluster each pod that ends lets all waiting pods be tried, and nearly all are refused for the same reason. A
turn of the scheduling loop lets nothing else happen between two attempts. So a pod of the same template need not be
decided again: the decision is a function of the template and of a cluster that has not changed.

What such an attempt leaves behind is the same as if it was made: its number and time, the random numbers that it draws,
what observers hear, and the pod's place in the queue. Only the search is left out, and what follows from it is done
without asking again what cannot have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import msgspec

from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.in_tree import IN_TREE
from mooring.core.framework.runtime import Profile
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodInfo
from mooring.core.session import Session
from mooring.core.state.pod_info import PodClass, PodShape
from mooring.live.context import SchedulerContext
from mooring.live.failure import Failure, FailureHandler
from mooring.live.logs import get_logger
from mooring.live.status_patch import is_condition_current

log = get_logger("mooring.live")
_v2 = log.v(2)

PURE = frozenset(IN_TREE)
"""Plugins that answer by the template and the cluster. A user's own may count its calls, or read something else."""
Try = Callable[[QueuedPodInfo, Profile, float, bool], None]
Template = tuple[PodShape, PodClass, int, str | None, str]


class Refusal(msgspec.Struct, frozen=True):
    """How a pod of a template was refused, and from how many its random numbers were drawn."""

    profile: Profile
    decision: ScheduleResult
    failure: Failure
    draws: tuple[int, ...]


class RepeatedRefusals:
    """The refusals of one turn, and the attempts at the pods that are refused in the same way.

    Only where no attempt is measured, which is in simulations: a metric of durations would tell the difference.
    """

    def __init__(
        self,
        context: SchedulerContext,
        failures: FailureHandler,
        draws: list[int],
        draw: Callable[[int], int],
    ) -> None:
        """``draws`` gathers from how many each random number is drawn; ``draw`` draws another one."""
        self._context = context
        self._failures = failures
        self._draws = draws
        self._draw = draw
        self._known: dict[Template, Refusal] = {}
        self._nominations = -1  # how far their log had come
        self._session: Session | None = None
        self._pure: dict[str, bool] = {}  # by scheduler name, of this session

    def forget(self) -> None:
        """Something may have changed since the last attempt."""
        self._known.clear()

    def begin(self) -> None:
        """An attempt begins that is made in the usual way."""
        self._draws.clear()

    def remember(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult) -> None:
        """A pod was refused in the usual way, and is back in the queue."""
        session = self._context.session
        end = self._context.queue.nominator.log.end
        if end != self._nominations:
            self._known.clear()
            self._nominations = end
        if (
            decision.is_fit_error
            and not decision.victims
            and decision.rejectors
            and decision.start == session.engine.search.next_start
            and self.is_pure(session, profile)
            and is_plain(info)
            and all(plugin.name in decision.state.skip_filter for plugin in profile.told_of_failures)
        ):
            self._known[template_of(info)] = Refusal(
                profile, decision, Failure.of_decision(decision), tuple(self._draws)
            )

    def is_pure(self, session: Session, profile: Profile) -> bool:
        """Report whether only the template and the cluster count, and no attempt is measured or batched."""
        if session is not self._session:
            self._session, self._pure = session, {}
        found = self._pure.get(profile.scheduler_name)
        if found is None:
            found = self._pure[profile.scheduler_name] = (
                profile.observer is None
                and not session.handle.extenders
                and not session.engine.batching.concerns(profile)
                and all(type(plugin.plugin) in PURE for plugin in profile.plugins.values())
            )
        return found

    # ---- the attempts ------------------------------------------------------------------------------------------

    def refuse_next(self, most: int, until: float, try_: Try) -> int:
        """Refuse the next pods as those before them, this many at most; returns how many were.

        ``try_`` makes an attempt in the usual way, for an observer that wants its details.
        """
        context = self._context
        queue, now, observers = context.queue, context.clock.monotonic, context.observers
        if not self._known or _v2 or self._nominations != queue.nominator.log.end:
            return 0
        session, node_of, recorder = context.session, queue.nominator.node_of, context.recorder
        asks_for_detail, count = observers.asks_for_detail, 0
        while count < most and (info := queue.pop_if(self._is_refused)) is not None:
            refusal = self._known[template_of(info)]
            failure, profile, started = refusal.failure, refusal.profile, now()
            pod = info.pod_info.pod
            if asks_for_detail and observers.wants_detail():
                try_(info, profile, started, True)
                return count + 1
            session.engine.batching.begin()
            for n in refusal.draws:
                self._draw(n)
            decision = copy(refusal.decision)
            decision.pod = info.pod_info
            for tell in observers.decided:
                tell(info, profile, decision, now() - started)
            for tell in observers.failed:
                tell(info, profile, failure.reason, failure.message, now() - started)
            queue.refuse_again(info, failure.unschedulable_plugins, failure.pending_plugins, failure.message)
            if failure.nominated_node != "" or node_of(pod.metadata.uid) != "":
                queue.nominator.add(pod, failure.nominated_node)
            if recorder.wants(info.key):
                self._failures.event(pod, "Warning", "FailedScheduling", "Scheduling", failure.message)
            if not is_condition_current(pod, failure.reason, failure.message, failure.nominated_node):
                self._failures.patch_condition(pod, failure)
            count += 1
            if now() >= until:
                break
        return count

    def _is_refused(self, info: QueuedEntity) -> bool:
        """Report whether the next pod is refused as one like it was."""
        if type(info) is not QueuedPodInfo or template_of(info) not in self._known or not is_plain(info):
            return False
        pod, session = info.pod_info.pod, self._context.session
        uid = pod.metadata.uid
        return (
            self._context.pods.get(info.key) is pod
            and not session.nominations.node_of(uid)
            and session.state.pod(uid) is None
        )


def template_of(info: QueuedPodInfo) -> Template:
    """Everything that a plugin may know a pod by, unless there is something about the pod itself."""
    pod = info.pod_info
    spec = pod.pod.spec
    return pod.shape, pod.cls, pod.priority, spec.preemption_policy, spec.scheduler_name


def is_plain(info: QueuedPodInfo) -> bool:
    """Report whether there is nothing about the pod itself: no nomination, group, claim, volume or node."""
    pod = info.pod_info
    spec = pod.pod.spec
    return not (
        pod.pod.status.nominated_node_name
        or spec.scheduling_group is not None
        or spec.resource_claims
        or spec.node_name
        or pod.shape.volumes
    )
