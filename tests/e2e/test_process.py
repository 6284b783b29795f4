"""``mooring run`` as a process: signals, leases, reload, endpoints, and what bad input gets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import ssl
import sys
from collections import Counter

import pytest
import yaml

from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser, write_kubeconfig
from mooring.controlplane.serving.faults import FaultRule
from tests.controlplane.rbac import Rbac

pytestmark = pytest.mark.e2e


class Process:
    """A running ``mooring run`` and what it has said so far."""

    def __init__(self, process, said):
        self.process, self.said = process, said

    def __contains__(self, text):
        return any(text in line for line in self.said)

    async def says(self, text, timeout_s=300.0):
        try:
            async with asyncio.timeout(timeout_s):
                while text not in self:
                    assert self.process.returncode is None or text in self, "".join(self.said)
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"never said {text!r}:\n{''.join(self.said)}")

    async def ends(self, timeout_s=300.0):
        async with asyncio.timeout(timeout_s):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def running(*arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mooring",
        "run",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = []

    async def read():
        async for line in process.stdout:
            said.append(line.decode())

    reader = asyncio.create_task(read())
    try:
        yield Process(process, said)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reader


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def flags_for(world, *more):
    return ("--kubeconfig", world.kubeconfig, "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000", *more)


async def mooring(*arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mooring", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_sigterm_under_load_finishes_what_was_begun_and_gives_the_lease_back(world):
    for i in range(10):
        await world.node(f"node-{i}", cpu="10")
    world.faults.add(FaultRule("delay", "POST", r"/binding$", times=10_000, seconds=0.05))
    async with running(*flags_for(world)) as run:
        await run.says("Successfully acquired lease")
        await asyncio.gather(*(world.pod(f"pod-{i}") for i in range(60)))

        async def some_bound():
            return [p for p in await world.list("Pod") if p["spec"].get("nodeName")]

        await world.until("some pods are bound", some_bound)
        run.process.send_signal(signal.SIGTERM)
        assert await run.ends() == 0
    pods = await world.list("Pod")
    bound = Counter(p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName"))
    assert sum(bound.values()) > 0 and max(bound.values()) <= 10
    (lease,) = await world.list("Lease")
    assert (lease["spec"].get("holderIdentity"), lease["spec"]["leaseDurationSeconds"]) in (("", 1), (None, 1))
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            assert not pod["status"].get("nominatedNodeName")
    # The next process finds everything that is left.
    async with world.scheduler():
        await asyncio.gather(*(world.bound(f"pod-{i}") for i in range(60)))
    bound = Counter(p["spec"]["nodeName"] for p in await world.list("Pod"))
    assert max(bound.values()) <= 10


ELECTION = (
    "--leader-elect-lease-duration=120s",  # no test waits for its end: the lease is released, or stolen
    "--leader-elect-renew-deadline=110s",
    "--leader-elect-retry-period=500ms",
)


async def test_of_two_replicas_one_leads_and_the_other_takes_over(world):
    await world.node("a", cpu="100")
    async with running(*flags_for(world, *ELECTION)) as first:
        await first.says("Successfully acquired lease")
        async with running(*flags_for(world, *ELECTION)) as second:
            await second.says("Attempting to acquire leader lease")
            await world.pod("early")
            await world.bound("early")
            assert "Successfully acquired lease" not in second
            first.process.send_signal(signal.SIGTERM)
            assert await first.ends() == 0
            await second.says("Successfully acquired lease")
            await world.pod("late")
            await world.bound("late")


async def test_a_lost_lease_ends_the_process_with_code_1(world):
    await world.node("a")
    async with running(*flags_for(world, *ELECTION)) as run:
        await run.says("Successfully acquired lease")
        await world.patch("Lease", "kube-scheduler", {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}})
        assert await run.ends() == 1
        assert "Leaderelection lost" in run


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}


async def test_a_changed_configuration_is_taken_up_and_a_bad_one_is_not(world, tmp_path):
    await world.node("a")
    path = tmp_path / "scheduler.yaml"
    config = {**CONFIG, "clientConnection": {"kubeconfig": world.kubeconfig}}
    path.write_text(yaml.safe_dump(config))
    async with running("--config", str(path), "--secure-port=0") as run:
        await run.says("Caches are synced")
        await world.pod("ours")
        await world.bound("ours")
        await world.pod("theirs", schedulerName="second")
        path.write_text(yaml.safe_dump({**config, "profiles": [{"schedulerName": ""}, {"schedulerName": ""}]}))
        run.process.send_signal(signal.SIGHUP)
        await run.says("keeping the old one")
        both = [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}]
        path.write_text(yaml.safe_dump({**config, "profiles": both}))
        run.process.send_signal(signal.SIGHUP)
        assert await world.bound("theirs") == "a"
        await world.pod("ours-still")
        assert await world.bound("ours-still") == "a"


async def test_endpoints_and_the_queue_of_a_running_scheduler(world, tmp_path):
    await world.node("a")
    port, certificates = free_port(), tmp_path / "certificates"
    flags = (
        *("--kubeconfig", world.kubeconfig, "--leader-elect=false", f"--secure-port={port}"),
        *("--cert-dir", str(certificates), "--decision-log", str(tmp_path / "decisions.jsonl")),
    )
    async with running(*flags) as run:
        await run.says("Caches are synced")
        await world.pod("small")
        await world.bound("small")
        await world.pod("big", cpu="99")
        await world.condition("big", reason="Unschedulable")
        looking = (
            *("queue", "--kubeconfig", world.kubeconfig, "--server", f"https://127.0.0.1:{port}"),
            *("--certificate-authority", str(certificates / "kube-scheduler.crt")),
        )
        code, out, err = await mooring(*looking)
        assert (code, err) == (0, "")
        assert "0 active, 0 backoff, 1 unschedulable, 0 gated" in out
        assert re.search(r"default/big +unschedulable .* NodeResourcesFit", out)
        code, out, _ = await mooring(*looking, "-o", "json")
        (pod,) = json.loads(out)["pods"]
        assert (pod["name"], pod["attempts"], pod["plugins"]) == ("big", 1, ["NodeResourcesFit"])
        code, _, err = await mooring(*looking[:5])
        assert code == 1 and "certificate is not trusted" in err and err.count("\n") == 1
        run.process.send_signal(signal.SIGUSR2)
        await run.says('"Cache of pods agrees with the watches" count=1')
        run.process.send_signal(signal.SIGTERM)
        assert await run.ends() == 0
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [(line["pod"], line["outcome"]) for line in lines] == [
        ("default/small", "scheduled"),
        ("default/big", "unschedulable"),
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["--kubeconfig", "nowhere"], "kubeconfig nowhere: No such file or directory", id="no kubeconfig"),
        pytest.param(["--config", "nowhere"], "nowhere: no such file or directory", id="no configuration"),
        pytest.param(["--leader-elekt"], "unknown flag: --leader-elekt; did you mean --leader-elect?", id="a typo"),
        pytest.param(["--vmodule", "x=2"], "--vmodule=x=2 is not supported", id="a flag that cannot be had"),
        pytest.param(["--plugin", "no_such_module:X"], "--plugin: plugin no_such_module:X", id="no plugin"),
        pytest.param(["--feature-gates", "Nonsense=true"], "unrecognized feature gate: Nonsense", id="no such gate"),
        pytest.param(["--logging-format", "xml"], "--logging-format: 'xml'; it should be text or json", id="no format"),
    ],
)
async def test_bad_usage_is_one_line_and_code_2(arguments, line, tmp_path):
    code, out, err = await mooring("run", *arguments)
    assert code == 2 and out == ""
    last = [text for text in err.splitlines() if text.startswith("mooring:")]
    assert len(last) == 1 and line in last[0]
    assert "Traceback" not in err


async def test_missing_rights_are_named_and_tried_again(tmp_path):
    async with ControlPlane(authorizer=Rbac) as plane:
        path = tmp_path / "kubeconfig"
        token = plane.access.issue(ApiUser("nobody", ()))
        write_kubeconfig(path, plane.url, token, plane.certificate)
        async with running("--kubeconfig", str(path), "--secure-port=0", "--leader-elect=false") as run:
            await run.says('User "nobody" cannot watch resource "pods" in API group ""')
            assert run.process.returncode is None


async def test_a_wrong_certificate_authority_is_reported_in_one_line(world, tmp_path):
    from mooring.net.tls import self_signed

    if world.plane is None:
        pytest.skip("the embedded server is needed")
    path = tmp_path / "other"
    write_kubeconfig(path, world.plane.url, world.plane.token, self_signed("127.0.0.1")[0])
    async with running("--kubeconfig", str(path), "--secure-port=0", "--leader-elect=false") as run:
        await run.says("the server's certificate is not trusted")
        assert "Traceback" not in run


HANGING_PLUGIN = """
import threading
from mooring import sdk

