"""The page of ``mooring run --ui``: for users who may get it, read-only, and in a browser by way of ``mooring ui``."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from mooring.api.errors import ApiError
from mooring.cli import pages as ui_relay
from mooring.cli.queue import Address
from mooring.cli.run import _page, _recording
from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import ApiUser, kubeconfig
from mooring.live.flags import parse_flags
from mooring.live.process import SchedulerProcess
from mooring.live.settings import load_settings
from mooring.net.kubeconfig import load_kubeconfig
from mooring.show import server as mounted
from mooring.show.answers import POLICY
from mooring.show.server import PageServer
from tests.controlplane.rbac import Rbac

from .conftest import NO_PAGE
from .decoding import decode

pytestmark = pytest.mark.e2e
ADMINISTRATORS = ("system:masters", "system:authenticated")
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: page}
rules: [{nonResourceURLs: [/ui, /ui/*], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: page}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: page}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
"""


def yaml_objects(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{each['kind'].lower()}s.rbac.authorization.k8s.io", each) for each in yaml.safe_load_all(text)]


@contextlib.asynccontextmanager
async def running(tmp_path, monkeypatch, *more: str):
    """A scheduler with a page, on a control plane with one node and one pod; yields its port and the control plane."""
    monkeypatch.setattr(mounted, "page_files", lambda: NO_PAGE)
    async with ControlPlane() as plane:
        path = tmp_path / "kubeconfig"
        token = plane.access.issue(ApiUser("scheduler", groups=ADMINISTRATORS))
        path.write_text(yaml.safe_dump(dict(kubeconfig(plane.url, token, plane.certificate))))
        amounts = {"cpu": "2", "memory": "4Gi", "pods": "20"}
        status = {"capacity": amounts, "allocatable": amounts}
        plane.api.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status})
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        reviews = [f"--{name}-kubeconfig={path}" for name in ("authentication", "authorization")]
        flags = parse_flags([f"--secure-port={port}", f"--kubeconfig={path}", "--leader-elect=false", *reviews, *more])
        with _page(flags) as (record, pages):
            async with _recording(flags, record) as observers:
                settings = load_settings(flags)
                process = SchedulerProcess(settings, lambda: load_kubeconfig([str(path)]), observers, pages=pages)
                task = asyncio.create_task(process.run(signals=False))
                await asyncio.wait_for(process.ready.wait(), 300)
                container = {"name": "c", "image": "i"}
                pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "web"},
                    "spec": {"containers": [container]},
                }
                plane.api.create(PODS, "default", pod)
                yield port, plane, token
                process.stop()
                await asyncio.wait_for(task, 300)


async def ask(port: int, path: str, token: str = "", method: str = "GET", **headers: str):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ({"Authorization": f"Bearer {token}"} if token else {}) | headers
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.request(method, f"https://127.0.0.1:{port}{path}", headers=sent, allow_redirects=False) as answer,
    ):
        return answer.status, dict(answer.headers), await answer.read()


async def test_only_authorised_users_see_the_page_which_is_read_only(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch, "--ui") as (port, plane, token):
        plane.access.authorizer = Rbac(plane.api)
        for resource, body in yaml_objects(ROLE):
            plane.api.create(by_resource(resource), "", body)
        stranger = plane.access.issue(ApiUser("stranger", groups=("system:authenticated",)))
        token = plane.access.issue(ApiUser("viewer", groups=("system:authenticated",)))
        for path in ("/ui", "/ui/", "/ui/api/meta", "/ui/api/columns"):
            assert (await ask(port, path))[0] == 403
            assert (await ask(port, path, "a-wrong-token"))[0] == 401
            assert (await ask(port, path, stranger))[0] == 403
        status, headers, _ = await ask(port, "/ui", token)
        assert (status, headers["Location"]) == (301, "ui/")
        status, headers, body = await ask(port, "/ui/", token)
        assert (status, body) == (200, NO_PAGE["index.html"].body)
        assert headers["Content-Security-Policy"] == POLICY
        assert (await ask(port, "/ui/", token, **{"Sec-Fetch-Site": "cross-site"}))[0] == 403
        plane.access.authorizer = None  # even with all permissions there is no handler that writes
        for path in ("/ui/api/apply", "/ui/api/delete?ref=pod/web", "/ui/api/configure"):
            assert (await ask(port, path, token, "POST"))[0] in (403, 404)
            assert (await ask(port, path, plane.access.admin_token, "POST"))[0] == 404
        assert not msgspec.json.decode((await ask(port, "/ui/api/meta", token))[2])["isOurs"]
        have, attempts = "", 0
        while not attempts:  # the record is written every few seconds; the server waits for news
            header, tables = decode((await ask(port, f"/ui/api/columns?have={have}", token))[2])
            assert header["isLive"]
            attempts = sum(kind == 4 for kind in tables["events"]["kind"])
        assert tables["nodes"] == ["a"] and tables["podNames"] == ["default/web"]
        event = list(tables["events"]["kind"]).index(4)
        told = msgspec.json.decode((await ask(port, f"/ui/api/why?event={event}", token))[2])
        assert (told["pod"], told["outcome"], told["node"]) == ("default/web", "scheduled", 0)


async def test_without_the_flag_there_is_no_page(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch) as (port, _, token):
        assert (await ask(port, "/ui/", token))[0] == 404
        with pytest.raises(ApiError, match="does not serve a page; start it with mooring run --ui"):
            address = Address(f"https://127.0.0.1:{port}", str(tmp_path / "kubeconfig"), is_insecure=True)
            await ui_relay.relay_and_serve(address, 0, False)


async def test_mooring_ui_shows_it_with_the_credentials_of_a_kubeconfig(tmp_path, monkeypatch):
    async with running(tmp_path, monkeypatch, "--ui") as (port, _, _):
        seen: list[tuple[int, bytes]] = []

        async def look(shown, at, opens, *, answers) -> None:
            server = PageServer([], answers=answers)
            await server.start()
            try:
                async with aiohttp.ClientSession() as session:
                    for path in ("", "api/meta", "api/why?event=x"):
                        async with session.get(server.link + path) as answer:
                            seen.append((answer.status, await answer.read()))
                    async with session.post(server.link + "api/apply") as answer:
                        seen.append((answer.status, b""))
            finally:
                await server.stop()

        monkeypatch.setattr(ui_relay, "serve_until_interrupted", look)
        address = Address(f"https://127.0.0.1:{port}", str(tmp_path / "kubeconfig"), is_insecure=True)
        await ui_relay.relay_and_serve(address, 0, False)
    assert seen[0] == (200, NO_PAGE["index.html"].body)
    assert b'"title":"mooring run"' in seen[1][1]
    assert seen[2][0] == 400 and b"expected the number of an attempt's event" in seen[2][1]
    assert seen[3][0] == 404
