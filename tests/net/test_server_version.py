"""Which Kubernetes a server says it is."""

from __future__ import annotations

import pytest
from aiohttp import web

from mooring.controlplane.server import ControlPlane
from mooring.net.errors import Forbidden, ServerError
from mooring.net.kubeconfig import ClientConfig, load_kubeconfig
from mooring.net.rest import RestClient, ServerVersion, server_version


async def asked(serve, *, text: str, status: int = 200) -> ServerVersion:
    async def handler(request: web.Request) -> web.Response:
        assert (request.method, request.path) == ("GET", "/version")
        return web.Response(text=text, status=status)

    async with RestClient(ClientConfig(server=await serve(handler))) as client:
        return await server_version(client)


@pytest.mark.parametrize(
    ("text", "release", "git_version"),
    [
        pytest.param('{"major":"1","minor":"36","gitVersion":"v1.36.4"}', (1, 36), "v1.36.4", id="a plain one"),
        pytest.param('{"major":"1","minor":"34+","gitVersion":"v1.34.1-gke.2"}', (1, 34), "v1.34.1-gke.2", id="GKE's"),
        pytest.param('{"major":"","minor":"","gitVersion":"x"}', (0, 0), "x", id="one that does not say"),
        pytest.param("{}", (0, 0), "", id="nothing at all"),
    ],
)
async def test_versions(serve, text, release, git_version):
    found = await asked(serve, text=text)
    assert (found.release, found.git_version) == (release, git_version)


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        pytest.param("<html>", 200, ServerError, id="a page that is none of ours"),
        pytest.param('{"major": 1}', 200, ServerError, id="numbers where texts belong"),
        pytest.param("no", 403, Forbidden, id="it may not be asked"),
    ],
)
async def test_what_is_no_version(serve, text, status, error):
    with pytest.raises(error) as caught:
        await asked(serve, text=text, status=status)
    assert "\n" not in str(caught.value)


@pytest.mark.e2e
async def test_the_embedded_server_has_one(tmp_path):
    path = tmp_path / "kubeconfig"
    async with ControlPlane(kubeconfig_path=path), RestClient(load_kubeconfig([str(path)], environ={})) as client:
        assert (await server_version(client)).release >= (1, 36)
