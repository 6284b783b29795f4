"""A conformance kit: send an extender valid and invalid requests, and check its answers.

The traffic for it, pods and nodes as schedulers send them, is at the end of the module.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import msgspec

from mooring.api.text import without_secrets
from mooring.core.framework.extender import ExtenderError
from mooring.net.extender import wire
from mooring.net.extender.go_json import FilterAnswer
from mooring.net.extender.http_client import ExtenderReply, HttpClient, NoAnswer
from mooring.net.extender.sdk import MAX_SCORE

# --------------------------------------------------------------------------------------------------------------------
# Checks of an extender's answers: what a scheduler cannot use, and what is legal but probably a mistake.

FILTER_FIELDS = ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error")
PRIORITY_FIELDS = ("Host", "Score")
PREEMPT_FIELDS = ("NodeNameToMetaVictims",)


@dataclass(slots=True)
class Check:
    """Result of one check: ok, or the problem found. A warning is legal but probably a mistake."""

    name: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems


def check_filter(check: Check, reply: ExtenderReply, offered: Collection[str], *, by_name: bool) -> None:
    """Check the answer to a filter request about the offered nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: a scheduler reads only answers with 200")
            return
        found = wire.read_filter_answer(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, FILTER_FIELDS)
    if found.error:
        check.problems.append(f"Error: {found.error}")
        return
    kept = _kept_by_name(check, found) if by_name else _kept_whole(check, found)
    _check_kept(check, kept, set(offered))
    _check_reasons(check, found, set(kept), set(offered))


def _kept_by_name(check: Check, found: FilterAnswer) -> list[str]:
    if found.node_names is None and found.nodes is not None:
        check.warnings.append("answers with Nodes where names were sent: they are scored as empty nodes")
        return node_names(found.nodes)
    if found.node_names is None:
        check.problems.append("answers with neither NodeNames nor Nodes: no node is kept")
    return found.node_names or []


def _kept_whole(check: Check, found: FilterAnswer) -> list[str]:
    if found.nodes is None:
        what = "NodeNames only: not read unless nodeCacheCapable is set" if found.node_names else "no Nodes"
        check.problems.append(f"answers with {what}, so that no node is kept")
        return []
    return node_names(found.nodes)


def _check_kept(check: Check, kept: Sequence[str], offered: set[str]) -> None:
    unknown = [name for name in kept if name not in offered]
    if unknown:
        check.problems.append(f"keeps {unknown[0]!r}, which was not offered: a scheduler fails the pod")
    if len(kept) != len(set(kept)):
        check.problems.append("keeps a node twice")


def _check_reasons(check: Check, found: FilterAnswer, kept: set[str], offered: set[str]) -> None:
    failed, for_good = found.failed.keys(), found.failed_and_unresolvable.keys()
    silent = offered - kept - failed - for_good
    if silent:
        check.warnings.append(
            f"{len(silent)} of {len(offered)} nodes are dropped without a reason: users cannot tell why"
        )
    strangers = (failed | for_good) - offered
    if strangers:
        check.warnings.append(f"gives a reason for {min(strangers)!r}, which was not offered")
    if failed & for_good:
        check.warnings.append(
            f"{min(failed & for_good)!r} is in FailedNodes and FailedAndUnresolvableNodes; the latter counts"
        )
    if kept & (failed | for_good):
        check.warnings.append(f"{min(kept & (failed | for_good))!r} is kept and refused; kept is what counts")


