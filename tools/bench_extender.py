"""How fast an extender answers: mooring's server and a naive one, asked the same in the same run.

    python -m tools.bench_extender --nodes 5000

Each server is a process of its own on this machine: mooring's is ``mooring
extender serve`` as a user starts it, with its log written to a file. What is
measured is the round trip over a connection that is kept if the server keeps it, from the first byte written to
the last byte read, by a client that does nothing else: requests are made
before, and answers are only counted through. No two requests that follow each
other are the same: pods differ, nodes come in another order, and where they
come whole, one in a hundred has changed. The naive one is what a tutorial shows:
Flask with ``request.get_json()`` and ``jsonify``, or, where Flask is not installed
(``pip install mooring[dev]`` brings it), the same with ``http.server`` and ``json``.
"""

from __future__ import annotations

import importlib.util
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.api.errors import MooringError
from mooring.cli.output import emit, output_option
from mooring.cli.streams import say
from mooring.net.extender.conformance import args_body, make_node, make_pod

START_S = 30.0
TIMEOUT_S = 60.0
WARM_UP = 5
VARIANTS = 4  # of each request

_SDK_WHOLE = """
from mooring.net.extender.sdk import Node, Pod, refuse

def filter(pod: Pod, node: Node):
    if node.labels.get("disk") != "ssd":
        return refuse("no ssd")

def prioritize(pod: Pod, node: Node) -> int:
    return 10 if node.labels.get("topology.kubernetes.io/zone") == "zone-a" else 3
"""

_SDK_NAMES = """
from mooring.net.extender.sdk import Filtered, Pod

NAMES = [f"node-{i:05d}" for i in range(NODES)]
SSD = set(NAMES[1::2])
SCORES = {name: i % 11 for i, name in enumerate(NAMES)}

def filter(pod: Pod, nodes: list[str]):
    return Filtered([n for n in nodes if n in SSD], otherwise="no ssd")

def prioritize(pod: Pod, nodes: list[str]):
    return [SCORES[n] for n in nodes]
"""

_SDK_EACH_NAME = """
from mooring.net.extender.sdk import Pod, refuse

NAMES = [f"node-{i:05d}" for i in range(NODES)]
SSD = set(NAMES[1::2])
SCORES = {name: i % 11 for i, name in enumerate(NAMES)}
NO_SSD = refuse("no ssd")

def filter(pod: Pod, node: str):
    return None if node in SSD else NO_SSD

def prioritize(pod: Pod, node: str) -> int:
    return SCORES[node]
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
print(f"127.0.0.1:{server.server_port}", flush=True)
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
print(f"127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""
)


def has_flask() -> bool:
    return importlib.util.find_spec("flask") is not None


@dataclass(slots=True)
class _Server:
    port: int
    pid: int

    def cpu_s(self) -> float | None:
        """Processor time so far, where the system tells."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _sdk(source: str, nodes: int) -> Iterator[_Server]:
    """``mooring extender serve`` with this extender."""
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as directory:
        path = Path(directory, "bench_extender.py")
        path.write_text(source.replace("NODES", str(nodes)))
        arguments = [sys.executable, "-m", "mooring", "extender", "serve", str(path), "--port", "0"]
        with _process(arguments, Path(directory, "log")) as server:
            yield server


@contextmanager
def _naive(source: str) -> Iterator[_Server]:
    with (
        tempfile.TemporaryDirectory(prefix="mooring-bench-") as directory,
        _process([sys.executable, "-c", source], Path(directory, "log")) as server,
    ):
        yield server


@contextmanager
def _process(arguments: list[str], said: Path) -> Iterator[_Server]:
    """A server in a process of its own; it says where it listens, at the end of the first line that has a port."""
    with said.open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, env=os.environ.copy())
    try:
        deadline = time.monotonic() + START_S
        while (port := _port(said.read_text(errors="replace"))) == 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise MooringError(f"the server to be measured did not start within {START_S:g} s")
            time.sleep(0.05)
        yield _Server(port, process.pid)
    finally:
        process.kill()
        process.wait()


def _port(text: str) -> int:
    line, end, _ = text.partition("\n")
    digits = line.partition("127.0.0.1:")[2].split(" ")[0]
    return int(digits) if end and digits.isdigit() else 0


