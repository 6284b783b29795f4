"""``mooring queue``: a line per pod, everything about one, and a clear word where no queue is to be had."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.codec import to_plain
from mooring.api.times import format_time
from mooring.cli import queue as queue_source
from mooring.cli.main import run
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving import discovery
from mooring.net.errors import Forbidden
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient
from mooring.sim.scenario import node, pod
from mooring.sim.worlds import EmbeddedWorld, Listening, PlaySettings
from mooring.testing import make_pod

Ask = Callable[..., Awaitable[int]]


def waiting(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    ago = format_time(time.time() - 90_000)
    return {
        "namespace": namespace,
        "name": name,
        "uid": name,
        "schedulerName": "default-scheduler",
        "queue": "unschedulable",
        "priority": 7,
        "attempts": 3,
        "added": ago,
        "since": ago,
        "backoffLeftSeconds": 0.0,
        "plugins": ["NodeResourcesFit", "TaintToleration"],
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "wakes": ["NodeAdd", "PodDelete"],
        **fields,
    }


CONTENT = {
    "schedulers": ["default-scheduler"],
    "counts": {"active": 0, "backoff": 1, "unschedulable": 1, "gated": 0},
    "pods": [waiting("web"), waiting("db", "shop", queue="backoff", backoffLeftSeconds=2.5, attempts=1, plugins=[])],
    "waitingOnPermit": [{"pod": "default/gang-1", "node": "node1", "plugins": ["Coscheduling"]}],
}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """An API server that shows a queue, as that of ``mooring start`` does."""
    async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as running:
        running.handlers.pages["/debug/queue"] = lambda: CONTENT
        yield running


@pytest.fixture
def ask(plane: ControlPlane) -> Ask:
    """Run ``mooring queue`` in a thread, while the server answers in this one."""

    async def ask(*arguments: str) -> int:
        return await asyncio.to_thread(run, ["queue", "--kubeconfig", str(plane.kubeconfig_path), *arguments])

    return ask


async def test_a_line_per_pod(plane: ControlPlane, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask() == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{plane.url} schedules the pods of default-scheduler",
        "0 active, 1 backoff, 1 unschedulable, 0 gated",
        "default/gang-1 waits for the permission of Coscheduling to run on node1",
        "",
        "POD           QUEUE           SINCE   ATTEMPTS   REFUSED BY",
        "default/web   unschedulable   25h     3          NodeResourcesFit, TaintToleration",
        "shop/db       backoff         25h     1          -",
    ]


async def test_wide_says_why_and_what_wakes(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask("-o", "wide", "-n", "shop") == 0
    assert capsys.readouterr().out.splitlines()[4:] == [
        "shop/db",
        "  Queue:      backoff, since 25h",
        "  Backoff:    2.5s left",
        "  Waits:      since 25h, 1 attempt",
        "  Priority:   7",
        "  Scheduler:  default-scheduler",
        "  Why:        0/2 nodes are available: 2 Insufficient cpu.",
        "  Woken by:   NodeAdd, PodDelete",
    ]


async def test_one_pod_has_everything(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask("web") == 0
    out = capsys.readouterr().out
    assert out.startswith("default/web\n")
    assert "  Refused by:  NodeResourcesFit, TaintToleration\n" in out
    assert "  Waits:       since 25h, 3 attempts\n" in out
    assert await ask("shop/db", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == CONTENT["pods"][1]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.load)])
async def test_programs_get_what_the_scheduler_says(
    output: str, read: Callable[[str], Any], plane: ControlPlane, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await ask("-o", output) == 0
    assert read(capsys.readouterr().out) == {"server": plane.url, **CONTENT, "otherSchedulers": {}}
    assert await ask("-o", output, "-n", "nowhere") == 0
    assert read(capsys.readouterr().out)["pods"] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("wep", "default/wep is not in the queue; did you mean default/web?", id="misspelt"),
        pytest.param("shop/x", "shop/x is not in the queue; mooring queue lists the pods that are", id="unknown"),
    ],
)
async def test_a_pod_that_does_not_wait(name: str, says: str, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask(name) == 2
    assert capsys.readouterr().err == f"mooring: {says}\n"


async def test_an_answer_that_is_not_a_queue_is_reported(
    plane: ControlPlane, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.handlers.pages["/debug/queue"] = lambda: {"pods": []}
    assert await ask() == 2
    assert "/debug/queue: the answer is not a queue; is it a mooring scheduler?" in capsys.readouterr().err


async def test_another_cluster_is_asked_at_the_schedulers_own_port(
    plane: ControlPlane, ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its API server says another version, so the scheduler of this machine is meant."""
    monkeypatch.setattr(discovery, "SUFFIX", "")
    monkeypatch.setattr(queue_source, "DEFAULT_SERVER", "https://127.0.0.1:1")
    assert await ask() == 1
    err = capsys.readouterr().err
    assert err.startswith("mooring: cannot connect to 127.0.0.1:1: ")
    assert err.endswith("; give --server\n")


