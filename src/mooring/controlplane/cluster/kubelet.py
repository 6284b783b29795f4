"""Fake kubelets: one watcher that acts as the kubelet of every node.

Bound pods start, run, complete and vanish; nodes register, stay ready and renew their leases. There are no containers,
and no task per node: a timer per pod with a pending change, and one for all leases.

Annotations control a pod or a node; kubectl can also set them:

=====================================  ======================================================================
``mooring/start-after: 5s``            on a pod: it takes this long until it runs and is ready
``mooring/completes-after: 30s``       on a pod: it ends by itself after running this long
``mooring/exit-code: "1"``             on a pod: how it ends (0: Succeeded, anything else: Failed)
``mooring/exit-code: "3=1,7=42"``      on a pod of an Indexed Job: how these indexes end; the others succeed
``mooring/exit-code: "1 1 0"``         on a pod with ``restartPolicy: OnFailure``: how it ends the first time, the
                                       second … and from the last on; each may have several: ``"3=1 0,7=42"``
``mooring/terminates-after: 2s``       on a pod: it needs only this much of its grace period
``mooring/kubelet: stopped``           on a node: its kubelet is silent; the node will be found unreachable
``mooring/kubelet: not-ready``         on a node: its kubelet says that it is not ready
=====================================  ======================================================================
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from mooring.api.errors import ParseError
from mooring.api.times import format_duration, format_micro_time, parse_seconds
from mooring.controlplane.cluster.base import ClusterApi, Timer, Timers
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage.store import ADDED, Event, StoredEntry
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SLICES = 10
TURN = 100
KUBELET_VERSION = "v1.36.4"

START_AFTER = "mooring/start-after"
COMPLETES_AFTER = "mooring/completes-after"
EXIT_CODE = "mooring/exit-code"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
TERMINATES_AFTER = "mooring/terminates-after"
KUBELET = "mooring/kubelet"
RESTART = "restart"
FAKE_NODE = "mooring/fake-node"
"""Label of fake nodes on a cluster that also has real ones."""


def _seconds_of(text: str) -> float | None:
    """Return the duration of an annotation; None if it is invalid."""
    try:
        return parse_seconds(text.strip())
    except ParseError:
        return None


class KubeletOptions(msgspec.Struct, frozen=True):
    """Defaults of the fake kubelets without annotations."""

    start_delay_s: float = 0.0
    lease_interval_s: float = 10.0  # 0: a node has a lease only while its kubelet is silent
    job_runs_s: float | None = None  # how long a pod of a Job runs; None: for ever
    terminates_after_s: float | None = None  # how much of its grace period a pod needs; None: all of it
    capacity: dict[str, str] = msgspec.field(default_factory=lambda: {"cpu": "4", "memory": "16Gi", "pods": "110"})


class Kubelets:
    """The kubelets of all nodes (or only of those marked as fake). ``start`` handles existing pods."""

    def __init__(
        self, api: ClusterApi, timers: Timers, options: KubeletOptions | None = None, *, only_marked: bool = False
    ) -> None:
        self._only_marked = only_marked
        self.api, self.store, self.timers = api, api.store, timers
        self.options = options or KubeletOptions()
        self._queue: deque[tuple[bool, str]] = deque()  # (is a node, key)
        self._queued: set[tuple[bool, str]] = set()
        self._turn: Timer | None = None
        self._ahead: dict[str, tuple[str, Timer]] = {}  # pod key -> its pending change
        self._crash_loops = CrashLoops()
        self._alive: dict[str, int] = {}
        """Nodes whose kubelet is well, in the order of registration, with the version that it has last seen to."""
        self._completed = ""  # the node whose creation follows
        self._reported: dict[str, int] = {}  # versions of new nodes that contain everything a kubelet reports
        self._addresses: dict[str, str] = {}
        self._pod_count = 0
        self._slice = 0
        self._lease_timer: Timer | None = None
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        self._stops = [self.store.subscribe(NODES, self._note_node), self.store.subscribe(PODS, self._note_pod)]
        for entry in self.store.iterate(NODES):
            self._enqueue(True, entry.key)
        for entry in self.store.iterate(PODS):
            if entry.fields and entry.fields.get("spec.nodeName"):
                self._enqueue(False, entry.key)
        if self.options.lease_interval_s:
            self._lease_timer = self.timers.call_later(self._slice_s(), self._renew_some)

    @property
    def is_idle(self) -> bool:
        """Report whether no pod has a pending change."""
        return not self._ahead and not self._queue

    @property
    def only_restarts(self) -> bool:
        """Report whether only restarts of failed containers are pending, which may never end."""
        return not self._queue and all(step.startswith(RESTART) for step, _ in self._ahead.values())

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []
        for _, timer in self._ahead.values():
            timer.cancel()
        self._ahead = {}
        for turn in (self._turn, self._lease_timer):
            if turn is not None:
                turn.cancel()
        self._turn = self._lease_timer = None

    # Noting down

    def _note_node(self, event: Event) -> None:
        key = event.entry.key
        if event.type == ADDED and key == self._completed:  # not if that was refused
            self._completed, self._reported[key] = "", event.rv
        self._enqueue(True, key)

    def _note_pod(self, event: Event) -> None:
        entry = event.entry
        if entry.fields and entry.fields.get("spec.nodeName"):
            self._enqueue(False, entry.key)

    def _enqueue(self, is_node: bool, key: str) -> None:
        item = (is_node, key)
        if item not in self._queued:
            self._queued.add(item)
            self._queue.append(item)
            if self._turn is None:
                self._turn = self.timers.call_soon(self._work)

    def _work(self) -> None:
        self._turn = None
        for _ in range(TURN):
            if not self._queue:
                return
            item = self._queue.popleft()
            self._queued.discard(item)
            is_node, key = item
            with contextlib.suppress(StatusError):  # another writer was faster: its event enqueues the key again
                self._look_at_node(key) if is_node else self._look_at_pod(key)
        if self._queue:
            self._turn = self.timers.call_soon(self._work)

    # Nodes

    def _look_at_node(self, name: str) -> None:
        entry = self.store.entry(NODES, name)
        if entry is None:
            self._alive.pop(name, None)
            return
        if self._only_marked and FAKE_NODE not in entry.labels:
            return
        if self._alive.get(name) == entry.rv:  # its own write
            return
        was_silent = name not in self._alive
        if self._reported.pop(name, 0) != entry.rv:
            node = entry.object()
            mode = _mode_of(node)
            if mode == "stopped":
                if not was_silent:
                    del self._alive[name]
                    for pod in self.store.pods_on(name):
                        self._cancel(pod.key)
                    if not self.options.lease_interval_s:
                        self._renew(name)  # the last sign of life
                return
            self._alive[name] = entry.rv
            entry = self._register(entry, node, is_ready=mode != "not-ready")
        self._alive[name] = entry.rv
        if was_silent:
            if self.options.lease_interval_s:
                self._renew(name)
            elif self.store.get(LEASES, LEASE_NAMESPACE, name) is not None:
                self.api.delete(LEASES, LEASE_NAMESPACE, name)
            for pod in self.store.pods_on(name):
                self._enqueue(False, pod.key)

    def complete(self, node: Object) -> None:
        """Complete a new node with everything that a kubelet reports."""
        mode = _mode_of(node)
        if mode != "stopped" and node["metadata"].get("name"):
            _add_labels(node, _missing_labels(node))
            self._report(node, is_ready=mode != "not-ready")
            self._completed = node["metadata"]["name"]

    def _register(self, entry: StoredEntry, node: Object, *, is_ready: bool) -> StoredEntry:
        """Fill in what a kubelet reports of its node, where the manifest lacks it; return the node."""
        missing = _missing_labels(node)
        if missing:
            entry = self.api.modify(NODES, "", entry.name, lambda obj: _add_labels(obj, missing))
            node = entry.object()
        before = entry.object().get("status") or {}
        self._report(node, is_ready=is_ready)
        status = node["status"]
        if status == before:
            return entry
        return self.api.modify(NODES, "", entry.name, lambda obj: obj.update(status=status), subresource="status")

    def _report(self, node: Object, *, is_ready: bool) -> None:
        name = node["metadata"]["name"]
        status = node.setdefault("status", {})
        if not status.get("capacity"):
            status["capacity"] = {**self.options.capacity, **(status.get("allocatable") or {})}
        if not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        info = status.setdefault("nodeInfo", {})
        for key, value in _NODE_INFO.items():
            info[key] = info.get(key) or value
        addresses = {"InternalIP": self.host_ip(name), "Hostname": name}
        status.setdefault("addresses", [{"type": type_, "address": value} for type_, value in addresses.items()])
        _report_ready(status, is_ready, self.api.timestamp())

    def host_ip(self, name: str) -> str:
        """An address per node, handed out in order."""
        if name not in self._addresses:
            number = len(self._addresses) + 1
            self._addresses[name] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        return self._addresses[name]

    # Leases

    def _slice_s(self) -> float:
        # A renewal costs a write: thousands of nodes renew less often, as large clusters do.
        return max(self.options.lease_interval_s, len(self._alive) / 200) / LEASE_SLICES

    def _renew_some(self) -> None:
        """Renew a tenth of the leases, so that the writes are spread over the interval."""
        names = list(self._alive)
        for name in names[self._slice :: LEASE_SLICES]:
            self._renew(name)
        self._slice = (self._slice + 1) % LEASE_SLICES
        self._lease_timer = self.timers.call_later(self._slice_s(), self._renew_some)

    def _renew(self, name: str) -> None:
        now = format_micro_time(self.api.clock.now())
        entry = self.store.get(LEASES, LEASE_NAMESPACE, name)
        with contextlib.suppress(StatusError):
            if entry is not None:
                self.api.modify(LEASES, LEASE_NAMESPACE, name, lambda lease: lease["spec"].update(renewTime=now))
                return
            node = self.store.entry(NODES, name)
            if node is not None:
                self.api.create(LEASES, LEASE_NAMESPACE, _lease(name, node.uid, now))

    # Pods

    def _look_at_pod(self, key: str) -> None:
        entry = self.store.entry(PODS, key)
        if entry is None:
            self._cancel(key)
            self._crash_loops.forget(key)
            return
        pod = entry.object()
        spec, metadata = pod["spec"], pod["metadata"]
        node = spec.get("nodeName", "")
        if node not in self._alive:
            self._cancel(key)
            return
        annotations = metadata.get("annotations") or {}
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if metadata.get("deletionTimestamp"):
            self._plan(key, "vanish", self._until_gone(pod, annotations), self._vanish, entry.uid)
        elif phase == "Pending":
            delay_s = _seconds_of(annotations.get(START_AFTER, ""))
            self._plan(key, "run", self.options.start_delay_s if delay_s is None else delay_s, self._run, entry.uid)
        elif phase == "Running" and _has_failed(pod):
            left_s = self._crash_loops.left_s(key, self.api.clock.now())
            self._plan(key, RESTART, left_s, self._restart, entry.uid)
        elif phase == "Running":
            duration_s = _seconds_of(annotations.get(COMPLETES_AFTER, ""))
            if duration_s is None and _is_of_job(metadata):
                duration_s = self.options.job_runs_s
            if duration_s is not None:
                self._plan(key, "complete", duration_s, self._complete, entry.uid)
        else:
            self._cancel(key)

    def _until_gone(self, pod: Object, annotations: Object) -> float:
        metadata = pod["metadata"]
        at = parse_time(metadata["deletionTimestamp"]) or 0.0
        left_s = max(0.0, at - self.api.clock.now())
        grace_s = float(metadata.get("deletionGracePeriodSeconds") or 0)
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0.0
        if left_s > grace_s - 1.0:
            left_s = grace_s  # deleted just now: timestamps have no fractions, grace periods should not lose any
        wanted_s = _seconds_of(annotations.get(TERMINATES_AFTER, ""))
        if wanted_s is None:
            wanted_s = self.options.terminates_after_s
        return min(left_s, grace_s, grace_s if wanted_s is None else wanted_s)

    def _plan(self, key: str, what: str, delay_s: float, callback: Callable[[str, str], None], uid: str) -> None:
        known = self._ahead.get(key)
        step = f"{what} {uid}"
        if known is not None:
            if known[0] == step and what != "vanish":  # a deletion may be brought forward
                return
            known[1].cancel()
        self._ahead[key] = step, self.timers.call_later(delay_s, self._do, key, callback, uid)

    def _cancel(self, key: str) -> None:
        known = self._ahead.pop(key, None)
        if known is not None:
            known[1].cancel()

    def _do(self, key: str, callback: Callable[[str, str], None], uid: str) -> None:
        self._ahead.pop(key, None)
        entry = self.store.entry(PODS, key)
        if entry is None or entry.uid != uid:
            return
        with contextlib.suppress(StatusError):
            callback(entry.namespace, entry.name)

    def _run(self, namespace: str, name: str) -> None:
        self._pod_count += 1
        number, now = self._pod_count, self.api.timestamp()
        ip = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"

        def run(pod: Object) -> None:
            _set_running(pod, ip, self.host_ip(pod["spec"]["nodeName"]), now)

        self.api.modify(PODS, namespace, name, run, subresource="status")

    def _complete(self, namespace: str, name: str) -> None:
        key, now = f"{namespace}/{name}", self.api.timestamp()

        def end(pod: Object) -> None:
            code = _exit_code(pod)
            if code and pod["spec"].get("restartPolicy") == "OnFailure":
                wait_s = self._crash_loops.failed(key, pod["metadata"]["uid"], self.api.clock.now())
                _set_failed(pod, code, wait_s, now)
            else:
                self._crash_loops.forget(key)
                _set_finished(pod, code, now)

        self.api.modify(PODS, namespace, name, end, subresource="status")

    def _restart(self, namespace: str, name: str) -> None:
        now = self.api.timestamp()
        self.api.modify(PODS, namespace, name, lambda pod: _set_running_again(pod, now), subresource="status")
        self._crash_loops.restarted(f"{namespace}/{name}", self.api.clock.now())

    def _vanish(self, namespace: str, name: str) -> None:
        self.api.delete(PODS, namespace, name, {"gracePeriodSeconds": 0})


_NODE_INFO = {
    "kubeletVersion": KUBELET_VERSION,
    "operatingSystem": "linux",
    "architecture": "amd64",
    "osImage": "mooring (no containers run here)",
    "kernelVersion": "none",
    "containerRuntimeVersion": "fake://1.0",
}


def _mode_of(node: Object) -> str:
    mode: str = (node["metadata"].get("annotations") or {}).get(KUBELET, "")
    return mode


def _missing_labels(node: Object) -> dict[str, str]:
    labels = node["metadata"].get("labels") or {}
    wanted = {
        "kubernetes.io/hostname": node["metadata"]["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {key: value for key, value in wanted.items() if key not in labels}


def _add_labels(node: Object, labels: dict[str, str]) -> None:
    node["metadata"].setdefault("labels", {}).update(labels)


def _lease(name: str, node_uid: str, now: str) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    }


def _report_ready(status: Object, is_ready: bool, now: str) -> None:
    """Set the Ready condition; one that a user set stays, one that the node controller set to Unknown does not."""
    conditions: list[Object] = status.setdefault("conditions", [])
    known = next((each for each in conditions if each.get("type") == "Ready"), None)
    ours = known is None or known.get("status") == "Unknown" or known.get("reason", "").startswith("Kubelet")
    if not ours:
        return
    wanted = {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": "KubeletReady" if is_ready else "KubeletNotReady",
        "message": "the fake kubelet is posting ready status" if is_ready else "the fake kubelet is set to not ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    if known is None:
        conditions.append(wanted)
    elif known.get("status") != wanted["status"]:
        known.update(wanted)
    if is_ready:
        for each in conditions:
            if each.get("status") == "Unknown" and each.get("reason") == "NodeStatusUnknown":
                each.update(status="False", reason="KubeletHasSufficient", lastTransitionTime=now)


def _set_running(pod: Object, ip: str, host_ip: str, now: str) -> None:
    status = pod.setdefault("status", {})
    status.update(phase="Running", startTime=now, podIP=ip, podIPs=[{"ip": ip}], hostIP=host_ip)
    status["hostIPs"] = [{"ip": host_ip}]
    for type_ in ("PodReadyToStartContainers", "Initialized"):
        _set_pod_condition(status, type_, "True", now)
    _set_ready(status, "True", now)
    spec = pod["spec"]
    status["containerStatuses"] = [
        _container(each, {"running": {"startedAt": now}}, True) for each in spec["containers"]
    ]
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    if spec.get("initContainers"):
        running = {"running": {"startedAt": now}}
        status["initContainerStatuses"] = [
            _container(each, running if each.get("restartPolicy") == "Always" else done, True)
            for each in spec["initContainers"]
        ]


def _set_finished(pod: Object, code: int, now: str) -> None:
    status = pod.setdefault("status", {})
    status["phase"] = "Succeeded" if code == 0 else "Failed"
    _set_ready(status, "False", now, "PodCompleted" if code == 0 else "PodFailed")
    ended, restarts = _ended(pod, code, now), _restarts(pod)
    status["containerStatuses"] = [_container(each, ended, False, restarts) for each in pod["spec"]["containers"]]


def _set_failed(pod: Object, code: int, wait_s: float, now: str) -> None:
    """Record that the containers failed and will be restarted: the pod continues."""
    status = pod["status"]
    _set_ready(status, "False", now, "ContainersNotReady")
    ended, restarts = _ended(pod, code, now), _restarts(pod)
    found = [_container(each, ended, False, restarts) for each in pod["spec"]["containers"]]
    for each in found if wait_s else ():
        metadata = pod["metadata"]
        whose = f"container={each['name']} pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        message = f"back-off {format_duration(wait_s)} restarting failed {whose}"
        each.update(state={"waiting": {"reason": "CrashLoopBackOff", "message": message}}, lastState=ended)
    status["containerStatuses"] = found


def _set_running_again(pod: Object, now: str) -> None:
    status = pod["status"]
    _set_ready(status, "True", now)
    for each in status["containerStatuses"]:
        ended, before = each.get("state") or {}, each.get("lastState") or {}
        last = ended if "terminated" in ended else before
        each.update(state={"running": {"startedAt": now}}, lastState=last, ready=True, started=True)
        each["restartCount"] = each.get("restartCount", 0) + 1


def _is_of_job(metadata: Object) -> bool:
    return any(each.get("controller") and each.get("kind") == "Job" for each in metadata.get("ownerReferences") or ())


def _has_failed(pod: Object) -> bool:
    """Report whether the containers of a running pod wait for a restart."""
    if pod["spec"].get("restartPolicy") != "OnFailure":
        return False
    return any("running" not in (each.get("state") or {}) for each in pod["status"].get("containerStatuses") or ())


def _restarts(pod: Object) -> int:
    return max((each.get("restartCount", 0) for each in pod["status"].get("containerStatuses") or ()), default=0)


def _ended(pod: Object, code: int, now: str) -> Object:
    status = pod["status"]
    running = [(each.get("state") or {}).get("running") or {} for each in status.get("containerStatuses") or ()]
    started = next((each["startedAt"] for each in running if each), status.get("startTime", now))
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}


def _exit_code(pod: Object) -> int:
    """Return a pod's exit code: from its annotation, for all pods or for the indexes of a Job. Invalid numbers fail."""
    annotations = pod["metadata"].get("annotations") or {}
    text = str(annotations.get(EXIT_CODE, "0"))
    if "=" in text:
        parts = (part.partition("=") for part in text.split(","))
        text = {index.strip(): code.strip() for index, _, code in parts}.get(annotations.get(JOB_INDEX, ""), "0")
    by_run = text.split() or [""]
    code = quantities.whole(by_run[min(_restarts(pod), len(by_run) - 1)])
    return 1 if code is None else code