class Hangs(sdk.NodeFilter):
    name = "Hangs"

    def filter(self, state, pod, node):
        if pod.metadata.labels.get("hangs"):
            threading.Event().wait()
        return sdk.SUCCESS
"""
UNREACHABLE = {"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter", "ignorable": True}


@pytest.fixture(params=[False, True], ids=["in the loop", "beside extenders"])
def beside_extenders(request):
    return request.param


@pytest.fixture
def hanging(beside_extenders, world, tmp_path):
    """The flags of a scheduler with a plugin that hangs for pods that are labelled so."""
    plugin, path = tmp_path / "hangs.py", tmp_path / "scheduler.yaml"
    plugin.write_text(HANGING_PLUGIN)
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Hangs"}]}}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": world.kubeconfig},
        "profiles": [profile],
        "extenders": [UNREACHABLE] if beside_extenders else [],
    }
    path.write_text(yaml.safe_dump(config))
    return ("--config", str(path), "--plugin", str(plugin), "--plugin-timeout=0s", *ELECTION)


async def status_of(port, path):
    """The status of one of the scheduler's endpoints; the certificate is not verified."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def test_a_decision_that_hangs_delays_neither_the_lease_nor_health(world, hanging, beside_extenders):
    port = free_port()
    await world.node("a")
    async with running(*hanging, "--attempt-timeout=0s", f"--secure-port={port}") as run:
        await run.says("Successfully acquired lease")
        await world.pod("hangs", labels={"hangs": "true"})

        async def lease():
            return (await world.get("Lease", "kube-scheduler"))["spec"]

        await world.pod("after")
        renewed = set()
        while len(renewed) < 8:
            renewed.add((await lease())["renewTime"])
            assert await status_of(port, "/healthz") == 200
        assert (await lease())["holderIdentity"] and run.process.returncode is None
        assert "nodeName" not in (await world.get("Pod", "after"))["spec"], "the plugin does not hang"
        run.process.send_signal(signal.SIGTERM)
        if beside_extenders:  # the loop is free, and does not wait for the thread that hangs
            assert await run.ends() == 0
        else:
            await run.says("Stopping")
            run.process.send_signal(signal.SIGTERM)
            assert await run.ends() == 1


async def test_a_decision_that_hangs_costs_its_pod_an_attempt_and_no_other(world, hanging):
    await world.node("a")
    async with running(*hanging, "--attempt-timeout=500ms", "--secure-port=0") as run:
        await run.says("Successfully acquired lease")
        await world.pod("hangs", labels={"hangs": "true"})
        condition = await world.condition("hangs", reason="SchedulerError")
        assert condition["message"].startswith("the attempt to find a node did not end within 500ms")
        await world.pod("ordinary")
        assert await world.bound("ordinary") == "a"
        run.process.send_signal(signal.SIGTERM)
        assert await run.ends() == 0
        assert "Traceback" not in run
