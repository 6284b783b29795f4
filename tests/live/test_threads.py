"""The page that lists all threads and what they share is complete, and what it says of metrics is so."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

from mooring.live.control import ForwardedRequests

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture" / "threads.md").read_text(encoding="utf-8")
ELSEWHERE = {
    "watch": "a served extender that looks at a cluster",
    "extender-watchdog": "a served extender",
}
NAMED = re.compile(r'(?:Thread\(.*?name=|thread_name_prefix=)"([^"]+)"', re.DOTALL)


@pytest.mark.parametrize("room", ["live", "net", "record"])
def test_every_thread_is_on_the_page(room):
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "mooring" / room).rglob("*.py")]
    names = {name for source in sources for name in NAMED.findall(source)} - ELSEWHERE.keys()
    assert names, "threads are made differently now"
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


async def test_the_leases_requests_are_counted_in_the_schedulers_thread():
    counted: list[tuple[threading.Thread, object]] = []

    class Metrics:
        def requested(self, *what: object) -> None:
            counted.append((threading.current_thread(), what))

        def held_back(self, *what: object) -> None:
            counted.append((threading.current_thread(), what))

    loop = asyncio.get_running_loop()
    forwarded = ForwardedRequests(Metrics(), loop)  # type: ignore[arg-type]
    await asyncio.to_thread(forwarded.requested, "host", "PUT", "200", 0.1, 5, 7)
    await asyncio.to_thread(forwarded.held_back, "host", "PUT", 0.0)
    await asyncio.sleep(0)
    here = threading.current_thread()
    assert counted == [(here, ("host", "PUT", "200", 0.1, 5, 7)), (here, ("host", "PUT", 0.0))]


def test_a_closed_loop_receives_no_calls():
    loop = asyncio.new_event_loop()
    loop.close()
    ForwardedRequests(None, loop)._forward(lambda: None)  # type: ignore[arg-type]
