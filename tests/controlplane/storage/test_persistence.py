"""A data directory: what was acknowledged is there after the worst of ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import sys
from pathlib import Path

import aiohttp
import pytest

from mooring.api.errors import UsageError
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.types.status import StatusError

from ..conftest import Http, connected, make_node, make_pod

SERVER = """
import asyncio, sys
from pathlib import Path
from mooring.controlplane.server import ControlPlane

async def main():
    plane = ControlPlane(use_tls=False, data_dir=Path(sys.argv[1]))
    await plane.start()
    print(plane.url, plane.token, flush=True)
    await asyncio.sleep(120)

asyncio.run(main())
"""


async def test_objects_survive_a_restart_and_old_watches_must_relist(tmp_path: Path) -> None:
    async with connected(data_dir=tmp_path) as (plane, http):
        _, node = await http("POST", "/api/v1/nodes", make_node())
        await http("POST", "/api/v1/namespaces/default/pods", make_pod("a"))
        await http("DELETE", "/api/v1/namespaces/default/pods/a")
        seen = plane.store.rv
    async with connected(data_dir=tmp_path) as (plane, http):
        assert await http("GET", "/api/v1/nodes/node-1") == (200, node)
        assert (await http("GET", "/api/v1/namespaces/default/pods"))[1]["items"] == []
        assert plane.store.rv > seen
        assert (await http("GET", f"/api/v1/nodes?watch=1&resourceVersion={seen}"))[0] == 410
        node["metadata"]["labels"]["new"] = "label"
        assert (await http("PUT", "/api/v1/nodes/node-1", node))[0] == 200


@pytest.mark.e2e
async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url, token = (await asyncio.wait_for(process.stdout.readline(), 300)).decode().split()
    acknowledged: dict[str, str] = {}

    async def write(http: Http, worker: int) -> None:
        for i in range(10_000):
            name = f"p{worker}-{i}"
            try:
                code, pod = await http("POST", "/api/v1/namespaces/default/pods", make_pod(name))
            except aiohttp.ClientError:
                return
            assert code == 201
            acknowledged[name] = pod["metadata"]["uid"]
            if len(acknowledged) == 200:
                process.send_signal(signal.SIGKILL)

    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        http = Http(session, url)
        await asyncio.wait_for(asyncio.gather(*(write(http, worker) for worker in range(8))), 300)
    await process.wait()
    plane = ControlPlane(use_tls=False, data_dir=tmp_path)
    kept = {entry.name: entry.uid for entry in plane.store.iterate(PODS)}
    await plane.stop()
    assert len(acknowledged) >= 200
    assert {name: kept.get(name) for name in acknowledged} == acknowledged


async def test_a_directory_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used to keep data"):
        ControlPlane(data_dir=tmp_path / "file" / "x")
    (tmp_path / "mooring.db").write_text("this is not a database, but it is long enough to look like one" * 20)
    with pytest.raises(UsageError, match="cannot be used to keep data") as refused:
        ControlPlane(data_dir=tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("is_there_before", [False, True], ids=["made by the server", "made before by a client"])
async def test_what_is_kept_is_for_its_owner_alone_from_the_start(tmp_path: Path, is_there_before: bool) -> None:
    directory = tmp_path / "a" / "data"
    old_mask = os.umask(0o022)
    try:
        if is_there_before:
            directory.mkdir(parents=True)
            for name in ("mooring.db", "mooring.db-wal"):
                (directory / name).touch(mode=0o644)
        plane = ControlPlane(use_tls=False, data_dir=directory)
        plane.api.create(NODES, "", make_node("secret"))
        journal = plane._journal
        assert journal is not None
        await journal.durable()
    finally:
        os.umask(old_mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    await plane.stop()
    assert modes.keys() >= {"mooring.db", "mooring.db-wal"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == (0o755 if is_there_before else 0o700)


async def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    async with connected(data_dir=tmp_path):
        with pytest.raises(UsageError, match="locked"):
            ControlPlane(data_dir=tmp_path)


async def test_writes_without_http_are_kept_too(tmp_path: Path) -> None:
    plane = ControlPlane(use_tls=False, data_dir=tmp_path)
    plane.api.create(NODES, "", make_node("quiet"))
    await plane.stop()
    again = ControlPlane(use_tls=False, data_dir=tmp_path)
    assert json.loads(again.api.get(NODES, "", "quiet").raw)["metadata"]["name"] == "quiet"
    with pytest.raises(StatusError):
        again.api.get(NODES, "", "other")
    await again.stop()


async def test_a_writer_waits_for_its_own_batch_only(tmp_path: Path) -> None:
    plane = ControlPlane(use_tls=False, data_dir=tmp_path)
    journal = plane._journal
    assert journal is not None
    plane.api.create(NODES, "", make_node("n0"))
    first = asyncio.create_task(journal.durable())
    done = []

    async def keep_busy() -> None:
        for i in range(1, 200):
            plane.api.create(NODES, "", make_node(f"n{i}"))
            await journal.durable()
            done.append(i)

    busy = asyncio.gather(keep_busy(), *(journal.durable() for _ in range(3)))
    await asyncio.wait_for(first, 300)
    assert len(done) < 10
    await asyncio.wait_for(busy, 300)
    await plane.stop()


async def test_a_write_that_cannot_reach_the_disk_is_an_error_and_is_tried_again(tmp_path: Path) -> None:
    async with connected(data_dir=tmp_path) as (plane, http):
        journal = plane._journal
        assert journal is not None
        original, journal._write = journal._write, _broken  # type: ignore[method-assign]
        code, status = await http("POST", "/api/v1/nodes", make_node("n1"))
        assert (code, status["kind"]) == (500, "Status")
        journal._write = original  # type: ignore[method-assign]
        assert (await http("POST", "/api/v1/nodes", make_node("n2")))[0] == 201
    again = ControlPlane(use_tls=False, data_dir=tmp_path)
    assert [entry.name for entry in again.store.iterate(NODES)] == ["n1", "n2"]
    await again.stop()


def _broken(batch: object, rv: int) -> None:
    raise sqlite3.OperationalError("disk I/O error")