def check_scores(check: Check, reply: ExtenderReply, offered: Collection[str]) -> None:
    """Check the answer to a prioritize request about the offered nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: a scheduler then continues without these scores")
            return
        scores = wire.read_priorities(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, PRIORITY_FIELDS)
    hosts = [host for host, _ in scores]
    beyond = [(host, score) for host, score in scores if not 0 <= score <= MAX_SCORE]
    if beyond:
        check.warnings.append(
            f"{beyond[0][0]} gets {beyond[0][1]}; scores go from 0 to {MAX_SCORE}, others outweigh all plugins"
        )
    strangers, without = set(hosts) - set(offered), set(offered) - set(hosts)
    if strangers:
        check.warnings.append(f"scores {min(strangers)!r}, which was not offered")
    if without:
        check.warnings.append(f"{len(without)} of {len(offered)} nodes get no score: they count as 0")
    if len(hosts) != len(set(hosts)):
        check.problems.append("scores a node twice: both are added up")


def check_preemption(check: Check, reply: ExtenderReply, offered: Collection[str]) -> None:
    """Check the answer to a preempt request about the offered nodes."""
    try:
        if reply.status != 200:
            check.problems.append(f"status {reply.status}: preemption then fails")
            return
        found = wire.read_preemption_answer(reply.body)
    except ExtenderError as error:
        check.problems.append(f"a scheduler would say: {error}")
        return
    check.warnings += odd_spellings(reply.body, PREEMPT_FIELDS)
    for node, victims in found.items():
        if node not in offered:
            check.problems.append(f"answers with {node!r}, which was not offered: preemption then fails")
        if not victims.uids:
            check.problems.append(f"leaves {node} without victims: preemption then fails")


def odd_spellings(body: bytes, wire_names: Sequence[str]) -> list[str]:
    """Return fields in another spelling, which Go accepts but other schedulers may not."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return []
    objects = value if isinstance(value, list) else [value]
    spelled = {name.lower(): name for name in wire_names}
    odd = {
        key: spelled[key.lower()]
        for item in objects
        if isinstance(item, dict)
        for key in item
        if key not in wire_names and key.lower() in spelled
    }
    return [f"field {key!r}: {right!r} is its name" for key, right in sorted(odd.items())]


def node_names(nodes: Sequence[bytes]) -> list[str]:
    """Return the names of encoded nodes, "" for a node without one."""
    found = []
    for raw in nodes:
        meta = (msgspec.json.decode(raw) or {}).get("metadata") or {}
        found.append(str(meta.get("name", "")))
    return found


