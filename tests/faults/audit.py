"""The audit of a virtual soak: the audit of the soak, and who may bind.

Every write passes here, with the machine that sent it. A replica may bind while it holds the lease and has renewed it
less than the lease's duration ago, by the world's time.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.storage.store import DELETED, Event
from tests.faults.audit_loads import LoadAudit
from tests.faults.network import WRITER
from tests.faults.store_audit import Audit

MOST_IMPORTANT = "high"
"""The priority class that no pod of a plan is above."""
AMNESTY_S = 20.0
"""For a while after a server lost acknowledged writes, no client can know of them."""


class VirtualAudit:
    """Follows one control plane after the other. ``problems`` stays empty if all is well."""

    def __init__(
        self, now: Callable[[], float], lease: str, duration_s: float, kept_off: tuple[str, str] | None = None
    ) -> None:
        self._now, self._lease, self._duration_s = now, lease, duration_s
        self._kept_off = kept_off  # an app's pods, and the node where the extender does not want them
        self._audit: Audit | None = None
        self._loads: LoadAudit | None = None
        self._told = 0
        self._holder = ""
        self._renewed_s = 0.0
        self._amnesty_until_s = 0.0
        self._stops: list[Callable[[], None]] = []
        self._bound = 0
        self._alive: set[str] = set()  # uids of pods that were bound and are still there
        self.lifetimes = 0
        self.leases = 0
        self.problems: list[str] = []

    @property
    def bound(self) -> int:
        return self._bound + (0 if self._audit is None else self._audit.bound)

    def follow(self, plane: ControlPlane, has_lost: bool) -> None:
        """Go on with a control plane that has just been started."""
        if self._audit is not None:
            self._bound += self._audit.bound
        self._audit = audit = Audit(plane.store)
        audit.take_in()
        self._told = 0
        if has_lost:
            self._amnesty_until_s = self._now() + AMNESTY_S
        self._loads = LoadAudit(plane.store, self.tell)
        store = plane.store
        self._stops = [
            store.subscribe(NODES, audit.node),
            store.subscribe(PODS, self._pod),
            store.subscribe(LEASES, self._note_lease),
        ]

    def _pod(self, event: Event) -> None:
        audit, before = self._audit, event.previous
        assert audit is not None
        audit.pod(event)
        fields = event.entry.fields or {}
        was_bound = before is not None and bool((before.fields or {}).get("spec.nodeName"))
        is_bound = bool(fields.get("spec.nodeName"))
        if is_bound and not was_bound and event.type != DELETED:
            self._check_right(event, "bound")
            self._check_extender(event)
            if self._loads is not None:
                self._loads.bound(event)
        if WRITER.get() and _goes(event):
            self._check_right(event, "evicted")
            self._check_victim(event)
        if event.type == DELETED and (was_bound or is_bound):
            self.lifetimes += 1
        for problem in audit.problems[self._told :]:
            self.tell(problem)
        self._told = len(audit.problems)

    def _check_right(self, event: Event, what: str) -> None:
        writer = WRITER.get()
        if not writer:
            return
        if not self._holder.startswith(f"{writer}_"):
            self.tell(f"pod {event.entry.key} was {what} by {writer} while {self._holder or 'nobody'} had the lease")
        elif self._now() - self._renewed_s > self._duration_s:
            late_s = self._now() - self._renewed_s - self._duration_s
            self.tell(f"pod {event.entry.key} was {what} by {writer} {late_s:.3f} s after its lease had expired")

    def _check_victim(self, event: Event) -> None:
        victim = event.previous
        assert victim is not None
        if victim.object()["spec"].get("priorityClassName") == MOST_IMPORTANT:
            self.tell(f"pod {victim.key} was evicted although no pod has a higher priority")

    def _check_extender(self, event: Event) -> None:
        if self._kept_off is not None and WRITER.get():
            app, node = self._kept_off
            pod = event.entry.object()
            if pod["spec"]["nodeName"] == node and pod["metadata"].get("labels", {}).get("app") == app:
                self.tell(f"pod {event.entry.key} was bound to {node} although the extender did not allow it")

    def _note_lease(self, event: Event) -> None:
        if event.entry.name != self._lease or event.type == DELETED:  # a lease that is deleted is still its holder's
            return
        spec = event.entry.object().get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if not holder and not WRITER.get():  # it was emptied by another client, not released by its holder
            return
        if holder and holder != self._holder:
            self.leases += 1
        self._holder, self._renewed_s = holder, self._now()
        self._duration_s = float(spec.get("leaseDurationSeconds") or self._duration_s)

    def tell(self, problem: str) -> None:
        """Remember what must not have happened."""
        if self._now() < self._amnesty_until_s:
            return
        if len(self.problems) < 20:
            self.problems.append(f"{self._now():.3f} s: {problem}")


def _goes(event: Event) -> bool:
    """Whether this write begins to delete a pod, or deletes it immediately."""
    was_going = event.previous is not None and b'"deletionTimestamp"' in event.previous.raw
    return not was_going and (event.type == DELETED or b'"deletionTimestamp"' in event.entry.raw)
