"""Traces of attempts: a span per extension point and per plugin, sampled, exported by OTLP."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from mooring.api.errors import UsageError
from mooring.cli.main import run
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.server import ControlPlane
from mooring.core.config.load import default_config
from mooring.live.context import SchedulerOptions
from mooring.live.live_scheduler import LiveScheduler
from mooring.live.tracing import MILLION, Tracing, TracingConfiguration, read_tracing_configuration, start_tracing
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient
from mooring.sim.backend import Backend
from mooring.sim.scenario import node, pod

WAIT_S = 300.0
FILE = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"


async def schedule(folder: Path, tracing: Tracing) -> None:
    """One pod is bound, and one fits nowhere."""
    path = folder / "kubeconfig"
    async with ControlPlane(kubeconfig_path=path) as plane:
        config = load_kubeconfig([str(path)], environ={})
        options = SchedulerOptions(observers=(tracing,))
        async with (
            RestClient(config, qps=-1) as client,
            RestClient(config, qps=-1) as theirs,
            LiveScheduler(theirs, default_config(), options, hostname="HOST") as live,
            asyncio.timeout(WAIT_S),
        ):
            backend = Backend(client)
            for name in "ab":
                await backend.create(node(name, cpu="2"))
            await backend.create(pod("small", cpu="1"))
            await backend.create(pod("large", cpu="9"))
            while live.scheduler.queue.counts()["unschedulable"] < 1 or not is_bound(plane):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while live.scheduler.cluster.num_assumed:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def is_bound(plane: ControlPlane) -> bool:
    return bool(plane.api.get(PODS, "default", "small").object()["spec"].get("nodeName"))


def in_memory(rate: int = MILLION, **options: Any) -> tuple[Tracing, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("test"), rate, **options), exporter


def roots(spans: tuple[ReadableSpan, ...]) -> dict[Any, ReadableSpan]:
    """By the pod's name."""
    return {(span.attributes or {})["k8s.pod.name"]: span for span in spans if span.parent is None}


def below(spans: tuple[ReadableSpan, ...], parent: ReadableSpan) -> list[ReadableSpan]:
    context = parent.get_span_context()
    assert context is not None
    return [span for span in spans if span.parent is not None and span.parent.span_id == context.span_id]


@pytest.mark.e2e
async def test_an_attempt_is_a_trace(tmp_path: Path) -> None:
    tracing, exporter = in_memory()
    await schedule(tmp_path, tracing)
    spans = exporter.get_finished_spans()
    small = roots(spans)["small"]
    assert small.attributes is not None
    assert (small.name, small.attributes["mooring.outcome"]) == ("Scheduling", "scheduled")
    assert small.attributes["k8s.node.name"] in ("a", "b") and small.attributes["mooring.attempt"] == 1
    assert small.attributes["mooring.nodes.feasible"] == 2
    points = below(spans, small)
    names = [span.name for span in points]
    assert names[:3] == ["Sign", "PreFilter", "Filter"] and {"PreScore", "Score", "Reserve", "Bind"} < set(names)
    (filtering,) = (span for span in points if span.name == "Filter")
    assert "Filter/NodeResourcesFit" in {span.name for span in below(spans, filtering)}
    for span in points:
        assert span.start_time is not None and span.end_time is not None
        assert small.start_time <= span.start_time + 1_000_000 and span.end_time <= small.end_time  # type: ignore[operator]
    large = roots(spans)["large"]
    assert large.attributes is not None and large.attributes["mooring.reason"] == "Unschedulable"
    assert "Insufficient cpu" in str(large.attributes["mooring.message"])
    assert large.status.status_code is StatusCode.UNSET  # a refusal is no error
    assert "PostFilter" in {span.name for span in below(spans, large)}


@pytest.mark.e2e
async def test_what_is_not_drawn_is_not_traced(tmp_path: Path) -> None:
    drawn = iter([0.4, 0.6])
    tracing, exporter = in_memory(MILLION // 2, draw=lambda: next(drawn, 1.0))
    await schedule(tmp_path, tracing)
    assert len(roots(exporter.get_finished_spans())) == 1
    assert not tracing._open


class Receiver:
    """A collector: takes what is posted to /v1/traces."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        received = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/traces":
                    if self.headers.get("Content-Encoding") == "gzip":
                        body = gzip.decompress(body)
                    received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.mark.e2e
async def test_traces_reach_a_collector(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mooring-7")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=test")
    (tmp_path / "tracing.yaml").write_text(
        f"{FILE}endpoint: 127.0.0.1:{receiver.port}\nsamplingRatePerMillion: 1000000\n"
    )
    tracing, end = start_tracing(read_tracing_configuration(str(tmp_path / "tracing.yaml")))
    await schedule(tmp_path, tracing)
    await asyncio.to_thread(end)
    found = [resource for request in receiver.requests for resource in request.resource_spans]
    names = {span.name for resource in found for scope in resource.scope_spans for span in scope.spans}
    assert {"Scheduling", "Filter", "Filter/NodeResourcesFit", "Bind"} < names
    attributes = {each.key: each.value.string_value for each in found[0].resource.attributes}
    assert attributes["service.name"] == "mooring-7" and attributes["deployment"] == "test"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", TracingConfiguration("", 0), id="nothing is traced unless it is said how much"),
        pytest.param(
            "endpoint: collector:4318\nsamplingRatePerMillion: 100\n",
            TracingConfiguration("http://collector:4318/v1/traces", 100),
            id="host and port",
        ),
        pytest.param(
            "endpoint: https://collector/x\n", TracingConfiguration("https://collector/x", 0), id="a URL stays as it is"
        ),
    ],
)
def test_configurations(tmp_path: Path, text: str, want: TracingConfiguration) -> None:
    (tmp_path / "t.yaml").write_text(FILE + text)
    assert read_tracing_configuration(str(tmp_path / "t.yaml")) == want


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("kind: Pod\n", "kind: expected TracingConfiguration", id="another kind"),
        pytest.param("kind: TracingConfiguration\n", "apiVersion: found None", id="no version"),
        pytest.param(FILE + "samplingRate: 1\n", "unknown field samplingRate", id="an unknown field"),
        pytest.param(FILE + "samplingRatePerMillion: 2000000\n", "expected a number from 0 to 1000000", id="too many"),
        pytest.param(FILE + "endpoint: 'not a url ::'\n", "expected an http:// or https:// URL", id="no URL"),
        pytest.param(FILE + "endpoint: dns:///collector:4317\n", "found 'dns:///collector:4317'", id="another scheme"),
        pytest.param(FILE + "endpoint: collector:99999\n", "or a host and a port", id="no port"),
        pytest.param(FILE + "endpoint: ftp://u:secret@x\n", r"found 'ftp://u:\*\*\*@x'", id="a password is not shown"),
        pytest.param(FILE + "endpoint: [1]\n", "or a host and a port", id="no text"),
        pytest.param(None, "no such file", id="no file"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "t.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_tracing_configuration(str(path))


def test_without_the_extra_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    (tmp_path / "t.yaml").write_text(FILE)
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\nusers: [{name: a, user: {}}]\n"
    )
    assert run(["run", f"--kubeconfig={tmp_path}/config", f"--tracing-config-file={tmp_path}/t.yaml"]) == 2
    assert "pip install 'mooring[otel]'" in capsys.readouterr().err
