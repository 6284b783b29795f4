"""Deployments: one ReplicaSet per version of the template, and the rollout between them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from mooring.controlplane.cluster.base import (
    Controller,
    condition,
    is_terminating,
    nonzero,
    phase,
    reference_to,
    set_condition,
)
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.workloads import DEPLOYMENTS, REPLICA_SETS
from mooring.controlplane.registry.validation import SUFFIX_ALPHABET, parse_time
from mooring.controlplane.storage.store import DELETED, Event, StoredEntry
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
HASH = "pod-template-hash"
_KEPT_OUT = frozenset(("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED))


def template_hash(template: Object) -> str:
    """A short name for a template; equal templates have equal names."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in digest[:10])


def share(value: Any, of: int, *, up: bool) -> int:
    """``25%`` or ``3`` as a number of pods."""
    if isinstance(value, str) and value.endswith("%"):
        part = (quantities.whole(value[:-1]) or 0) * of / 100
        return math.ceil(part) if up else math.floor(part)
    return int(value or 0) if isinstance(value, int) else 0


class DeploymentController(Controller):
    """Rolls a Deployment forward: the new ReplicaSet grows as the old ones shrink."""

    watches: ClassVar[tuple[str, ...]] = ("deployments.apps", "replicasets.apps", "pods")

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is REPLICA_SETS:
            return self.owner_keys(event)
        if event.kind is PODS:
            return self._waiting_for(event.entry) if event.type == DELETED else ()
        return (event.entry.key,)

    def _waiting_for(self, pod: StoredEntry) -> list[str]:
        """With the strategy Recreate, let the first new pod wait until the last old one is gone."""
        sets = [self.store.by_uid(uid) for uid in pod.owners]
        owners = [self.store.by_uid(uid) for rs in sets if rs is not None for uid in rs.owners]
        return [owner.key for owner in owners if owner is not None and owner.kind is DEPLOYMENTS]

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(DEPLOYMENTS, key)
        if entry is None or is_terminating(entry.object()):
            self.settle(key)
            return
        deployment = entry.object()
        sets = self.owned(entry.uid, REPLICA_SETS)
        sets.sort(key=lambda rs: (rs["metadata"]["creationTimestamp"], rs["metadata"]["name"]))
        spec = deployment["spec"]
        newest = self._newest(deployment, sets)
        if newest is None and not spec.get("paused"):
            newest = self._create_newest(deployment, sets)
            sets.append(newest)
        old = [rs for rs in sets if newest is None or rs["metadata"]["uid"] != newest["metadata"]["uid"]]
        if newest is not None:
            self._number(deployment, newest, old)
        if spec.get("paused"):
            if newest is not None and len([rs for rs in sets if replicas(rs)]) <= 1:
                self._resize(newest, spec["replicas"])
        elif newest is not None:
            if spec["strategy"]["type"] == "Recreate":
                self._recreate(spec, newest, old)
            else:
                self._roll(spec, newest, old)
            self._forget_oldest(spec, old)
        self._report(key, newest)

    # Versions

    def _newest(self, deployment: Object, sets: list[Object]) -> Object | None:
        """The ReplicaSet of the present template."""
        wanted = deployment["spec"]["template"]
        return next((rs for rs in sets if _essence(rs["spec"]["template"]) == _essence(wanted)), None)

    def _create_newest(self, deployment: Object, sets: list[Object]) -> Object:
        metadata, spec = deployment["metadata"], deployment["spec"]
        template = msgspec.json.decode(msgspec.json.encode(spec["template"]))
        name = template_hash(template)
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[HASH] = name
        selector = msgspec.json.decode(msgspec.json.encode(spec["selector"]))
        selector.setdefault("matchLabels", {})[HASH] = name
        annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _KEPT_OUT}
        is_waiting = spec["strategy"]["type"] == "Recreate" and any(map(replicas, sets))
        made = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{name}",
                "namespace": metadata["namespace"],
                "labels": dict(labels),
                "annotations": {**annotations, DESIRED: str(spec["replicas"])},
                "ownerReferences": [reference_to(deployment)],
            },
            "spec": {
                "replicas": 0 if is_waiting else self._room(spec, sets, 0),
                "selector": selector,
                "template": template,
                **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            },
        }
        return self.api.create(REPLICA_SETS, metadata["namespace"], made).object()

    def _number(self, deployment: Object, newest: Object, old: list[Object]) -> None:
        """The newest has the highest revision, also after a rollback to an existing one."""
        highest = max((revision(rs) for rs in old), default=0)
        wanted = revision(newest) if revision(newest) > highest else highest + 1
        if revision(newest) != wanted:
            self._annotate(newest, REVISION, str(wanted))
        if (deployment["metadata"].get("annotations") or {}).get(REVISION) != str(wanted):
            self._annotate(deployment, REVISION, str(wanted))

    def _annotate(self, obj: Object, key: str, value: str) -> None:
        kind = REPLICA_SETS if obj["kind"] == "ReplicaSet" else DEPLOYMENTS
        metadata = obj["metadata"]

        def change(current: Object) -> None:
            current["metadata"].setdefault("annotations", {})[key] = value

        written = self.api.modify(kind, metadata["namespace"], metadata["name"], change).object()
        metadata["annotations"] = written["metadata"].get("annotations")

    def _forget_oldest(self, spec: Object, old: list[Object]) -> None:
        idle = [rs for rs in old if not replicas(rs) and not (rs.get("status") or {}).get("replicas")]
        for rs in sorted(idle, key=revision)[: max(0, len(idle) - spec.get("revisionHistoryLimit", 10))]:
            self.api.delete(REPLICA_SETS, rs["metadata"]["namespace"], rs["metadata"]["name"])

    # Sizes

    def _resize(self, rs: Object, wanted: int) -> None:
        if replicas(rs) == wanted:
            return
        metadata = rs["metadata"]

        def change(current: Object) -> None:
            current["spec"]["replicas"] = wanted

        self.api.modify(REPLICA_SETS, metadata["namespace"], metadata["name"], change)
        rs["spec"]["replicas"] = wanted

    @staticmethod
    def _room(spec: Object, others: list[Object], have: int) -> int:
        """Return the allowed size of the newest ReplicaSet: the desired one, within the surge."""
        rolling = spec["strategy"].get("rollingUpdate") or {}
        wanted: int = spec["replicas"]
        limit = wanted + share(rolling.get("maxSurge"), wanted, up=True)
        return max(have, min(wanted, limit - sum(map(replicas, others))))

    def _recreate(self, spec: Object, newest: Object, old: list[Object]) -> None:
        for rs in old:
            self._resize(rs, 0)
        pods = [pod for rs in old for pod in self.owned(rs["metadata"]["uid"], PODS)]
        if all(phase(pod) in ("Succeeded", "Failed") for pod in pods):
            self._resize(newest, spec["replicas"])

    def _roll(self, spec: Object, newest: Object, old: list[Object]) -> None:
        wanted = spec["replicas"]
        active = [rs for rs in old if replicas(rs)]
        if not active or replicas(newest) > wanted:
            self._resize(newest, wanted)
        else:
            self._resize(newest, self._room(spec, active, replicas(newest)))
        if not active:
            return
        rolling = spec["strategy"].get("rollingUpdate") or {}
        surge = share(rolling.get("maxSurge"), wanted, up=True)
        unavailable = share(rolling.get("maxUnavailable"), wanted, up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        least = wanted - min(unavailable, wanted)
        total = replicas(newest) + sum(map(replicas, active))
        spare = total - least - (replicas(newest) - available(newest))
        for rs in active:  # unavailable pods are removed first
            sick = min(max(0, replicas(rs) - available(rs)), max(0, spare))
            if sick:
                self._resize(rs, replicas(rs) - sick)
                spare -= sick
        spare = available(newest) + sum(min(available(rs), replicas(rs)) for rs in active) - least
        for rs in active:
            step = min(replicas(rs), max(0, spare))
            if step:
                self._resize(rs, replicas(rs) - step)
                spare -= step

    # Status

    def _report(self, key: str, newest: Object | None) -> None:
        entry = self.store.entry(DEPLOYMENTS, key)
        if entry is None:
            return
        deployment = entry.object()
        spec, before = deployment["spec"], deployment.get("status") or {}
        sets = self.owned(entry.uid, REPLICA_SETS)
        current = next((rs for rs in sets if newest and rs["metadata"]["uid"] == newest["metadata"]["uid"]), None)
        total, ready = _sum(sets, "replicas"), _sum(sets, "readyReplicas")
        there = _sum(sets, "availableReplicas")
        updated = 0 if current is None else (current.get("status") or {}).get("replicas", 0)
        wanted = spec["replicas"]
        counts = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": there,
            "unavailableReplicas": max(0, sum(map(replicas, sets)) - there),
        }
        status: Object = {"observedGeneration": deployment["metadata"].get("generation", 1)}
        status |= nonzero(**counts)
        status["conditions"] = [dict(each) for each in before.get("conditions") or ()]
        now = self.api.timestamp()
        rolling = spec["strategy"].get("rollingUpdate") or {}
        enough = there >= wanted - share(rolling.get("maxUnavailable"), wanted, up=False)
        set_condition(status, _available(enough, now, condition(deployment, "Available")), now)
        complete = updated == wanted == total and there == wanted
        self._progress(key, deployment, status, current, counts, complete, now)
        self.set_status(entry, status)

    def _progress(
        self,
        key: str,
        deployment: Object,
        status: Object,
        newest: Object | None,
        counts: dict[str, int],
        complete: bool,
        now: str,
    ) -> None:
        known = condition(deployment, "Progressing")
        before = deployment.get("status") or {}
        name = newest["metadata"]["name"] if newest else deployment["metadata"]["name"]
        moved = known is None or any(before.get(part, 0) != count for part, count in counts.items())
        if complete:
            reason, text, value = "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.', "True"
            moved = moved or (known or {}).get("reason") != reason
            self.settle(key)
        else:
            reason, text, value = "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.', "True"
            deadline_s = deployment["spec"].get("progressDeadlineSeconds", 600)
            since = parse_time((known or {}).get("lastUpdateTime") or "") or self.api.clock.now()
            if (known or {}).get("reason") == "NewReplicaSetAvailable":
                moved = True
            elif not moved and not deployment["spec"].get("paused"):
                left_s = since + deadline_s - self.api.clock.now()
                if left_s <= 0:
                    reason, value = "ProgressDeadlineExceeded", "False"
                    text = f'ReplicaSet "{name}" has timed out progressing.'
                    moved = (known or {}).get("reason") != reason
                else:
                    self.enqueue_after(key, left_s + 1)
            if moved and value == "True":
                self.enqueue_after(key, deadline_s + 1)
        if moved:
            wanted = {"type": "Progressing", "status": value, "lastUpdateTime": now, "reason": reason, "message": text}
            set_condition(status, wanted, now)


def _available(enough: bool, now: str, known: Object | None) -> Object:
    value = "True" if enough else "False"
    since = known["lastUpdateTime"] if known and known.get("status") == value and "lastUpdateTime" in known else now
    return {
        "type": "Available",
        "status": value,
        "lastUpdateTime": since,
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }


def replicas(rs: Object) -> int:
    return int((rs.get("spec") or {}).get("replicas", 0))


def available(rs: Object) -> int:
    return int((rs.get("status") or {}).get("availableReplicas", 0))


def revision(rs: Object) -> int:
    text = (rs["metadata"].get("annotations") or {}).get(REVISION, "0")
    return quantities.whole(text) or 0


def _sum(sets: list[Object], name: str) -> int:
    return sum((rs.get("status") or {}).get(name, 0) for rs in sets)


def _essence(template: Object) -> Object:
    """Return a template without its hash and zero values: clients differ in whether they write them."""
    said: Object = _said(template)
    metadata = said.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**said, "metadata": {**metadata, "labels": labels}}


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _said(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, False, 0, "", {}, [])}
    return [_said(item) for item in value] if isinstance(value, list) else value
