"""Traces for OpenTelemetry: one per sampled attempt, with a span for each extension point and each plugin.

Without tracing there is no overhead: this is an observer like any other. With tracing, an attempt that is not sampled
costs one random number and one variable access per extension point.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mooring.api import yaml
from mooring.api.errors import InputError, UsageError
from mooring.api.text import without_secrets
from mooring.api.version import __version__
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.cycle_state import PluginTimer
from mooring.core.framework.extension_points import METRIC_NAMES
from mooring.core.framework.handle import CycleObserver
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, Code
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.live.observer import Observed, SchedulerObserver

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


MILLION = 1_000_000
MAX_OPEN = 10_000  # attempts whose pods are being bound


@dataclass(slots=True)
class _Attempt:
    """A traced attempt. Its spans are created at its end, when its pod is known."""

    started_ns: int
    points: list[tuple[str, str, int, int]] = field(default_factory=list)  # name, status, from, to
    plugins: list[tuple[str, str, str, int, int]] = field(default_factory=list)  # plugin, point, status, from, to
    attributes: dict[str, str | int] = field(default_factory=dict)


_binding: ContextVar[_Attempt | None] = ContextVar("mooring_traced_binding", default=None)
_NOT_TRACED = _Attempt(0)  # stands for the binding of a pod whose attempt was not sampled


class Tracing(SchedulerObserver):
    """Tracer of one scheduler. ``tracer`` comes from OpenTelemetry; this class only uses its API."""

    def __init__(
        self,
        tracer: Tracer,
        rate_per_million: int,
        *,
        draw: Callable[[], float] = random.random,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tracer = tracer
        self._share = rate_per_million / MILLION
        self._draw, self._now_ns = draw, now_ns
        self._scheduler: Observed | None = None
        self._profiles: object = None  # the profiles that are observed
        self._current: _Attempt | None = None  # attempts do not overlap
        self._open: dict[str, _Attempt] = {}  # by the uid of the pod that is being bound

    # ---- the scheduler -------------------------------------------------------------------------------------------

    def configured(self, scheduler: Observed) -> None:
        self._scheduler = scheduler
        self._listen()

    def _listen(self) -> None:
        assert self._scheduler is not None
        self._profiles = self._scheduler.profiles
        for profile in self._scheduler.profiles.values():
            if not isinstance(profile.observer, _Cycle):
                profile.observer = _Cycle(self, profile.observer)

    def wants_detail(self) -> bool:
        """Begin an attempt."""
        assert self._scheduler is not None
        if self._scheduler.profiles is not self._profiles:
            self._listen()
        self._current = _Attempt(self._now_ns()) if self._draw() < self._share else None
        return False

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        attempt = self._current
        if attempt is None:
            return
        attempt.attributes = {
            "mooring.outcome": decision.outcome.value,
            "mooring.nodes": decision.num_nodes,
            "mooring.nodes.evaluated": decision.evaluated_nodes,
            "mooring.nodes.feasible": decision.feasible_nodes,
        }
        if decision.node and len(self._open) < MAX_OPEN:
            self._open[info.uid] = attempt

    def binding(self, info: QueuedPodInfo) -> None:
        """Begin a binding cycle, a separate task whose events belong to this attempt."""
        _binding.set(self._open.get(info.uid, _NOT_TRACED))

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        attempt = self._open.pop(info.uid, None)
        if attempt is not None:
            self._export(attempt, info, profile, {"k8s.node.name": node_name})

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        attempt = self._open.pop(info.uid, None)
        if attempt is None:
            attempt, self._current = self._current, None
            if attempt is None or _binding.get() is not None:  # it was a pod of another attempt
                return
        self._export(attempt, info, profile, {"mooring.reason": reason, "mooring.message": message})

    # ---- its attempts --------------------------------------------------------------------------------------------

    @property
    def attempt(self) -> _Attempt | None:
        """The attempt that current events belong to."""
        attempt = _binding.get()
        if attempt is None:
            return self._current
        return None if attempt is _NOT_TRACED else attempt

    def span(self, seconds: float) -> tuple[int, int]:
        """Return the span of something that took ``seconds`` and has just ended."""
        now = self._now_ns()
        return now - int(seconds * 1e9), now

    def _export(
        self, attempt: _Attempt, info: QueuedPodInfo, profile: Profile, attributes: dict[str, str | int]
    ) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        pod = info.pod_info.pod
        root: Span = self._tracer.start_span(
            "Scheduling",
            start_time=attempt.started_ns,
            kind=SpanKind.INTERNAL,
            attributes={
                "k8s.pod.name": pod.name,
                "k8s.namespace.name": pod.namespace,
                "k8s.pod.uid": pod.uid,
                "mooring.profile": profile.scheduler_name,
                "mooring.attempt": info.attempts,
                **attempt.attributes,
                **attributes,
            },
        )
        if attributes.get("mooring.reason") == "SchedulerError":
            root.set_status(Status(StatusCode.ERROR, str(attributes["mooring.message"])))
        below = set_span_in_context(root)
        left = list(attempt.plugins)
        for name, status, began, ended in attempt.points:
            span = self._tracer.start_span(
                name, below, start_time=began, attributes={"mooring.status": status, "mooring.extension_point": name}
            )
            within = set_span_in_context(span)
            for call in [call for call in left if call[1] == name and call[4] <= ended]:
                left.remove(call)
                plugin, _, said, since, until = call
                child = self._tracer.start_span(
                    f"{name}/{plugin}",
                    within,
                    start_time=since,
                    attributes={"mooring.plugin": plugin, "mooring.status": said},
                )
                child.end(until)
            span.end(ended)
        root.end(self._now_ns())


class _Cycle:
    """Observes extension points, and forwards everything to the previous observer."""

    def __init__(self, tracing: Tracing, observer: CycleObserver | None) -> None:
        self._tracing, self._observer = tracing, observer
        self._timer = PluginTimer(time.monotonic, self._plugin)
        self._also: Any = None  # the timer of the other observer, in attempts that both time

    def __getattr__(self, name: str) -> Any:
        """Forward what plugins report besides extension points."""
        return getattr(self._observer, name)

    def extension_point(self, point: str, status: str, seconds: float) -> None:
        attempt = self._tracing.attempt
        if attempt is not None:
            attempt.points.append((point, status, *self._tracing.span(seconds)))
        if self._observer is not None:
            self._observer.extension_point(point, status, seconds)

    def evaluated(self, point: str, plugins: Sequence[Any], times: int) -> None:
        if self._observer is not None:
            self._observer.evaluated(point, plugins, times)

    def plugin_timer(self) -> PluginTimer | None:
        """Time every plugin in a traced attempt."""
        other = None if self._observer is None else self._observer.plugin_timer()
        if self._tracing.attempt is None:
            return other
        self._also = other
        return self._timer

    def _plugin(self, plugin: str, method: str, code: Code, seconds: float) -> None:
        attempt = self._tracing.attempt
        if attempt is not None:
            point = METRIC_NAMES.get(method, method)
            attempt.plugins.append((plugin, point, CODE_NAMES[code], *self._tracing.span(seconds)))
        if self._also is not None:
            self._also._tell(plugin, method, code, seconds)

    def node_hint(self, *, is_hinted: bool, flushed: str, seconds: float) -> None:
        if self._observer is not None:
            self._observer.node_hint(is_hinted=is_hinted, flushed=flushed, seconds=seconds)

    def batch_rescored(self, seconds: float) -> None:
        if self._observer is not None:
            self._observer.batch_rescored(seconds)

    def batch_stored(self, hint: bool | None, flushed: str, seconds: float) -> None:
        if self._observer is not None:
            self._observer.batch_stored(hint, flushed, seconds)


# --------------------------------------------------------------------------------------------------------------------
# The file behind ``--tracing-config-file``: a TracingConfiguration, as API servers and kubelets take it.

API_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1")
NEEDS_OTEL = "tracing needs OpenTelemetry, which is not installed: pip install 'mooring[otel]'"
SERVICE = "mooring"


@dataclass(frozen=True, slots=True)
class TracingConfiguration:
    """Where traces are sent, and how many of a million attempts are traced."""

    endpoint: str = ""  # empty: what OTEL_EXPORTER_OTLP_ENDPOINT says, or http://localhost:4318
    rate_per_million: int = 0


def read_tracing_configuration(path: str) -> TracingConfiguration:
    """Read the file; a mistake is reported in one line."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"--tracing-config-file {path}: {(error.strerror or str(error)).lower()}") from None
    try:
        value = yaml.load(text, path)
    except InputError as error:
        raise UsageError(str(error)) from None
    if not isinstance(value, dict) or value.get("kind") != "TracingConfiguration":
        raise UsageError(f"{path}: kind: expected TracingConfiguration")
    if value.get("apiVersion") not in API_VERSIONS:
        found = value.get("apiVersion")
        raise UsageError(f"{path}: apiVersion: found {found!r}, expected {API_VERSIONS[0]}")
    unknown = sorted(value.keys() - {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"})
    if unknown:
        raise UsageError(f"{path}: unknown field {unknown[0]}; expected endpoint, samplingRatePerMillion")
    rate, endpoint = value.get("samplingRatePerMillion") or 0, value.get("endpoint") or ""
    if not isinstance(rate, int) or isinstance(rate, bool) or not 0 <= rate <= MILLION:
        raise UsageError(f"{path}: samplingRatePerMillion: found {rate!r}, expected a number from 0 to {MILLION}")
    if not isinstance(endpoint, str) or not _is_reachable(url := _url(endpoint)):
        shown = without_secrets(str(endpoint))
        raise UsageError(
            f"{path}: endpoint: found {shown!r}, expected an http:// or https:// URL, or a host and a port"
        )
    return TracingConfiguration(url, rate)


def _url(endpoint: str) -> str:
    """Return the URL for traces over HTTP; a bare host and port gets the path that collectors serve."""
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"http://{endpoint}/v1/traces"


def _is_reachable(url: str) -> bool:
    """Report whether an exporter could send to the URL, as far as its syntax says."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is checked when it is read
    except ValueError:
        return False
    is_text = url.isprintable() and not any(map(str.isspace, url))
    return not url or (is_text and parts.scheme in ("http", "https") and bool(parts.hostname))


def start_tracing(config: TracingConfiguration) -> tuple[Tracing, Callable[[], None]]:
    """Return an observer that exports traces in the background, and a function that flushes and ends it."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise UsageError(NEEDS_OTEL) from None
    attributes: dict[str, Any] = {"service.name": SERVICE, "service.version": __version__}
    named_outside = OTELResourceDetector().detect()  # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    resource = Resource.create(attributes).merge(named_outside)
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=config.endpoint) if config.endpoint else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("mooring", __version__)
    return Tracing(tracer, config.rate_per_million), provider.shutdown
