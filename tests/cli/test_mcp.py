"""``mooring mcp``, asked by the protocol's own client: in this process, and as a program of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from mooring.ask.scheduler import Scheduler
from mooring.cli.main import run
from mooring.cli.mcp import MAX_ITEMS, MAX_TEXT, make_server
from mooring.controlplane.server import ControlPlane
from mooring.core.cluster import Cluster
from mooring.core.explain.remedies import MAX_CHANGES
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient
from mooring.sim.backend import Backend
from mooring.sim.scenario import node, pod
from mooring.testing import make_node, make_pod

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: shop}
spec: {containers: [{name: main, image: "web:1", resources: {requests: {cpu: "1"}}}]}
"""


def a_cluster(nodes: int = 2) -> Cluster:
    objects = [make_node(f"node{i}", cpu="4") for i in range(nodes)]
    return Cluster(*objects, make_pod("web", node="node0", cpu="3"), make_pod("waits", cpu="8"))


async def answer(cluster: Cluster, tool: str, **arguments: Any) -> dict[str, Any]:
    async with Client(make_server(lambda: Scheduler(cluster))) as client:
        result = await client.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    return {"error": text} if result.is_error else json.loads(text)


async def test_every_question_only_reads() -> None:
    async with Client(make_server(lambda: Scheduler(a_cluster()))) as client:
        tools = (await client.list_tools()).tools
    names = {"pending", "explain", "capacity", "drill", "plan", "what_if", "diff", "lint"}
    assert {tool.name for tool in tools} == names
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    assert all(tool.description for tool in tools)
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)


async def test_pending_pods_say_why() -> None:
    found = await answer(a_cluster(), "pending")
    assert [each["pod"] for each in found["pending"]] == ["default/waits"]
    assert found["pending"][0]["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


@pytest.mark.parametrize("pod", ["default/web", "web", MANIFEST], ids=["a name", "a short name", "a manifest"])
async def test_a_pod_is_explained(pod: str) -> None:
    assert (await answer(a_cluster(), "explain", pod=pod))["outcome"] == "scheduled"


async def test_how_many_more_fit() -> None:
    assert (await answer(a_cluster(), "capacity", pod=MANIFEST))["fits"] == 5
    assert (await answer(a_cluster(), "capacity", pod=MANIFEST, copies=2))["fits"] == 2


async def test_a_drill() -> None:
    found = await answer(a_cluster(), "drill")
    assert found["isSafe"] and found["tried"] == 2


PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""


async def test_what_another_configuration_would_move() -> None:
    cluster = Cluster(
        *(make_node(f"node{i}", cpu="4") for i in range(2)),
        make_pod("web", node="node0", cpu="2"),
        make_pod("waits", cpu="1"),
    )
    found = await answer(cluster, "diff", config=PACKING)
    (move,) = found["moved"]
    assert (move["pod"], move["from"], move["to"]) == ("default/waits", "node1", "node0")
    assert (await answer(cluster, "diff", kubernetes_version="1.37"))["moved"] == []
    assert (await answer(cluster, "diff", config=PACKING, all_pods=True))["pods"] == 2
    assert len(cluster.pending) == 1, "it only asks"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param({}, "nothing to compare; expected config or kubernetes_version", id="nothing"),
        pytest.param({"config": "scheduler.yaml"}, "config: expected one manifest", id="a path"),
        pytest.param({"config": "{kind: Pod, apiVersion: v1}"}, "KubeSchedulerConfiguration", id="another kind"),
        pytest.param({"kubernetes_version": "1.2"}, "1.36", id="a version that is not known"),
        pytest.param({"config": "x" * 100_001}, "expected at most 100000", id="too long"),
    ],
)
async def test_what_cannot_be_compared(arguments: dict[str, Any], says: str) -> None:
    assert says in (await answer(a_cluster(), "diff", **arguments))["error"]


