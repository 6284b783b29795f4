"""How many calls of an author's functions may run at once, and for how long.

A call runs in the thread of its connection. When its time is up, a watchdog
answers in its place. Python cannot end a thread, so a call that still runs then
is written off: it hangs, and another call gets its place. The number of places
that are replaced like this is bounded, because every hung call keeps a thread
and its request in memory.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, TypeVar

import msgspec

from mooring.net.extender.sdk import CallFacts
from mooring.net.http_io import Refused
from mooring.net.prometheus import MetricsRegistry

log = logging.getLogger("mooring.net.extender.server")

T = TypeVar("T")

REPLACED_PER_PLACE = 4


class TooLate(Exception):
    """The call's time was up before it ended; the watchdog has answered."""


class _Call:
    __slots__ = ("due", "give_up", "is_late", "is_replaced", "is_running")

    def __init__(self, due: float, give_up: Callable[[], None]) -> None:
        self.due = due
        self.give_up = give_up
        self.is_running = False  # it has a place
        self.is_late = False  # its time is up; the watchdog answers in its place
        self.is_replaced = False  # it hangs, and another call has its place


class Workers:
    """Places for calls, a queue before them, and a watchdog."""

    def __init__(self, places: int, *, most_waiting: int, timeout_s: float) -> None:
        self.places = places
        self.hung = 0
        """Calls whose time is up and which still run."""
        self._most_waiting = most_waiting
        self._most_replaced = REPLACED_PER_PLACE * places
        self._timeout_s = timeout_s
        self._free = places
        self._replaced = 0
        self._calls: dict[_Call, None] = {}  # those in time; all have the same time, so the first is the first due
        self._changed = threading.Condition(threading.Lock())
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the watchdog."""
        threading.Thread(target=self._watch, name="extender-watchdog", daemon=True).start()

    @property
    def in_flight(self) -> int:
        """Calls that run or wait, with those that hang."""
        return len(self._calls) + self.hung

    @property
    def is_healthy(self) -> bool:
        """False when as many calls hang as may run at once: a new process would do better."""
        return self.hung < self.places

    def run(self, work: Callable[[], T], give_up: Callable[[], None]) -> T:
        """Do the work when there is a place for it.

        When its time is up, the watchdog calls ``give_up``, and this raises TooLate as soon as the work ends.
        """
        call = _Call(time.monotonic() + self._timeout_s, give_up)
        self._begin(call)
        try:
            return work()
        finally:
            self._end(call)

    def close(self) -> None:
        """End the watchdog."""
        self._closed.set()

    def _begin(self, call: _Call) -> None:
        with self._changed:
            if self.hung - self._replaced >= self.places:
                raise Refused(503, f"{self.hung} calls hang, and no more can be started")
            if not self._free and len(self._calls) >= self.places + self._most_waiting:
                raise Refused(503, f"{len(self._calls)} requests are being answered; this one is too many")
            self._calls[call] = None
            while not self._free and not call.is_late:
                self._changed.wait()
            if call.is_late:
                raise TooLate
            self._free -= 1
            call.is_running = True

    def _end(self, call: _Call) -> None:
        with self._changed:
            if not call.is_late:
                del self._calls[call]
            else:
                self.hung -= 1
            if call.is_replaced:
                self._replaced -= 1
            else:
                self._free += 1
                self._changed.notify()
        if call.is_late:
            log.warning("a call that was given up has ended", extra={"values": {"hung": self.hung}})
            raise TooLate

    def _watch(self) -> None:
        pause_s = self._timeout_s  # a call that begins from now on is not due before
        while not self._closed.wait(pause_s):
            pause_s = self.give_up_late(time.monotonic())

    def give_up_late(self, now: float) -> float:
        """Give up on calls whose time is up; return how long the next one still has."""
        with self._changed:
            hung_before = self.hung
            late = list(takewhile(lambda call: call.due <= now, self._calls))
            for call in late:
                self._write_off(call)
            left_s = next(iter(self._calls)).due - now if self._calls else self._timeout_s
            self._changed.notify_all()
        if self.hung > hung_before:
            log.error("calls hang", extra={"values": {"hung": self.hung, "healthy": self.is_healthy}})
        for call in late:
            try:
                call.give_up()
            except Exception:
                log.exception("cannot answer for a call that does not end")
        return left_s

    def _write_off(self, call: _Call) -> None:
        del self._calls[call]
        call.is_late = True
        if not call.is_running:
            return
        self.hung += 1
        if self._replaced < self._most_replaced:
            call.is_replaced = True
            self._replaced += 1
            self._free += 1


# --------------------------------------------------------------------------------------------------------------------
# What a served extender's ``/metrics`` shows.

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Counts requests. Every connection has a thread of its own, so one lock guards all figures."""

    def __init__(self, name: str) -> None:
        registry = self._registry = MetricsRegistry()
        self.lock = threading.Lock()
        self.requests = registry.counter(
            "mooring_extender_requests_total", "Requests by verb and outcome.", ("verb", "code")
        )
        self.seconds = registry.histogram(
            "mooring_extender_request_duration_seconds",
            "How long requests took, from the last byte in to the first byte out.",
            ("verb",),
            buckets=_BUCKETS,
        )
        self.nodes = registry.counter(
            "mooring_extender_nodes_total", "Nodes that were offered (result=offered) and kept.", ("verb", "result")
        )
        self._in_flight = registry.gauge("mooring_extender_requests_in_flight", "Requests being answered.")
        self._hung = registry.gauge(
            "mooring_extender_hung_calls", "Calls that have not returned although their time is up."
        )
        registry.gauge("mooring_extender_info", "The extender that is served.", ("name",)).labels(name).set(1)

    def count_refused(self, code: int) -> None:
        """Count a request that reached no verb."""
        with self.lock:
            self.requests.labels("", str(code)).inc()

    def count_failed(self, verb: str, code: str, took_s: float) -> None:
        """Count a call that ended with an error; ``code`` is "error" when the answer's status is 200."""
        with self.lock:
            self.requests.labels(verb, code).inc()
            self.seconds.labels(verb).observe(took_s)

    def render(self, *, in_flight: int, hung: int) -> bytes:
        with self.lock:
            self._in_flight.set(in_flight)
            self._hung.set(hung)
            return self._registry.render().encode()


