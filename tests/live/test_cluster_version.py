"""Which version of Kubernetes a scheduler is: the API server says it, unless the flags do."""

from __future__ import annotations

import asyncio
import json

import pytest

from mooring.api.errors import UsageError
from mooring.core.config.versions import V1_36, V1_37, VERSIONS, KubernetesVersion
from mooring.live.flags import parse_flags
from mooring.live.settings import Settings, for_cluster, load_settings


async def answered(settings: Settings, body: bytes | None) -> Settings:
    """Ask a server that answers this to GET /version; None: it closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if body is not None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        original = Settings.client_config
        Settings.client_config = lambda self: _config(port)  # type: ignore[method-assign]
        try:
            return await for_cluster(settings, timeout_s=60)
        finally:
            Settings.client_config = original  # type: ignore[method-assign]


def _config(port: int) -> object:
    from mooring.net.kubeconfig import ClientConfig

    return ClientConfig(server=f"http://127.0.0.1:{port}")


def version_of(minor: str) -> bytes:
    return json.dumps({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}).encode()


OLDEST, *_, NEWEST = VERSIONS.values()


@pytest.mark.parametrize(
    ("flags", "body", "version"),
    [
        pytest.param([], version_of("36"), V1_36, id="a cluster of 1.36"),
        pytest.param([], version_of("37+"), V1_37, id="a cluster of 1.37"),
        pytest.param([], version_of("30"), OLDEST, id="an older cluster"),
        pytest.param([], version_of("50"), NEWEST, id="a newer cluster"),
        pytest.param([], b"no version", V1_36, id="a server that answers nonsense"),
        pytest.param(["--kubernetes-version=1.36"], version_of("37"), V1_36, id="the flag comes first"),
        pytest.param(["--emulated-version=kube=1.37"], version_of("36"), V1_37, id="in kube-scheduler's words"),
    ],
)
def test_the_clusters_version_counts(flags: list[str], body: bytes, version: KubernetesVersion) -> None:
    settings = asyncio.run(answered(load_settings(parse_flags(flags)), body))
    assert settings.features.version is version
    first = "NodeName" if version.minor >= 37 else "NodeUnschedulable"
    assert settings.config.profiles[0].plugins.multi_point.enabled[2].name == first


def test_a_gate_that_the_clusters_version_does_not_have_is_refused() -> None:
    settings = load_settings(parse_flags(["--feature-gates=SchedulerQueueingHints=true"]))
    with pytest.raises(UsageError, match=r"1.36 have it, 1.37 has not"):
        asyncio.run(answered(settings, version_of("37")))


def test_a_gate_of_a_later_version_waits_for_the_cluster_to_say_its_version() -> None:
    settings = load_settings(parse_flags(["--feature-gates=GenericWorkload=true"]))
    later = asyncio.run(answered(settings, version_of("37")))
    assert later.features.version is V1_37 and later.features["GenericWorkload"]
    with pytest.raises(UsageError, match=r"pod groups are scheduled as Kubernetes 1.37 does"):
        asyncio.run(answered(settings, version_of("36")))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UsageError, match=rf"--kubernetes-version: found '1.2', expected one of {', '.join(VERSIONS)}"):
        load_settings(parse_flags(["--kubernetes-version=1.2"]))
