"""Extenders over HTTP, as kube-scheduler calls them.

| | kube-scheduler | mooring |
|---|---|---|
| whole nodes | serialised for every call | once per version of a node |
| large bodies | plain | compressed for remote extenders that accept it |
| a silent extender | every pod waits for the timeout | skipped after five calls in a row: ``CircuitBreaker`` |
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import msgspec

from mooring.api.codec import decode
from mooring.api.core import Container, Node, Pod
from mooring.api.errors import ConfigError, InputError
from mooring.api.text import without_secrets
from mooring.core.config.types import Extender
from mooring.core.framework.extender import (
    AnsweredNode,
    ExtenderClient,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
    ask_in_turn,
)
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.net.extender import wire
from mooring.net.extender.go_json import MetaVictims
from mooring.net.extender.http_client import HttpClient, NoAnswer, tls_context
from mooring.net.extender.wire import ObjectSource, Payload, SerializedNodes, StructSource, as_go_writes

# --------------------------------------------------------------------------------------------------------------------
# The circuit breaker: a silent extender is skipped for a while, so that it cannot delay every pod.

FAILURES = 5
PAUSE_S = 5.0
MAX_PAUSE_S = 60.0


class CircuitBreaker:
    """Opens after ``failures`` consecutive calls without an answer; then one call at a time tries again.

    Only silence counts (refused, reset, timed out), not an error answer. The pause doubles while the extender stays
    silent, up to a minute.
    """

    def __init__(
        self,
        name: str,
        now: Callable[[], float],
        *,
        failures: int = FAILURES,
        pause_s: float = PAUSE_S,
        on_change: Callable[[bool, str], None] = lambda is_open, why: None,
    ) -> None:
        self._name = name
        self._now = now
        self._limit = failures
        self._first_pause_s = pause_s
        self._on_change = on_change
        self._lock = threading.Lock()
        self._failed = 0
        self._pause_s = pause_s
        self._closed_again_at = 0.0
        self._is_trying = False
        self._last = ""

    @property
    def is_open(self) -> bool:
        return self._failed >= self._limit

    def enter(self) -> None:
        """Let a call pass, or reject it immediately while the breaker is open."""
        if not self.is_open:
            return
        with self._lock:
            wait_s = self._closed_again_at - self._now()
            if wait_s <= 0 and not self._is_trying:
                self._is_trying = True
                return
        raise ExtenderError(
            f'extender "{self._name}" is not asked: {self._failed} calls in a row got no answer, '
            f"the last: {self._last}; it is tried again in {max(wait_s, 0):.0f}s"
        )

    def answered(self) -> None:
        if not self._failed:
            return
        with self._lock:
            was_open = self.is_open
            self._failed = 0
            self._pause_s = self._first_pause_s
            self._is_trying = False
        if was_open:
            self._on_change(False, "it answers again")

    def silent(self, why: str) -> None:
        with self._lock:
            self._failed += 1
            self._last = why
            opens = self._failed == self._limit
            if self.is_open:
                if not opens:
                    self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
                self._closed_again_at = self._now() + self._pause_s
            self._is_trying = False
        if opens:
            self._on_change(True, f"{self._limit} calls in a row got no answer, the last: {why}")


T = TypeVar("T")

FILTER, PRIORITIZE, PREEMPT, BIND = "filter", "prioritize", "preempt", "bind"


class CallObserver(Protocol):
    """Observes every call and the breakers, for metrics and events."""

    def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
        """A call has ended; ``verb`` is filter, prioritize, preempt or bind, whatever the configured path."""

    def on_breaker(self, extender: str, is_open: bool, why: str) -> None:
        """An extender is skipped from now on, or called again."""


class NoObserver:
    def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None: ...

    def on_breaker(self, extender: str, is_open: bool, why: str) -> None: ...


class HttpExtender:
    """One entry of the configuration's ``extenders``."""

    def __init__(
        self,
        config: Extender,
        nodes: SerializedNodes,
        *,
        observer: CallObserver | None = None,
        now: Callable[[], float] = time.monotonic,
        breaker_failures: int | None = None,
        name: str = "",
    ) -> None:
        self.config = config
        self.name = name or config.shown_url  # its URL without secrets, for logs, metrics and events
        self._nodes = nodes
        self._observer = observer or NoObserver()
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._url = config.url_prefix.rstrip("/") + "/"
        server_name = config.tls_config.server_name if config.tls_config else ""
        self._client = HttpClient(config.request_timeout_s, tls_context(config), server_name)
        self.breaker = CircuitBreaker(
            self.name,
            now,
            on_change=lambda is_open, why: self._observer.on_breaker(self.name, is_open, why),
            **({} if breaker_failures is None else {"failures": breaker_failures}),
        )

    def close(self) -> None:
        self._client.close()

    def __repr__(self) -> str:
        return f"HttpExtender({self.name})"

    @property
    def is_ignorable(self) -> bool:
        return self.config.ignorable

    @property
    def is_filter(self) -> bool:
        return bool(self.config.filter_verb)

    @property
    def is_prioritizer(self) -> bool:
        return bool(self.config.prioritize_verb)

    @property
    def is_binder(self) -> bool:
        return bool(self.config.bind_verb)

    @property
    def supports_preemption(self) -> bool:
        return bool(self.config.preempt_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        """Report whether the pod requests a managed resource, or every pod if none is managed."""
        return is_concerned(self._managed, pod.pod)

    # ---- the verbs ---------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        if not self.is_filter:
            return ExtenderFilterResult(nodes)
        answer = self._call(FILTER, self.config.filter_verb, self._args(pod, nodes), wire.read_filter_answer)
        if answer.error:
            raise ExtenderError(answer.error)
        kept: Sequence[NodeInfo] = ()
        if self.config.node_cache_capable and answer.node_names is not None:
            offered = {info.name: info for info in nodes}
            for name in answer.node_names:
                if name not in offered:
                    raise ExtenderError(
                        f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input '
                        "node list"
                    )
            kept = [offered[name] for name in answer.node_names]
        elif answer.nodes is not None:
            kept = self._whole(answer.nodes, nodes)
        return ExtenderFilterResult(kept, answer.failed, answer.failed_and_unresolvable)

    def _whole(self, answered: Sequence[bytes], nodes: Sequence[NodeInfo]) -> list[AnsweredNode]:
        """Decode returned nodes; unchanged ones are taken from the request."""
        sent = {} if self.config.node_cache_capable else {self._nodes.json(info): info for info in nodes}
        rows = {info.name: info.row for info in nodes}
        found = []
        for raw in answered:
            known = sent.get(raw)
            if known is not None and known.node is not None:
                found.append(AnsweredNode.of(known.node, raw, known.row))
                continue
            try:
                node: Node = decode(Node, raw)
            except (InputError, msgspec.MsgspecError) as error:
                raise ExtenderError(f"json: cannot unmarshal a node of the answer: {error}") from None
            found.append(AnsweredNode.of(node, as_go_writes(raw), rows.get(node.metadata.name, -1)))
        return found

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        if not self.is_prioritizer:
            return Prioritized([(info.name, 0) for info in nodes], 0)
        scores = self._call(PRIORITIZE, self.config.prioritize_verb, self._args(pod, nodes), wire.read_priorities)
        return Prioritized(scores, self.config.weight)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        objects = self._nodes.objects
        mine = objects.pod_json(pod.pod)
        if self.config.node_cache_capable:
            uids = {node: ([p.uid for p in found.pods], found.pdb_violations) for node, found in victims.items()}
            body = wire.preemption_args(mine, uids=uids)
        else:
            whole = {
                node: ([objects.pod_json(p.pod) for p in found.pods], found.pdb_violations)
                for node, found in victims.items()
            }
            body = wire.preemption_args(mine, victims=whole)
        answer = self._call(PREEMPT, self.config.preempt_verb, Payload((body,)), wire.read_preemption_answer)
        return {node: self._victims(node, found, nodes) for node, found in answer.items()}

    def _victims(self, node: str, found: MetaVictims, nodes: Mapping[str, NodeInfo]) -> VictimsOnNode:
        info = nodes.get(node)
        if info is None or info.node is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        for uid in found.uids:
            if uid not in info.pods:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, but the pod is "
                    "not found on that node"
                )
        return VictimsOnNode(tuple(info.pods[uid] for uid in found.uids), found.pdb_violations)

    def bind(self, pod: PodInfo, node_name: str) -> None:
        meta = pod.pod.metadata
        body = wire.binding_args(meta.name, meta.namespace, meta.uid, node_name)
        error = self._call(BIND, self.config.bind_verb, Payload((body,)), wire.read_binding_answer)
        if error:
            raise ExtenderError(error)

    # ---- calling -----------------------------------------------------------------------------------------------

    def _args(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Payload:
        mine = self._nodes.objects.pod_json(pod.pod)
        if self.config.node_cache_capable:
            return Payload((wire.args_with_names(mine, [info.name for info in nodes]),))
        self._nodes.offered(len(nodes))
        whole = [self._nodes.json(info) for info in nodes]
        compresses = self._client.compresses
        return Payload(wire.args_with_nodes(mine, whole), self._nodes.deflated(whole) if compresses else None)

    def _call(self, verb: str, action: str, body: Payload, read: Callable[[bytes], T]) -> T:
        started = time.perf_counter()
        error: ExtenderError | None = None
        try:
            return self._ask(verb, action, body, read)
        except ExtenderError as problem:
            error = problem
            raise
        finally:
            self._observer.on_call(self.name, verb, time.perf_counter() - started, error)

    def _ask(self, verb: str, action: str, body: Payload, read: Callable[[bytes], T]) -> T:
        url = self._url + action
        self.breaker.enter()
        try:
            answer = self._client.post(url, body, may_repeat=verb != BIND)
        except NoAnswer as error:
            self.breaker.silent(str(error))
            raise
        except BaseException:
            self.breaker.silent("it was interrupted")
            raise
        self.breaker.answered()
        if answer.status != 200:
            raise ExtenderError(f"failed {action} with extender at URL {without_secrets(url)}, code {answer.status}")
        return read(answer.body)


def is_concerned(managed: frozenset[str], pod: Pod) -> bool:
    """Report whether an extender with these managed resources (none: all pods) is asked about a pod."""
    return not managed or _names_any(pod.spec.containers, managed) or _names_any(pod.spec.init_containers, managed)


def _names_any(containers: Iterable[Container], resources: frozenset[str]) -> bool:
    return any(
        not resources.isdisjoint(container.resources.requests) or not resources.isdisjoint(container.resources.limits)
        for container in containers
    )


def distinct_names(names: Sequence[str]) -> list[str]:
    """Number the names that several have: URLs that differ only in a secret look alike without it."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return distinct


def build_extenders(
    configs: Iterable[Extender],
    objects: ObjectSource | None = None,
    *,
    observer: CallObserver | None = None,
    now: Callable[[], float] = time.monotonic,
) -> list[HttpExtender]:
    """Build the configuration's extenders, ignorable ones last; raise ConfigError for an invalid one."""
    nodes = SerializedNodes(StructSource() if objects is None else objects)
    found = list(configs)
    names = distinct_names([config.shown_url for config in found])
    try:
        made = [
            HttpExtender(config, nodes, observer=observer, now=now, name=name)
            for config, name in zip(found, names, strict=True)
        ]
    except ConfigError as error:
        raise ConfigError(*(f"couldn't build extenders: {problem}" for problem in error.problems)) from None
    return sorted(made, key=lambda extender: extender.is_ignorable)


# --------------------------------------------------------------------------------------------------------------------
# Concurrent calls of several extenders for scores.

MOST_AT_ONCE = 64


class AskTogether:
    """Asks all extenders for scores concurrently, so that a slow one does not delay the others.

    The threads are reused between decisions. They end with this object, which belongs to an engine.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="extender")

    def __call__(
        self, extenders: Sequence[ExtenderClient], pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> list[Prioritized | ExtenderError]:
        if sum(extender.is_prioritizer for extender in extenders) < 2:
            return ask_in_turn(extenders, pod, nodes)
        calls = [self._pool.submit(extender.prioritize, pod, nodes) for extender in extenders]
        return [_outcome(call) for call in calls]


def _outcome(call: Future[Prioritized]) -> Prioritized | ExtenderError:
    try:
        return call.result()
    except ExtenderError as error:
        return error