def says_error(body: bytes) -> bool:
    """Report whether an answer is an Error or unreadable."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return True
    return isinstance(value, dict) and any(key.lower() == "error" and value[key] for key in value)


@dataclass(slots=True)
class ExtenderLatency:
    verb: str
    nodes: int
    calls: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(slots=True)
class ConformanceReport:
    """Observed behaviour of an extender."""

    url: str
    checks: list[Check] = field(default_factory=list)
    latencies: list[ExtenderLatency] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class ConformancePlan:
    """Requests to try, and their number."""

    filter_verb: str = "filter"
    prioritize_verb: str = "prioritize"
    preempt_verb: str = ""
    by_name: bool = False
    nodes: int = 5000
    calls: int = 20
    concurrency: int = 16
    timeout_s: float = 5.0
    seed: int = 1


class Kit:
    """Runs a plan against one URL."""

    def __init__(
        self, url: str, plan: ConformancePlan, client: HttpClient, progress: Callable[[str], None] | None = None
    ) -> None:
        self._url = url.rstrip("/") + "/"
        self._plan = plan
        self._client = client
        self._rng = random.Random(plan.seed)
        self._progress = progress or (lambda text: None)
        self.report = ConformanceReport(without_secrets(url))
        self._nodes = [make_node(i, self._rng) for i in range(max(plan.nodes, 10))]

    def run(self) -> ConformanceReport:
        plan = self._plan
        verbs = [verb for verb in (plan.filter_verb, plan.prioritize_verb, plan.preempt_verb) if verb]
        if not self._reachable(verbs):
            return self.report
        self._recorded()
        if plan.filter_verb:
            self._filter_checks()
        if plan.prioritize_verb:
            self._prioritize_checks()
        if plan.preempt_verb:
            self._preempt_checks()
        for verb in verbs:
            self._bad_input(verb)
        for verb in (plan.filter_verb, plan.prioritize_verb):
            if verb:
                self._measure(verb)
                self._concurrency(verb)
        return self.report

    # ---- calls -------------------------------------------------------------------------------------------------

    def _post(self, verb: str, body: bytes) -> ExtenderReply:
        return self._client.post(self._url + verb, body)

    def _try(self, check: Check, verb: str, body: bytes) -> ExtenderReply | None:
        """Send a request; a missing answer is a problem of the check."""
        try:
            return self._post(verb, body)
        except NoAnswer as error:
            check.problems.append(f"a scheduler would say: {error}")
            return None

    def _check(self, name: str) -> Check:
        check = Check(name)
        self.report.checks.append(check)
        self._progress(name)
        return check

    def _reachable(self, verbs: Sequence[str]) -> bool:
        check = self._check("it answers")
        for verb in verbs:
            try:
                self._post(verb, self._args(2))
            except NoAnswer as error:
                check.problems.append(str(error))
                return False
        return True

    def _args(self, n: int, name: str = "web-0") -> bytes:
        return args_body(make_pod(name, self._rng), self._nodes[:n], by_name=self._plan.by_name)

    # ---- recorded ----------------------------------------------------------------------------------------------

    def _recorded(self) -> None:
        """Send requests recorded from kube-scheduler v1.36.4, byte for byte."""
        plan = self._plan
        configured = {"filter": plan.filter_verb, "prioritize": plan.prioritize_verb, "preempt": plan.preempt_verb}
        for request in recorded_requests():
            verb = configured.get(request["verb"], "")
            if not verb or request["by_name"] != plan.by_name:
                continue
            check = self._check(f"{verb}: recorded request ({request['from']})")
            body = msgspec.json.encode(request["body"])
            reply = self._try(check, verb, body)
            if reply is None:
                continue
            if request["verb"] == "filter":
                nodes = (request["body"].get("Nodes") or {}).get("items") or ()
                names = request["body"].get("NodeNames") or [node["metadata"]["name"] for node in nodes]
                check_filter(check, reply, names, by_name=plan.by_name)
            elif reply.status != 200:
                check.problems.append(f"status {reply.status}")

    # ---- filter ------------------------------------------------------------------------------------------------

    def _filter_checks(self) -> None:
        for title, n in (("filter one node", 1), ("filter three nodes", 3), ("filter 100 nodes", 100)):
            check = self._check(title)
            n = min(n, len(self._nodes))
            self._filter(check, self._nodes[:n], self._args(n))
        check = self._check("filter random pods and nodes")
        for i in range(10):
            offered = self._rng.sample(self._nodes, k=self._rng.randint(1, min(50, len(self._nodes))))
            pod = make_pod(f"random-{i}", self._rng)
            self._filter(check, offered, args_body(pod, offered, by_name=self._plan.by_name))
        check = self._check("filter gives the same answer twice")
        body = self._args(10, "same-0")
        try:
            if self._kept(self._post(self._plan.filter_verb, body)) != self._kept(
                self._post(self._plan.filter_verb, body)
            ):
                check.warnings.append("the same request was answered differently: decisions cannot be repeated")
        except ExtenderError as error:
            check.problems.append(str(error))

    def _filter(self, check: Check, offered: Sequence[dict[str, Any]], body: bytes) -> None:
        reply = self._try(check, self._plan.filter_verb, body)
        if reply is not None:
            check_filter(check, reply, [node["metadata"]["name"] for node in offered], by_name=self._plan.by_name)

    def _kept(self, reply: ExtenderReply) -> list[str]:
        found = wire.read_filter_answer(reply.body)
        return sorted(found.node_names or []) + sorted(node_names(found.nodes or []))

    # ---- prioritize --------------------------------------------------------------------------------------------

    def _prioritize_checks(self) -> None:
        for title, n in (("prioritize two nodes", 2), ("prioritize 100 nodes", 100)):
            check = self._check(title)
            reply = self._try(check, self._plan.prioritize_verb, self._args(n))
            if reply is not None:
                check_scores(check, reply, [node["metadata"]["name"] for node in self._nodes[:n]])

    # ---- preempt -----------------------------------------------------------------------------------------------

    def _preempt_checks(self) -> None:
        check = self._check("preempt on three nodes")
        names = [node["metadata"]["name"] for node in self._nodes[:3]]
        body = preemption_body(make_pod("urgent-0"), names, by_uid=self._plan.by_name)
        reply = self._try(check, self._plan.preempt_verb, body)
        if reply is not None:
            check_preemption(check, reply, names)

    # ---- bad input ---------------------------------------------------------------------------------------------

    def _bad_input(self, verb: str) -> None:
        """Send invalid requests. Any answer is fine, as long as there is one and the server keeps running."""
        nonsense: Iterable[tuple[str, bytes]] = (
            ("an empty body", b""),
            ("something that is not JSON", b"{not json"),
            ("a cut body", self._args(3)[:-20]),
            ("null", b"null"),
            ("another type", b'{"Pod": 7, "Nodes": "many"}'),
            ("bytes that are no text", bytes(range(256))),
        )
        check = self._check(f"{verb}: invalid requests are answered")
        for what, body in nonsense:
            try:
                answer = self._post(verb, body)
            except NoAnswer as error:
                check.problems.append(f"{what}: {error}")
                continue
            if answer.status == 200 and not says_error(answer.body):
                check.warnings.append(f"{what}: is answered as if it were a request")
        try:
            self._post(verb, self._args(2))
        except NoAnswer as error:
            check.problems.append(f"afterwards: {error}")

    # ---- speed -------------------------------------------------------------------------------------------------

    def _measure(self, verb: str) -> None:
        sizes = sorted({min(100, self._plan.nodes), self._plan.nodes})
        for n in sizes:
            check = self._check(f"{verb}: {n:,} nodes within {self._plan.timeout_s:g} s")
            body = self._args(n, "big-0")
            check.note = f"{len(body) / 1e6:.1f} MB"
            times: list[float] = []
            for _ in range(self._plan.calls):
                started = time.perf_counter()
                try:
                    answer = self._post(verb, body)
                except NoAnswer as error:
                    check.problems.append(str(error))
                    break
                times.append(time.perf_counter() - started)
                if answer.status != 200:
                    check.problems.append(f"status {answer.status}")
                    break
            if times:
                self.report.latencies.append(latency(verb, n, times))

    def _concurrency(self, verb: str) -> None:
        plan = self._plan
        check = self._check(f"{verb}: {plan.concurrency} calls at the same time")
        bodies = [self._args(50, f"load-{i}") for i in range(plan.concurrency)]

        def call(body: bytes) -> str:
            try:
                status = self._post(verb, body).status
                return "" if status == 200 else f"status {status}"
            except NoAnswer as error:
                return str(error)

        with ThreadPoolExecutor(plan.concurrency) as pool:
            started = time.perf_counter()
            problems = [problem for _ in range(4) for problem in pool.map(call, bodies) if problem]
            took_s = time.perf_counter() - started
        check.problems += sorted(set(problems))
        check.note = f"{4 * plan.concurrency / took_s:,.0f} calls/s with 50 nodes each"


def recorded_requests() -> list[dict[str, Any]]:
    data = resources.files("mooring.net.extender").joinpath("recorded_requests.json").read_bytes()
    found: list[dict[str, Any]] = msgspec.json.decode(data)
    return found


def latency(verb: str, nodes: int, seconds: Sequence[float]) -> ExtenderLatency:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    return ExtenderLatency(verb, nodes, len(ordered), at(0.5), at(0.9), at(0.99), ordered[-1] * 1000)


# --------------------------------------------------------------------------------------------------------------------
# Traffic

INSTANCE_TYPES = ("small", "medium", "large")
ZONES = ("zone-a", "zone-b", "zone-c")


def make_node(i: int, rng: random.Random | None = None, *, size: int = 0) -> dict[str, Any]:
    """Return a node like those of cloud clusters, about 2 KB of JSON; ``size`` pads it with annotations."""
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
    """Return a pending pod."""
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
    """Encode ExtenderArgs in one of its two forms."""
    if by_name:
        return msgspec.json.encode(
            {"Pod": pod, "Nodes": None, "NodeNames": [node["metadata"]["name"] for node in nodes]}
        )
    return msgspec.json.encode({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def preemption_body(pod: dict[str, Any], nodes: list[str], *, by_uid: bool) -> bytes:
    """Encode ExtenderPreemptionArgs with one victim per node."""
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