async def test_with_mooring_start_the_answer_says_how_to_ask_another_scheduler(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await ask() == 0
    assert capsys.readouterr().err == ""
    assert await ask("--insecure-skip-tls-verify") == 0
    says = "the scheduler of mooring start answers; --server https://127.0.0.1:10259 asks another one"
    assert capsys.readouterr().err == f"mooring: {says}\n"


async def test_a_server_and_a_token_can_be_given(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(plane.token + "\n")
    assert plane.certificate is not None
    authority.write_bytes(plane.certificate)
    where = ["--server", plane.url, "--token-file", str(token)]
    assert await asyncio.to_thread(run, ["queue", *where, "--certificate-authority", str(authority)]) == 0
    assert await asyncio.to_thread(run, ["queue", *where, "--insecure-skip-tls-verify"]) == 0
    assert capsys.readouterr().out.count("default/web ") == 2
    token.write_text("wrong")
    assert await asyncio.to_thread(run, ["queue", *where, "--insecure-skip-tls-verify"]) == 1
    assert await asyncio.to_thread(run, ["queue", *where]) == 1  # and its certificate is not trusted unasked


def test_a_token_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["queue", "--token-file", "/nowhere"]) == 2
    assert capsys.readouterr().err == "mooring: --token-file /nowhere: No such file or directory\n"


async def test_an_unauthorised_user_learns_which_flags_the_scheduler_needs(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise Forbidden('forbidden: User "system:anonymous" cannot get path "/debug/queue"')

    monkeypatch.setattr(RestClient, "get", refuse)
    assert await ask("--server", "https://127.0.0.1:1") == 1
    assert "start it with --authentication-kubeconfig and --authorization-kubeconfig" in capsys.readouterr().err


async def test_pods_of_a_scheduler_that_was_not_asked_are_counted(
    plane: ControlPlane, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """The queue of the scheduler that answers is empty: that says nothing about those pods."""
    plane.handlers.pages["/debug/queue"] = lambda: CONTENT | {"pods": [], "waitingOnPermit": []}
    async with RestClient(find_config(str(plane.kubeconfig_path))) as client:
        for name, scheduler in (("a", "cheap"), ("b", "cheap"), ("c", "default-scheduler")):
            body = to_plain(make_pod(name, spec={"schedulerName": scheduler})) | {"kind": "Pod", "apiVersion": "v1"}
            await client.create("/api/v1/namespaces/default/pods", json.dumps(body).encode())
    assert await ask() == 0
    assert "2 pods wait for cheap, which was not asked; --server URL asks another" in capsys.readouterr().out
    assert await ask("-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["otherSchedulers"] == {"cheap": 2}


@pytest.mark.e2e
async def test_the_cluster_of_mooring_start_shows_its_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    settings = PlaySettings(write=lambda line: None)
    async with EmbeddedWorld(settings, listening=Listening(kubeconfig_path=kubeconfig)) as world:
        await world.cluster.create(node("node1", cpu="1"), pod("large", cpu="8"))
        await world.cluster.expect_pod("large", pending="Insufficient cpu")
        assert await asyncio.to_thread(run, ["queue", "--kubeconfig", str(kubeconfig), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["pods"]
    assert (found["name"], found["queue"], found["plugins"]) == ("large", "unschedulable", ["NodeResourcesFit"])
