"""What runs beside the scheduler: endpoints that answer, a lease that is held, a loop that is watched."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

from mooring.live import control as control_module
from mooring.live.control import Control
from mooring.live.control_thread import ControlThread
from mooring.live.flags import parse_flags
from mooring.live.metrics import SchedulerMetrics
from mooring.live.scheduler import Scheduler
from mooring.live.settings import load_settings
from mooring.net.kubeconfig import ClientConfig
from mooring.testing import make_node, make_pod

NOWHERE = ClientConfig("http://127.0.0.1:1")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Beside:
    """A control in a control thread, beside a scheduler made of paper in the test's own loop."""

    def __init__(self, stage, *flags: str) -> None:
        self.port = free_port()
        self.stage = stage
        self.is_stopping = False
        self.failing: str | None = None
        informers = SimpleNamespace(has_synced=True, failing=lambda limit_s: self.failing)
        settings = load_settings(parse_flags([f"--secure-port={self.port}", "--leader-elect=false", *flags]))
        self.control = Control(
            settings,
            SimpleNamespace(scheduler=stage.scheduler, informers=informers),
            SchedulerMetrics(),
            asyncio.get_running_loop(),
            is_stopping=lambda: self.is_stopping,
            is_leading=lambda: True,
        )
        self.informers = informers
        self.control_thread = ControlThread()

    async def __aenter__(self) -> Beside:
        await self.control_thread.run(self.control.start(NOWHERE))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.control_thread.run(self.control.stop())
        self.control_thread.close()

    async def ask(self, path: str) -> tuple[int, str]:
        """Ask over the network, from the control thread: the test's loop may be busy."""
        return await self.control_thread.run(ask(self.port, path))


async def ask(port: int, path: str) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


OPEN = "--authorization-always-allow-paths=/*"


async def test_every_thread_has_its_part(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), make_pod("big", cpu="9"))
    await stage.go()
    async with Beside(stage, OPEN) as beside:
        status, body = await beside.ask("/metrics")
        assert status == 200 and 'scheduler_pending_pods{queue="unschedulable"} 1\n' in body
        status, body = await beside.ask("/debug/queue")
        assert [pod["name"] for pod in json.loads(body)["pods"]] == ["big"]
        status, body = await beside.ask("/metrics/resources")
        assert status == 200 and 'pod="big"' in body
        status, body = await beside.ask("/configz")
        assert json.loads(body)["componentconfig"]["kind"] == "KubeSchedulerConfiguration"


async def test_unauthenticated_clients_see_health_and_which_flags_to_set(make_stage):
    async with Beside(make_stage()) as beside:
        assert await beside.ask("/livez") == (200, "ok")
        status, body = await beside.ask("/metrics")
        assert status == 403
        assert "give --authentication-kubeconfig and --authorization-kubeconfig" in json.loads(body)["message"]


async def test_nothing_of_ours_delays_the_lease(make_stage):
    """Its client has no rate limit, which its events would use up, and does not wait for what a server asks."""
    async with Beside(make_stage(), "--leader-elect=true") as beside:
        client = beside.control._lease_client
        assert {client.limiter.reserve() for _ in range(1000)} == {0.0}
        assert not client._heeds_retry_after
        events = beside.control._lease_events._client
        assert events is not client and events.limiter.interval_s > 0 and events._is_paperwork


@pytest.mark.parametrize(
    ("attribute", "path", "check"),
    [
        pytest.param("is_stopping", "/readyz", "shutdown", id="a process that stops is not ready"),
        pytest.param("is_unsynced", "/readyz", "sched-handler-sync", id="nor is one that does not know everything"),
    ],
)
async def test_readiness(make_stage, attribute, path, check):
    async with Beside(make_stage()) as beside:
        assert (await beside.ask(path))[0] == 200
        if attribute == "is_unsynced":
            beside.informers.has_synced = False
        else:
            beside.is_stopping = True
        status, body = await beside.ask(path)
        assert status == 500 and f"[-]{check} failed" in body
        assert (await beside.ask("/livez"))[0] == 200


async def test_a_watch_that_does_not_get_through_shows_in_readiness_and_does_not_end_the_process(make_stage):
    async with Beside(make_stage()) as beside:
        beside.failing = "pods: nothing has got through for 61s: cannot list or watch: 400"
        for path in ("/readyz", "/healthz"):
            status, body = await beside.ask(path)
            assert status == 500 and "[-]watches failed" in body
        assert await beside.ask("/livez") == (200, "ok")


async def test_a_loop_that_hangs_shows_in_health_while_health_answers(make_stage, monkeypatch):
    """The test's own loop plays the scheduler's and is blocked on purpose; only the other thread asks."""
    monkeypatch.setattr(control_module, "MARGIN_S", -0.9)
    monkeypatch.setattr(control_module, "ANSWER_S", 0.01)
    async with Beside(make_stage(), OPEN, "--attempt-timeout=1s") as beside:
        found, is_done = {}, threading.Event()

        async def look() -> None:
            try:
                while (await ask(beside.port, "/livez"))[0] == 200:  # noqa: ASYNC110 – the clock makes it false
                    await asyncio.sleep(0.01)
                for path in ("/livez", "/healthz", "/readyz", "/debug/queue", "/metrics"):
                    found[path] = await ask(beside.port, path)
            finally:
                is_done.set()

        looking = asyncio.run_coroutine_threadsafe(look(), beside.control_thread.loop)
        assert is_done.wait(60.0), "health waits for the scheduler's loop"
        await asyncio.wrap_future(looking)
        for path in ("/livez", "/healthz", "/readyz"):
            assert found[path][0] == 500 and "[-]scheduling failed" in found[path][1]
        assert found["/debug/queue"] == (503, "the scheduler is busy; try again\n")
        assert found["/metrics"][0] == 200, "with the gauges of a moment ago"
        async with asyncio.timeout(60.0):
            while (await beside.ask("/livez"))[0] != 200:  # noqa: ASYNC110 – it has come round again
                await asyncio.sleep(0)


async def test_too_many_decisions_that_hang_show_in_health(make_stage, monkeypatch):
    hanging = control_module.MAX_HANGING - 1
    monkeypatch.setattr(Scheduler, "hanging", property(lambda self: hanging))
    async with Beside(make_stage()) as beside:
        assert (await beside.ask("/livez"))[0] == 200
        hanging += 1
        status, body = await beside.ask("/livez")
        assert status == 500 and "[-]decisions failed" in body


async def test_a_loop_that_is_beyond_help_is_given_up(make_stage, monkeypatch):
    monkeypatch.setattr(control_module, "MARGIN_S", -0.99)
    given_up = threading.Event()

    async def give_up() -> None:
        given_up.set()

    beside = Beside(make_stage(), "--attempt-timeout=1s")
    await beside.control_thread.run(beside.control.start(NOWHERE, give_up))
    try:
        assert given_up.wait(60.0)
    finally:
        await beside.__aexit__()


async def test_without_leader_election_the_work_is_simply_done(make_stage):
    done = []

    async def work() -> None:
        done.append(threading.current_thread().name)

    async with Beside(make_stage()) as beside:
        await beside.control_thread.run(beside.control.lead(work))
        await beside.control_thread.run(beside.control.release())
    assert done == ["control"]
