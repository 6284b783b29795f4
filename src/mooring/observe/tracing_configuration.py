"""The file behind ``--tracing-config-file``: a TracingConfiguration, as API servers and kubelets take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mooring.api import yaml
from mooring.errors import InputError, UsageError
from mooring.observe.tracing import MILLION, Tracing
from mooring.urls import without_password
from mooring.version import __version__

API_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1")
NEEDS_OTEL = "tracing needs OpenTelemetry, which is not installed: pip install 'mooring[otel]'"
SERVICE = "mooring"


@dataclass(frozen=True, slots=True)
class TracingConfiguration:
    """Where traces go, and how many attempts of a million are traced."""

    endpoint: str = ""  # empty: what OTEL_EXPORTER_OTLP_ENDPOINT says, or http://localhost:4318
    rate_per_million: int = 0


def read_tracing_configuration(path: str) -> TracingConfiguration:
    """Read the file, or say in one line what is wrong with it."""
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
        shown = without_password(str(endpoint))
        raise UsageError(
            f"{path}: endpoint: found {shown!r}, expected an http:// or https:// URL, or a host and a port"
        )
    return TracingConfiguration(url, rate)


def _url(endpoint: str) -> str:
    """Traces go by HTTP; a bare host and port gets the path that collectors serve."""
    if not endpoint or "://" in endpoint:
        return endpoint
    return f"http://{endpoint}/v1/traces"


def _is_reachable(url: str) -> bool:
    """Whether an exporter could send to it, as far as the text says."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is checked when it is read
    except ValueError:
        return False
    is_text = url.isprintable() and not any(map(str.isspace, url))
    return not url or (is_text and parts.scheme in ("http", "https") and bool(parts.hostname))


def start_tracing(config: TracingConfiguration) -> tuple[Tracing, Callable[[], None]]:
    """An observer that exports traces in the background, and what ends it: the rest is sent first."""
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
