"""How fast an extender answers: mooring's server and a naive one, asked the same in the same run.

Each server is a process of its own on this machine; what is measured is the
round trip as a scheduler sees it, over a kept connection. The naive one is what
a tutorial shows: Flask with ``request.get_json()`` and ``jsonify``, or, where
Flask is not installed, the same with ``http.server`` and ``json``.
"""

from __future__ import annotations

import importlib.util
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from mooring.errors import MooringError
from mooring.extender.traffic import args_body, make_node, make_pod
from mooring.extender.transport import Transport

START_S = 20.0
TIMEOUT_S = 60.0

_SDK_WHOLE = """
from mooring.extender.sdk import Node, Pod, refuse

def filter(pod: Pod, node: Node):
    if node.labels.get("disk") != "ssd":
        return refuse("no ssd")

def prioritize(pod: Pod, node: Node) -> int:
    return 10 if node.labels.get("topology.kubernetes.io/zone") == "zone-a" else 3
"""

_SDK_NAMES = """
from mooring.extender.sdk import Filtered, Pod

SSD = {f"node-{i:05d}" for i in range(1, 100_000, 2)}
SCORES = {f"node-{i:05d}": i % 11 for i in range(100_000)}

def filter(pod: Pod, nodes: list[str]):
    return Filtered([n for n in nodes if n in SSD], dict.fromkeys(set(nodes) - SSD, "no ssd"))

def prioritize(pod: Pod, nodes: list[str]):
    return {n: SCORES[n] for n in nodes}
"""

_SERVE_SDK = """
import asyncio, sys, types
from mooring.extender.handlers import serve_object
from mooring.extender.server import ExtenderServer, run_server, serve
module = types.ModuleType("bench_extender")
sys.modules[module.__name__] = module
exec(sys.argv[1], module.__dict__)
async def main():
    runner, port = await serve(ExtenderServer(serve_object(module, "bench")))
    print(port, flush=True)
    await asyncio.Event().wait()
run_server(main())
"""

_LOGIC = """
import json
def filter_(args):
    kept, failed = [], {}
    for node in args["Nodes"]["items"]:
        if node["metadata"]["labels"].get("disk") == "ssd":
            kept.append(node)
        else:
            failed[node["metadata"]["name"]] = "no ssd"
    return {"Nodes": {"metadata": {}, "items": kept}, "NodeNames": None, "FailedNodes": failed, "Error": ""}
def prioritize(args):
    zone = "topology.kubernetes.io/zone"
    return [{"Host": n["metadata"]["name"], "Score": 10 if n["metadata"]["labels"].get(zone) == "zone-a" else 3}
            for n in args["Nodes"]["items"]]
"""

