"""NodePorts (spec 2.7)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.framework.status import Code
from mooring.core.plugins.node_ports import NodePorts
from mooring.testing import filter_statuses, make_cluster, make_handle, make_node, make_pod


def port(number: int, protocol: str = "TCP", ip: str = "") -> dict[str, Any]:
    return {"containerPort": 1, "hostPort": number, "protocol": protocol} | ({"hostIP": ip} if ip else {})


def spec(*ports: dict[str, Any], init: Any = None) -> dict[str, Any]:
    return {"containers": [{"name": "c", "ports": list(ports)}], "initContainers": init or []}


@pytest.mark.parametrize(
    ("have", "want", "clash"),
    [
        pytest.param(port(80), port(80), True, id="the same port"),
        pytest.param(port(80), port(81), False, id="another port"),
        pytest.param(port(80), port(80, "UDP"), False, id="another protocol"),
        pytest.param(port(80), {"containerPort": 80}, False, id="no host port"),
        pytest.param(port(80, ip="10.0.0.1"), port(80, ip="10.0.0.1"), True, id="the same address"),
        pytest.param(port(80, ip="10.0.0.1"), port(80, ip="10.0.0.2"), False, id="another address"),
        pytest.param(port(80, ip="10.0.0.1"), port(80), True, id="a wildcard takes every address"),
        pytest.param(port(80), port(80, ip="10.0.0.1"), True, id="one that is taken by a wildcard"),
        pytest.param(port(80, ip="0.0.0.0"), port(80, ip="10.0.0.1"), True, id="the wildcard written out"),
        pytest.param(port(80, ip="::"), port(80, ip="10.0.0.1"), False, id="trap 27: :: is no wildcard"),
        pytest.param(port(80, ip="::"), port(80), True, id="but 0.0.0.0 covers it"),
    ],
)
def test_clashes(have: dict[str, Any], want: dict[str, Any], clash: bool) -> None:
    cluster = make_cluster(make_node("a"), make_node("free"), make_pod("there", node="a", spec=spec(have)))
    statuses = filter_statuses(NodePorts(None, make_handle(cluster)), cluster, make_pod(spec=spec(want)))
    assert statuses["free"].is_success
    assert statuses["a"].is_success is not clash
    if clash:
        assert statuses["a"].code is Code.UNSCHEDULABLE
        assert statuses["a"].message == "node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("init", "clash"),
    [
        pytest.param({"name": "i", "ports": [port(80)]}, False, id="trap 27: plain init containers hold no ports"),
        pytest.param({"name": "i", "ports": [port(80)], "restartPolicy": "Always"}, True, id="sidecars do"),
    ],
)
def test_init_containers(init: dict[str, Any], clash: bool) -> None:
    cluster = make_cluster(make_node("a"), make_pod("there", node="a", spec=spec(init=[init])))
    wanting = filter_statuses(NodePorts(None, make_handle(cluster)), cluster, make_pod(spec=spec(port(80))))
    assert wanting["a"].is_success is not clash


def test_one_of_several_ports_is_enough_to_clash() -> None:
    cluster = make_cluster(make_node("a"), make_pod("there", node="a", host_ports=[2]))
    statuses = filter_statuses(NodePorts(None, make_handle(cluster)), cluster, make_pod(host_ports=[1, 2, 3]))
    assert not statuses["a"].is_success