def _container(container: Object, state: Object, is_ready: bool, restarts: int = 0) -> Object:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "state": state,
        "lastState": {},
        "ready": is_ready,
        "started": is_ready,
        "restartCount": restarts,
        "image": image,
        "imageID": image,
        "containerID": "fake://" + container["name"],
    }


def _set_ready(status: Object, value: str, now: str, reason: str = "") -> None:
    for type_ in ("Ready", "ContainersReady"):
        _set_pod_condition(status, type_, value, now, reason)


def _set_pod_condition(status: Object, type_: str, value: str, now: str, reason: str = "") -> None:
    conditions: list[Object] = status.setdefault("conditions", [])
    wanted: Object = {"type": type_, "status": value, "lastTransitionTime": now}
    if reason:
        wanted["reason"] = reason
    for i, known in enumerate(conditions):
        if known.get("type") == type_:
            if known.get("status") != value:
                conditions[i] = wanted
            return
    conditions.append(wanted)


# Containers that fail are restarted immediately, then after 10 s, 20 s … 5 min. After ten minutes of running well, the
# next failure counts as a first one.

FIRST_S, MOST_S = 10.0, 300.0
WELL_AFTER_S = 2 * MOST_S


@dataclass(slots=True)
class _Loop:
    uid: str
    wait_s: float = 0.0  # after the next failure
    started_at: float = float("-inf")  # when the container was last started again
    due_at: float = float("-inf")  # when it may be started again; it is not waiting if that is over


class CrashLoops:
    """The pods whose containers have failed, by ``namespace/name``. Times are the clock's."""

    def __init__(self) -> None:
        self._loops: dict[str, _Loop] = {}

    def failed(self, key: str, uid: str, now: float) -> float:
        """Note failed containers; return how long they wait."""
        loop = self._loops.get(key)
        if loop is None or loop.uid != uid or now - loop.started_at > WELL_AFTER_S:
            loop = self._loops[key] = _Loop(uid)
        loop.due_at = now + loop.wait_s
        return loop.wait_s

    def restarted(self, key: str, now: float) -> None:
        """Note restarted containers; the next failure doubles the wait."""
        loop = self._loops.get(key)
        if loop is not None:
            loop.wait_s = min(2 * loop.wait_s, MOST_S) if loop.wait_s else FIRST_S
            loop.started_at = now

    def left_s(self, key: str, now: float) -> float:
        """Return how long they still wait."""
        loop = self._loops.get(key)
        return 0.0 if loop is None else max(0.0, loop.due_at - now)

    def forget(self, key: str) -> None:
        """Forget a finished or deleted pod."""
        self._loops.pop(key, None)