class _Client:
    """One kept connection; as little between the clock and the server as Python can do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._buffer = memoryview(bytearray(1 << 20))
        self._connect()

    def _connect(self) -> None:
        self._sock = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, request: bytes) -> None:
        self._sock.sendall(request)
        buffer, have = self._buffer, 0
        while (end := bytes(buffer[:have]).find(b"\r\n\r\n")) < 0:
            have += self._receive(buffer[have:])
        head = bytes(buffer[:end])
        if not head.startswith(b"HTTP/1.1 200 "):
            raise MooringError(f"expected the server to answer 200, found {head[:40].decode('latin-1')!r}")
        head = head.lower()
        left = int(head.partition(b"content-length:")[2].split(b"\r\n")[0]) - (have - end - 4)
        while left > 0:
            left -= self._receive(buffer[:left])
        if b"\r\nconnection: close" in head:  # Flask's own server keeps none
            self.close()
            self._connect()

    def _receive(self, into: memoryview) -> int:
        count = self._sock.recv_into(into)
        if not count:
            raise MooringError("the server closed the connection before its answer was complete")
        return count

    def close(self) -> None:
        self._sock.close()


def _request(verb: str, body: bytes) -> bytes:
    head = f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def _bodies(nodes: int, *, by_name: bool) -> list[bytes]:
    rng = random.Random(nodes)
    made = [make_node(i) for i in range(nodes)]
    bodies = []
    for k in range(VARIANTS):
        for node in rng.sample(made, nodes // 100):
            node["metadata"]["resourceVersion"] = str(10_000_000 * (k + 1) + rng.randrange(1_000_000))
        bodies.append(args_body(make_pod(f"web-{k}"), rng.sample(made, nodes), by_name=by_name))
    return bodies


def _times(server: _Server, verbs: Sequence[str], bodies: Sequence[bytes], rounds: int) -> dict[str, float]:
    """Milliseconds per round of all verbs, after a few rounds that do not count."""
    requests = [[_request(verb, body) for verb in verbs] for body in bodies]
    client = _Client(server.port)
    times: list[float] = []
    cpu_s: float | None = None
    try:
        for i in range(rounds + WARM_UP):
            if i == WARM_UP:
                cpu_s = server.cpu_s()
            started = time.perf_counter()
            for request in requests[i % len(requests)]:
                client.call(request)
            times.append(time.perf_counter() - started)
        used_s = server.cpu_s()
    finally:
        client.close()
    found = _percentiles(times[WARM_UP:])
    if cpu_s is not None and used_s is not None:
        found["server_cpu_ms"] = round((used_s - cpu_s) / rounds * 1000, 2)
    return found


def _throughput(server: _Server, verb: str, bodies: Sequence[bytes], calls: int, clients: int) -> float:
    """Calls per second with some clients at once."""
    requests = [_request(verb, body) for body in bodies]

    def work(k: int) -> None:
        client = _Client(server.port)
        try:
            for i in range(k, calls, clients):
                client.call(requests[i % len(requests)])
        finally:
            client.close()

    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(work, range(clients)))
        took_s = time.perf_counter() - started
    return calls / took_s


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    last = len(ordered) - 1
    at = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(ordered[round(share * last)] * 1000, 2) for name, share in at.items()}


def run(
    nodes: int = 5000,
    calls: int = 50,
    clients: int = 2,
    *,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure names only and whole nodes, ours and a naive server; see ``goals`` for what should hold."""
    say = progress or (lambda text: None)
    names, whole = _bodies(nodes, by_name=True), _bodies(nodes, by_name=False)
    both, rounds = ("filter", "prioritize"), 8 * calls
    naive_calls = max(5, calls // 5)
    naive_name = "Flask" if has_flask() else "http.server and json, because Flask is not installed"

    say("names only")
    with _sdk(_SDK_NAMES, nodes) as server:
        by_name = _times(server, both, names, rounds)
        one = _times(server, both, _bodies(1, by_name=True), rounds)
    say("names only, node by node")
    with _sdk(_SDK_EACH_NAME, nodes) as server:
        each_name = _times(server, both, names, rounds)
    say("whole nodes, mooring")
    with _sdk(_SDK_WHOLE, nodes) as server:
        ours = {
            **_times(server, ("filter",), whole, calls),
            "calls_per_s": round(_throughput(server, "filter", whole, calls, clients), 2),
        }
    say(f"whole nodes, {naive_name}")
    with _naive(_SERVE_FLASK if has_flask() else _SERVE_STAND_IN) as server:
        naive = {
            **_times(server, ("filter",), whole, naive_calls),
            "calls_per_s": round(_throughput(server, "filter", whole, naive_calls, clients), 2),
        }
    ratio = ours["calls_per_s"] / naive["calls_per_s"]
    return {
        "nodes": nodes,
        "calls": calls,
        "clients": clients,
        "body_mb": {"names": round(len(names[0]) / 1e6, 2), "whole": round(len(whole[0]) / 1e6, 2)},
        "names_filter_and_prioritize": by_name,
        "names_filter_and_prioritize_node_by_node": each_name,
        "one_name_filter_and_prioritize": one,
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


def _figures(found: dict[str, float]) -> str:
    text = f"{found['p50_ms']} ms p50, {found['p90_ms']} ms p90, {found['p99_ms']} ms p99"
    return text + (f", {found['server_cpu_ms']} ms of server CPU" if "server_cpu_ms" in found else "")


def draw(result: dict[str, Any], line: Callable[[str], None]) -> None:
    """The result for people."""
    whole, size = result["whole_filter"], result["body_mb"]
    line(f"{result['nodes']:,} nodes; round trips over a kept connection, from the first byte written to the last read")
    line(f"names only ({size['names']} MB), filter and prioritize together:")
    line(f"  all names at once:      {_figures(result['names_filter_and_prioritize'])}")
    line(f"  a function per name:    {_figures(result['names_filter_and_prioritize_node_by_node'])}")
    line(f"  one node, for the rest: {_figures(result['one_name_filter_and_prioritize'])}")
    line(f"whole nodes ({size['whole']} MB), filter; calls per second with {result['clients']} clients at once:")
    for who in ("mooring", "naive"):
        line(f"  {who + ':':<9}{whole[who]['calls_per_s']} calls/s; alone {_figures(whole[who])}")
    line(f"  naive is {whole['naive_server']}; mooring answers {whole['throughput_ratio']} times as many calls")


@click.command(name="bench_extender")
@click.option("--nodes", type=click.IntRange(1, 50_000), default=5000, show_default=True, help="Nodes per request.")
@click.option("--calls", type=click.IntRange(1), default=50, show_default=True, help="Calls per measurement.")
@click.option("--clients", type=click.IntRange(1, 64), default=2, show_default=True, help="Clients at a time.")
@output_option()
def main(nodes: int, calls: int, clients: int, output: str) -> None:
    """Time an extender written with the SDK, and a naive one beside it, over HTTP."""
    result = run(nodes, calls, clients, progress=say)
    emit(result, output, lambda out: draw(result, out.print))


if __name__ == "__main__":
    main()
