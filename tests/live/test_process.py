"""The whole process, without signals: two threads, one lease, one end."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest

from mooring.controlplane.server import ControlPlane
from mooring.live.flags import parse_flags
from mooring.live.process import FAILED, OK, SchedulerProcess
from mooring.live.settings import load_settings
from mooring.net.credentials import StaticCredentials
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import MERGE_PATCH, RestClient

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
ELECTION = (
    "--leader-elect-lease-duration=120s",  # no test waits for its end: the lease is released, or stolen
    "--leader-elect-renew-deadline=110s",
    "--leader-elect-retry-period=200ms",
)


@pytest.fixture
async def plane():
    async with ControlPlane(use_tls=False) as plane:
        yield plane


@pytest.fixture
async def client(plane):
    async with RestClient(config_of(plane), qps=-1) as client:
        yield client


def config_of(plane) -> ClientConfig:
    return ClientConfig(plane.url, credentials=StaticCredentials(f"Bearer {plane.token}"))


def make_process(plane, *flags: str) -> SchedulerProcess:
    settings = load_settings(parse_flags(["--secure-port=0", *flags]))
    return SchedulerProcess(settings, lambda: config_of(plane))


async def within(work):
    async with asyncio.timeout(60.0):
        return await work


async def holder(client) -> str:
    return json.loads((await client.get(LEASE)).body)["spec"].get("holderIdentity") or ""


@pytest.mark.parametrize(
    ("flags", "arrives_within_s"),
    [
        pytest.param(("--leader-elect=false",), None, id="alone"),
        pytest.param(ELECTION, 5.0, id="with a lease"),
    ],
)
async def test_it_runs_until_it_is_stopped_and_ends_with_0(plane, flags, arrives_within_s):
    process = make_process(plane, *flags)
    running = asyncio.create_task(process.run(signals=False))
    await within(process.ready.wait())
    assert "control" in {thread.name for thread in threading.enumerate()}
    assert process.live.client.config.arrives_within_s == arrives_within_s
    process.stop()
    assert await within(running) == OK
    assert "control" not in {thread.name for thread in threading.enumerate()}


async def test_the_lease_is_released_at_the_end(plane, client):
    process = make_process(plane, *ELECTION)
    running = asyncio.create_task(process.run(signals=False))
    await within(process.ready.wait())
    assert await holder(client)
    process.stop()
    await within(running)
    assert await holder(client) == ""


async def test_a_lost_lease_fences_immediately_and_exits_with_1(plane, client):
    process = make_process(plane, *ELECTION)
    running = asyncio.create_task(process.run(signals=False))
    await within(process.ready.wait())
    assert not process._is_fenced()
    theft = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
    await client.patch(LEASE, json.dumps(theft).encode(), content_type=MERGE_PATCH)
    assert await within(running) == FAILED
    assert process._is_fenced(), "whatever still runs must not bind"
    assert await holder(client) == "thief"


async def test_the_lease_is_renewed_while_the_scheduler_is_busy(plane, client):
    """The control plane lives in this loop, too: so the lease's connection is watched instead of blocked."""
    process = make_process(plane, *ELECTION)
    running = asyncio.create_task(process.run(signals=False))
    await within(process.ready.wait())
    elector = process._control.elector
    renewed = elector._observed_at
    async with asyncio.timeout(60.0):
        while elector._observed_at == renewed:  # noqa: ASYNC110 – another thread changes it
            await asyncio.sleep(0.01)
    assert elector.is_leader
    process.stop()
    assert await within(running) == OK


async def test_what_cannot_be_begun_is_an_error_and_leaves_no_thread(plane):
    from mooring.api.errors import UsageError

    with pytest.raises(UsageError, match="cannot listen on"):
        await make_process(plane, "--secure-port=1", "--bind-address=203.0.113.1", "--leader-elect=false").run(
            signals=False
        )
    assert "control" not in {thread.name for thread in threading.enumerate()}


async def test_the_decision_log_is_written_to_the_end(plane, tmp_path):
    path = tmp_path / "decisions.jsonl"
    process = make_process(plane, "--leader-elect=false", f"--decision-log={path}")
    running = asyncio.create_task(process.run(signals=False))
    await within(process.ready.wait())
    scheduler = process.live.scheduler
    from mooring.testing import make_pod

    scheduler.put(make_pod("nowhere"))
    async with asyncio.timeout(60.0):
        while not scheduler.decisions:  # noqa: ASYNC110 – the loop makes it true
            await asyncio.sleep(0)
    process.stop()
    await within(running)
    (line,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["pod"], line["message"]) == ("default/nowhere", "no nodes available to schedule pods")


@pytest.mark.parametrize("has_synced", [True, False], ids=["watching before", "delayCacheUntilActive"])
async def test_a_new_leader_reads_once_more_before_it_decides(has_synced):
    """A list may come from a cache that has not heard of the last leader's bindings."""
    done = []

    class Live:
        informers = scheduler = None

        def __getattr__(self, name):
            async def do(*arguments):
                done.append(name)
                return True

            return do

    live = Live()
    live.informers = Live()
    live.informers.has_synced, live.scheduler = has_synced, SimpleNamespace(pods={}, abort=Live().abort)
    process = SchedulerProcess(load_settings(parse_flags(["--secure-port=0"])), lambda: None)
    process._control = SimpleNamespace(elector=object())
    await process._lead(live)
    assert done[-3:] == ["catch_up", "run", "abort"]
    assert done[:-3] == ([] if has_synced else ["start", "synced"])
