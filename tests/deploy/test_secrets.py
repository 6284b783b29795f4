"""No token, key, certificate or Secret reaches a log, the decision log, a record, an event or an endpoint."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml

from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser, kubeconfig
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.live import logs
from mooring.live.flags import parse_flags
from mooring.live.process import SchedulerProcess
from mooring.live.settings import load_settings
from mooring.net.kubeconfig import load_kubeconfig
from mooring.record.files import check_head, payload_of, scan
from mooring.record.recorder import Recorder

pytestmark = pytest.mark.e2e

SECRET = "hunter2-in-a-secret"
IN_ANNOTATION = "hunter6-in-a-pods-annotation"
IN_ENV = "hunter3-in-a-pods-environment"
EXTENDER_KEY = "-----BEGIN PRIVATE KEY-----hunter4-----END PRIVATE KEY-----"
VISITOR = "hunter5-a-visitors-token"


@pytest.fixture
def everything_logged():
    """All loggers at the highest verbosity, in klog's format and in JSON; restored afterwards."""
    stream = io.StringIO()
    root = logging.getLogger()
    before = (
        root.level,
        root.handlers[:],
        logging.getLogger("mooring").level,
        logging.getLogger("mooring").handlers[:],
    )
    logs.set_up(logging_format="json", verbosity=10)
    handler = logging.StreamHandler(stream)
    for logger in (root, logging.getLogger("mooring")):
        logger.addHandler(handler)
        logger.setLevel(1)
    yield stream
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    logging.getLogger("mooring").setLevel(before[2])
    logging.getLogger("mooring").handlers[:] = before[3]
    logs.set_up(logging_format="text", verbosity=0)


def _forms(secret: str) -> list[str]:
    """How a secret could be written."""
    return [secret, base64.b64encode(secret.encode()).decode().rstrip("=")]


async def test_no_secret_is_revealed(tmp_path, everything_logged, capfd):
    faults = Faults()
    async with ControlPlane(faults=faults) as plane:
        token = plane.access.issue(ApiUser("scheduler", groups=("system:masters", "system:authenticated")))
        path, config = tmp_path / "kubeconfig", tmp_path / "scheduler.yaml"
        path.write_text(yaml.safe_dump(dict(kubeconfig(plane.url, token, plane.certificate))))
        extender = {
            "urlPrefix": "https://127.0.0.1:1",
            "filterVerb": "filter",
            "ignorable": True,
            "httpTimeout": "1s",
            "tlsConfig": {"insecure": True},
        }
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": {"kubeconfig": str(path)},
                    "extenders": [extender],
                }
            )
        )
        plane.api.create(
            by_resource("secrets"),
            "default",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": SECRET}},
        )
        amounts = {"cpu": "2", "memory": "4Gi", "pods": "20"}
        status = {"capacity": amounts, "allocatable": amounts}
        plane.api.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status})
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        decisions = tmp_path / "decisions.jsonl"
        arguments = [
            f"--config={config}",
            f"--secure-port={port}",
            f"--authentication-kubeconfig={path}",
            f"--authorization-kubeconfig={path}",
            f"--decision-log={decisions}",
            "--v=10",
        ]
        settings = load_settings(parse_flags(arguments))
        recorder = Recorder.to_file(tmp_path / "record")
        process = SchedulerProcess(settings, lambda: load_kubeconfig([str(path)]), [recorder])
        task = asyncio.create_task(process.run(signals=False))
        await asyncio.wait_for(process.ready.wait(), 30)
        # Pods that fit and that do not, bindings that fail in several ways, watches that break.
        faults.add(FaultRule("error", "POST", r"/binding$", code=500))
        faults.add(FaultRule("drop", "POST", r"/events"))
        for name, cpu in (("web", "1"), ("big", "99")):
            container = {
                "name": "c",
                "image": "i",
                "env": [{"name": "PASSWORD", "value": IN_ENV}],
                "resources": {"requests": {"cpu": cpu}},
            }
            meta = {"name": name, "annotations": {"example.com/token": IN_ANNOTATION}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
            plane.api.create(PODS, "default", pod)
        await _until(lambda: plane.api.get(PODS, "default", "web").object()["spec"].get("nodeName"))
        plane.hub.close_all()
        answers = [await _visit(port, where, VISITOR) for where in ("/metrics", "/configz")]
        answers += [await _visit(port, where, token) for where in ("/metrics", "/configz", "/flagz", "/debug/queue")]
        # The token's user is no longer known: every request is refused from now on.
        plane.access.tokens.pop(token)
        plane.access.add({})
        plane.hub.close_all()
        await _until(lambda: "401" in everything_logged.getvalue() or "Unauthorized" in everything_logged.getvalue())
        process.stop()
        await asyncio.wait_for(task, 90)
        recorder.close()
        events = json.dumps(plane.api.objects(by_resource("events.events.k8s.io"), "default"))
    written = capfd.readouterr()
    told = {
        "the log": everything_logged.getvalue() + written.out + written.err,
        "the decision log": decisions.read_text(),
        "the record": _content(tmp_path / "record"),
        "events": events,
        "endpoints": "".join(answers),
    }
    assert all("default/web" in told[where] for where in ("the log", "the decision log", "the record"))
    for where, text in told.items():
        for secret in (token, SECRET, IN_ENV, IN_ANNOTATION, EXTENDER_KEY, VISITOR):
            for form in _forms(secret):
                assert form not in text, f"{where} tells {secret[:10]}…"
        assert "PRIVATE KEY" not in text, where
        assert "Bearer " not in text, where


def _content(path: Path) -> str:
    """Everything in a record, unpacked."""
    with path.open("rb") as file:
        check_head(file, "record")
        found = [*scan(file, path.stat().st_size)]
        return b"".join(payload_of(file, block, "record") for block in found).decode("utf-8", "replace")


async def _until(check) -> None:
    for _ in range(1500):
        if check():
            return
        await asyncio.sleep(0.02)
    pytest.fail("not within 30 s")


async def _visit(port: int, path: str, token: str) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers, ssl=context) as answer,
    ):
        return await answer.text()


def test_the_configuration_is_shown_without_its_keys(tmp_path):
    from mooring.core.config.load import load_config
    from mooring.core.config.wire import to_wire

    tls = {"keyData": base64.b64encode(EXTENDER_KEY.encode()).decode(), "certData": "aGk="}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "https://e", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}],
    }
    shown = json.dumps(to_wire(load_config(json.dumps(document)).config, redact=True))
    for form in _forms(EXTENDER_KEY):
        assert form not in shown
    assert "REDACTED" in shown