_SERVE_FLASK = (
    _LOGIC
    + """
import logging
from flask import Flask, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server
logging.getLogger("werkzeug").setLevel(logging.ERROR)
WSGIRequestHandler.protocol_version = "HTTP/1.1"
app = Flask("naive")
@app.post("/filter")
def do_filter():
    return jsonify(filter_(request.get_json()))
@app.post("/prioritize")
def do_prioritize():
    return jsonify(prioritize(request.get_json()))
server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""
)

_SERVE_STAND_IN = (
    _LOGIC
    + """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(filter_(args) if self.path == "/filter" else prioritize(args)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
)


def has_flask() -> bool:
    return importlib.util.find_spec("flask") is not None


@contextmanager
def _process(*arguments: str) -> Iterator[str]:
    """A server in a process of its own; the URL where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-c", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ.copy()
    )
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_S)
        line = process.stdout.readline() if ready else b""
        if not line.strip().isdigit():
            raise MooringError(f"the server to be measured did not start within {START_S:g} s")
        yield f"http://127.0.0.1:{int(line)}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _times(url: str, verbs: tuple[str, ...], body: bytes, calls: int) -> list[float]:
    """Seconds per round of all verbs, after a few rounds that do not count."""
    transport = Transport(TIMEOUT_S)
    times: list[float] = []
    for i in range(calls + 3):
        started = time.perf_counter()
        for verb in verbs:
            _post(transport, f"{url}/{verb}", body)
        if i >= 3:
            times.append(time.perf_counter() - started)
    transport.close()
    return times


def _throughput(url: str, verb: str, body: bytes, calls: int, clients: int) -> float:
    """Calls per second with some clients at once."""
    transport = Transport(TIMEOUT_S)
    _post(transport, f"{url}/{verb}", body)
    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(lambda _: _post(transport, f"{url}/{verb}", body), range(calls)))
        took_s = time.perf_counter() - started
    transport.close()
    return calls / took_s


def _post(transport: Transport, url: str, body: bytes) -> None:
    answer = transport.post(url, body)
    if answer.status != 200:
        raise MooringError(f"{url}: status {answer.status} where 200 would be right")


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p90_ms": round(ordered[int(0.9 * (len(ordered) - 1))] * 1000, 2),
        "max_ms": round(ordered[-1] * 1000, 2),
    }


def run(
    nodes: int = 5000,
    calls: int = 50,
    clients: int = 2,
    *,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure names only and whole nodes, ours and a naive server; see ``goals`` for what should hold."""
    say = progress or (lambda text: None)
    made = [make_node(i) for i in range(nodes)]
    pod = make_pod("web-0")
    names, whole = args_body(pod, made, by_name=True), args_body(pod, made, by_name=False)
    naive_calls = max(5, calls // 5)
    naive_name = "Flask" if has_flask() else "http.server and json (Flask is not installed)"

    say("names only")
    with _process(_SERVE_SDK, _SDK_NAMES) as url:
        by_name = _percentiles(_times(url, ("filter", "prioritize"), names, 4 * calls))
    say("whole nodes, mooring")
    with _process(_SERVE_SDK, _SDK_WHOLE) as url:
        ours = {
            **_percentiles(_times(url, ("filter",), whole, calls)),
            "calls_per_s": round(_throughput(url, "filter", whole, calls, clients), 2),
        }
    say(f"whole nodes, {naive_name}")
    with _process(_SERVE_FLASK if has_flask() else _SERVE_STAND_IN) as url:
        naive = {
            **_percentiles(_times(url, ("filter",), whole, naive_calls)),
            "calls_per_s": round(_throughput(url, "filter", whole, naive_calls, clients), 2),
        }
    ratio = ours["calls_per_s"] / naive["calls_per_s"]
    return {
        "nodes": nodes,
        "calls": calls,
        "clients": clients,
        "body_mb": {"names": round(len(names) / 1e6, 2), "whole": round(len(whole) / 1e6, 2)},
        "names_filter_and_prioritize": by_name,
        "whole_filter": {
            "mooring": ours,
            "naive": naive,
            "naive_server": naive_name,
            "throughput_ratio": round(ratio, 2),
        },
        "goals": {
            "names_p50_at_most_5_ms": by_name["p50_ms"] <= 5.0,
            "whole_at_least_5_times_naive": ratio >= 5.0,
        },
    }


def draw(result: dict[str, Any], line: Callable[[str], None]) -> None:
    """The result for people."""
    by_name, whole = result["names_filter_and_prioritize"], result["whole_filter"]
    ours, naive = whole["mooring"], whole["naive"]
    size = result["body_mb"]
    line(f"{result['nodes']:,} nodes, {result['clients']} clients at a time where calls per second are counted")
    line(
        f"names only ({size['names']} MB), filter and prioritize: "
        f"{by_name['p50_ms']} ms p50, {by_name['p90_ms']} ms p90"
    )
    line(f"whole nodes ({size['whole']} MB), filter:")
    line(f"  mooring: {ours['calls_per_s']} calls/s, {ours['p50_ms']} ms p50, {ours['p90_ms']} ms p90")
    line(f"  naive:   {naive['calls_per_s']} calls/s, {naive['p50_ms']} ms p50, {naive['p90_ms']} ms p90")
    line(f"  naive is {whole['naive_server']}; mooring answers {whole['throughput_ratio']} times as many calls")