async def test_what_if_changes_a_copy() -> None:
    cluster = a_cluster()
    alone = await answer(cluster, "what_if", pod=MANIFEST, cordon=["node1"])
    assert alone["node"] == "node0"
    gone = await answer(cluster, "what_if", pod=MANIFEST, remove=["node/node0", "node/node1"])
    assert gone["outcome"] == "unschedulable"
    twice = await answer(cluster, "what_if", pod=MANIFEST, remove=["node/node0", "node/node0"])
    assert twice["node"] == "node1"
    more = await answer(cluster, "what_if", pod=MANIFEST, add_nodes_like="node1", copies=3)
    assert more["nodes"]["all"] == 5
    assert len(cluster.nodes) == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        pytest.param("explain", {"pod": "shop/nobody"}, "shop/nobody: no such pod", id="an unknown pod"),
        pytest.param("explain", {"pod": "/etc/passwd"}, "/etc/passwd: no such pod", id="a path is no pod"),
        pytest.param("explain", {"pod": "[" * 100_000}, "[[[", id="a long name"),
        pytest.param("explain", {"pod": "{"}, "pod", id="no manifest"),
        pytest.param("explain", {"pod": "a\n" * 100_000}, "expected at most 100000", id="too long a text"),
        pytest.param("drill", {"lose": "rack"}, "rack", id="nothing of that name to lose"),
        pytest.param("what_if", {"pod": MANIFEST, "copies": 10**9}, "from 1 to 1000", id="too many nodes"),
        pytest.param(
            "what_if",
            {"pod": MANIFEST, "add_nodes": "node1"},
            "what_if: no argument add_nodes; did you mean add_nodes_like?",
            id="an argument that is misspelt would be another question",
        ),
        pytest.param("pending", {"x" * 10_000: 1}, "pending: no argument xxx", id="a question without arguments"),
        pytest.param("explain", {"pod": 5}, "explain: pod: input should be a valid string, found 5", id="no text"),
        pytest.param("explain", {}, "explain: pod: field required", id="nothing"),
        pytest.param("explain", {"pod": "\ud800"}, "?: no such pod", id="half a character"),
    ],
)
async def test_a_bad_question_is_answered_in_one_line(tool: str, arguments: dict[str, Any], says: str) -> None:
    error = (await answer(a_cluster(), tool, **arguments))["error"]
    assert says in error and "Traceback" not in error and len(error) < 2 * MAX_TEXT


async def test_a_path_of_a_real_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(MANIFEST)
    assert "no such pod" in (await answer(a_cluster(), "explain", pod=str(file)))["error"]


async def test_a_pod_that_asks_for_thousands_of_labels_is_explained_without_a_change_for_each() -> None:
    spec = {"containers": [{"name": "main", "image": "web:1"}], "nodeSelector": {f"k{i}": "v" for i in range(2000)}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}
    found = await answer(a_cluster(), "explain", pod=json.dumps(manifest))
    assert found["outcome"] == "unschedulable"
    assert all(len(each["changes"]) <= MAX_CHANGES for each in found["suggestions"])


async def test_long_answers_are_cut() -> None:
    found = await answer(a_cluster(nodes=200), "drill")
    assert found["tried"] == 200
    assert len(found["losses"]) == MAX_ITEMS


async def test_it_is_served_on_standard_input_and_output(tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text("{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: '4', pods: '9'}}}")
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "mooring", "mcp", "--cluster", str(dump)], env=dict(os.environ)
    )
    async with Client(program) as client:
        result = await client.call_tool("capacity", {"pod": MANIFEST})
    assert '"fits": 4' in "".join(getattr(part, "text", "") for part in result.content)


async def asked(arguments: list[str], *questions: tuple[str, dict[str, Any]]) -> list[str]:
    """What ``mooring mcp`` answers as a program of its own."""
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "mooring", "mcp", *arguments], env=dict(os.environ)
    )
    async with Client(program) as client:
        results = [await client.call_tool(*question) for question in questions]
    return ["".join(getattr(part, "text", "") for part in result.content) for result in results]


def test_a_moment_of_a_record_is_asked(tmp_path: Path) -> None:
    record = tmp_path / "r.mrec"
    assert run(["scenario", "run", "--virtual-time", "-q", "preemption", "--record", str(record)]) == 0
    question = ("explain", {"pod": "default/cheap-2"})
    (before,) = asyncio.run(asked(["--cluster", f"{record}@1s"], question))
    (after,) = asyncio.run(asked(["--cluster", str(record)], question))
    assert json.loads(before)["pod"] == "default/cheap-2"
    assert "no such pod" in after  # it was evicted in the meantime


@pytest.mark.e2e
async def test_answers_about_a_live_cluster_contain_only_fields_that_scheduling_reads(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=kubeconfig) as plane:
        async with RestClient(load_kubeconfig([str(kubeconfig)], environ={}), qps=-1) as client:
            backend = Backend(client)
            await backend.create(node("a", cpu="1"))
            secret = pod("web", cpu="9")
            secret["metadata"]["annotations"] = {"token": "hunter2"}
            secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
            await backend.create(secret)
        written = plane.store.rv
        pending, why = await asked(
            ["--kubeconfig", str(kubeconfig)], ("pending", {}), ("explain", {"pod": "default/web"})
        )
        assert plane.store.rv == written  # nothing was written
    assert json.loads(pending)["pendingInAll"] == 1 and "Insufficient cpu" in why
    assert "hunter2" not in pending + why


def test_a_wrong_option_is_reported_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--cluster", "missing.yaml"]) == 2
    assert "missing.yaml" in capsys.readouterr().err