class VerbMetrics:
    """Counts one verb's calls. Children are looked up once, because looking up costs more than counting."""

    def __init__(self, metrics: ServerMetrics, verb: str) -> None:
        self._lock = metrics.lock
        self._seconds = metrics.seconds.labels(verb)
        self._offered = metrics.nodes.labels(verb, "offered")
        self._kept = metrics.nodes.labels(verb, "kept")
        self._succeeded = metrics.requests.labels(verb, "200")

    def count(self, facts: CallFacts, took_s: float) -> None:
        """Count a call that went well."""
        with self._lock:
            self._seconds.observe(took_s)
            self._succeeded.inc()
            self._offered.inc(facts.nodes)
            self._kept.inc(max(facts.kept, 0))


# --------------------------------------------------------------------------------------------------------------------
# Traffic to try an extender with: pods and nodes as schedulers send them, plain, odd and many.

INSTANCE_TYPES = ("small", "medium", "large")
ZONES = ("zone-a", "zone-b", "zone-c")


def make_node(i: int, rng: random.Random | None = None, *, size: int = 0) -> dict[str, Any]:
    """A node as cloud clusters have them, some 2 KB of JSON; ``size`` pads it with annotations."""
    rng = rng or random.Random(i)
    name = f"node-{i:05d}"
    capacity = {"cpu": str(rng.choice((2, 8, 32, 96))), "memory": f"{rng.choice((8, 64, 256))}Gi", "pods": "110"}
    node: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{i:012d}",
            "resourceVersion": str(1000 + i),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": ZONES[i % 3],
                "topology.kubernetes.io/region": "region-1",
                "node.kubernetes.io/instance-type": INSTANCE_TYPES[i % 3],
                "disk": "ssd" if i % 2 else "hdd",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/attach-detach": "true"},
        },
        "spec": {"podCIDR": f"10.{i // 250 % 250}.{i % 250}.0/24", "providerID": f"example:///{ZONES[i % 3]}/{name}"},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": "2026-01-01T00:05:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:10Z",
                    "reason": f"Kubelet{kind}",
                    "message": f"kubelet reports {kind}",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "addresses": [{"type": "InternalIP", "address": f"10.0.{i // 250 % 250}.{i % 250}"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": f"{i:032x}",
                "systemUUID": f"{i:032x}",
                "bootID": f"{i:032x}",
                "kernelVersion": "6.1.0",
                "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": "v1.36.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
    if size:
        node["metadata"]["annotations"]["example.com/notes"] = "x" * size
    return node


def make_pod(name: str, rng: random.Random | None = None) -> dict[str, Any]:
    """A pending pod."""
    rng = rng or random.Random(name)
    request = {"cpu": f"{rng.choice((100, 500, 2000))}m", "memory": f"{rng.choice((128, 512, 4096))}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "example/app:1", "resources": {"requests": request}}],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{rng.getrandbits(128):032x}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name.rpartition("-")[0] or name},
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def args_body(pod: dict[str, Any], nodes: list[dict[str, Any]], *, by_name: bool) -> bytes:
    """ExtenderArgs in one of its two forms."""
    if by_name:
        return msgspec.json.encode(
            {"Pod": pod, "Nodes": None, "NodeNames": [node["metadata"]["name"] for node in nodes]}
        )
    return msgspec.json.encode({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def preemption_body(pod: dict[str, Any], nodes: list[str], *, by_uid: bool) -> bytes:
    """ExtenderPreemptionArgs with one victim per node."""
    victims = {node: make_pod(f"victim-on-{node}") for node in nodes}
    whole = {node: {"Pods": [victim], "NumPDBViolations": 0} for node, victim in victims.items()}
    meta = {
        node: {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0} for node, victim in victims.items()
    }
    return msgspec.json.encode(
        {
            "Pod": pod,
            "NodeNameToVictims": None if by_uid else whole,
            "NodeNameToMetaVictims": meta if by_uid else None,
        }
    )
