"""An extender as a process of its own, over TLS, called by mooring's own client: every verb, and what can fail."""

from __future__ import annotations

import base64
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_server import make_certificate

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.core.config.load import config_from_dict
from mooring.core.framework.extender import ExtenderError, VictimsOnNode
from mooring.core.state.cluster import ClusterState
from mooring.net.extender.client import HttpExtender, build_extenders
from mooring.net.extender.conformance import make_node, make_pod
from mooring.net.extender.wire import RawObjects

EXTENDER = """
import os, time
from mooring.net.extender.sdk import Binding, Node, Pod, Victims, refuse

def filter(pod: Pod, node: Node):
    if pod.name == "raises":
        raise RuntimeError("out of order")
    if pod.name == "blocks":
        time.sleep(30)
    if node.labels["disk"] != "ssd":
        return refuse("no ssd", for_good=True)

def prioritize(pod: Pod, node: Node) -> int:
    if pod.name == "raises":
        raise RuntimeError("out of order")
    return int(node.name[-1])

def preempt(pod: Pod, victims: dict[str, Victims]):
    return {node: found for node, found in victims.items() if node.endswith("1")}

def bind(binding: Binding):
    raise PermissionError(f"{binding.namespace}/{binding.name} may not go to {binding.node}")
"""


@pytest.fixture(scope="module")
def url_and_ca(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, bytes]]:
    directory: Path = tmp_path_factory.mktemp("extender")
    certificate = make_certificate("127.0.0.1")
    files = {"ext.py": EXTENDER.encode(), "tls.crt": certificate.certificate, "tls.key": certificate.key}
    for name, data in files.items():
        (directory / name).write_bytes(data)
    command = [sys.executable, "-m", "mooring", "extender", "serve", str(directory / "ext.py"), "--port", "0"]
    command += ["--tls-cert-file", str(directory / "tls.crt"), "--tls-private-key-file", str(directory / "tls.key")]
    process = subprocess.Popen([*command, "--timeout", "4", "--quiet"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        ready, _, _ = select.select([process.stderr], [], [], 30)
        line = process.stderr.readline() if ready else ""
        assert "filter, prioritize, preempt, bind at https://127.0.0.1:" in line, line
        yield line.split(" at ")[1].split()[0], certificate.certificate
    finally:
        process.terminate()
        assert process.wait(300) == 0, "it ends although a handler still blocks"
        process.stderr.close()


class World:
    def __init__(self) -> None:
        self.raw = RawObjects()
        self.cluster = ClusterState()
        for i in range(4):
            self.put(Node, make_node(i))
            value = make_pod(f"low-{i}")
            value["spec"]["nodeName"] = f"node-{i:05d}"
            self.put(Pod, value)
        self.cluster.nodes()
        self.infos = list(self.cluster.table.infos)

    def put(self, kind: type[Any], value: dict[str, Any]) -> None:
        obj = from_plain(kind, value)
        self.raw.put(obj, value)
        self.cluster.put(obj)

    def pod(self, name: str) -> Any:
        value = make_pod(name)
        pod = from_plain(Pod, value)
        self.raw.put(pod, value)
        return self.cluster.info(pod)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def caller(world: World, url_and_ca: tuple[str, bytes]) -> Iterator[HttpExtender]:
    url, ca = url_and_ca
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    tls = {"caData": base64.b64encode(ca).decode()}
    entry = {"urlPrefix": url, "weight": 2, "enableHTTPS": True, "tlsConfig": tls, "httpTimeout": "60s", **verbs}
    (made,) = build_extenders(config_from_dict({"extenders": [entry]}).extenders, world.raw)
    yield made
    made.close()


pytestmark = pytest.mark.e2e


def test_filter(world: World, caller: HttpExtender) -> None:
    result = caller.filter(world.pod("plain"), world.infos)
    assert [info.name for info in result.nodes] == ["node-00001", "node-00003"]
    assert result.failed_and_unresolvable == {"node-00000": "no ssd", "node-00002": "no ssd"}
    assert all(info.row >= 0 and info.node is world.infos[info.row].node for info in result.nodes)


def test_prioritize(world: World, caller: HttpExtender) -> None:
    found = caller.prioritize(world.pod("plain"), world.infos)
    assert (dict(found.scores), found.weight) == ({f"node-0000{i}": i for i in range(4)}, 2)


def test_preempt(world: World, caller: HttpExtender) -> None:
    victims = {info.name: VictimsOnNode(tuple(info.pods.values()), 0) for info in world.infos}
    found = caller.process_preemption(world.pod("urgent"), victims, world.cluster.table.nodes)
    assert [(node, [pod.pod.name for pod in each.pods]) for node, each in found.items()] == [("node-00001", ["low-1"])]


@pytest.mark.parametrize(
    ("verb", "pod", "said"),
    [
        pytest.param("filter", "raises", "filter raised RuntimeError: out of order", id="a filter that raises"),
        pytest.param("filter", "blocks", "filter did not finish within 4 s", id="a filter that blocks"),
        pytest.param("prioritize", "raises", "failed prioritize with extender at URL", id="a scorer that raises"),
        pytest.param("bind", "p", "bind raised PermissionError: default/p may not go to node-00001", id="no binding"),
    ],
)
def test_failures_reach_the_scheduler_in_words(
    world: World, caller: HttpExtender, verb: str, pod: str, said: str
) -> None:
    with pytest.raises(ExtenderError) as caught:
        if verb == "bind":
            caller.bind(world.pod(pod), "node-00001")
        else:
            getattr(caller, verb)(world.pod(pod), world.infos)
    assert str(caught.value).startswith(said)
    assert len(caller.filter(world.pod("plain"), world.infos).nodes) == 2, "and the server continues"
