"""``mooring simulate --ui``: the page of a simulation, whose record grows while it runs."""

from __future__ import annotations

import asyncio
import queue

import aiohttp
import pytest

from mooring.cli import pages as simulate_page
from mooring.record.recorder import Recorder
from mooring.sim.library import find
from mooring.sim.simulate import run_scenario

from .conftest import NO_PAGE
from .decoding import decode

pytestmark = pytest.mark.e2e


async def _columns(link: str) -> tuple[bool, list[str]]:
    async with aiohttp.ClientSession() as session, session.get(f"{link}api/columns") as answer:
        header, tables = decode(await answer.read())
        return header["isLive"], tables["podNames"]


def test_the_page_is_there_while_it_runs_and_after_it(tmp_path, monkeypatch):
    links: queue.Queue[str] = queue.Queue()
    seen = []
    monkeypatch.setattr(simulate_page, "page_files", lambda: NO_PAGE)
    monkeypatch.setattr(simulate_page, "announce", lambda server, opens: links.put_nowait(server.link))
    path, scenario = str(tmp_path / "run.mooring"), find("preemption")
    recorder = Recorder.to_file(path, source="simulation")
    with simulate_page.page_during_run(path, scenario):
        run_scenario(scenario, observers=[recorder])
        recorder.hand_over()
        recorder.close()

        async def look() -> None:
            link = await asyncio.to_thread(links.get, timeout=300)
            is_live = True
            while is_live:
                is_live, names = await _columns(link)
            seen.extend(names)

        asyncio.run(look())
    assert "default/important" in seen
