"""Profiles: stacks are collected, sorted by whose they are, and drawn."""

from __future__ import annotations

import signal
import time
import xml.etree.ElementTree as ET

import pytest

from tools.profile_perf import (
    PySpy,
    StackSampler,
    breakdown,
    collapsed,
    flame_graph,
    hottest,
    make_profiler,
    part_of,
)

SVG = "{http://www.w3.org/2000/svg}"
LOOP = "run (asyncio/runners.py:86)"


def burn_cpu(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


def test_the_sampler_finds_the_busy_function() -> None:
    before = signal.getsignal(signal.SIGPROF)
    sampler = StackSampler(rate_hz=1000)
    sampler.start()
    burn_cpu(0.3)
    sampler.stop()
    stacks = sampler.stacks()
    assert sum(stacks.values()) >= 5
    assert any("burn_cpu (" in stack for stack in stacks)
    assert signal.getsignal(signal.SIGPROF) == before


@pytest.mark.parametrize(
    ("stack", "want"),
    [
        pytest.param("Engine.decide (mooring/core/engine/cycle.py:10);_amax (numpy/_core/_methods.py)", "decide",
                     id="what the engine calls is a decision"),
        pytest.param("PodAttempts.place (mooring/live/schedule_one.py);assume (mooring/core/state/cluster.py:9)",
                     "cache: assume, confirm", id="assuming"),
        pytest.param("PodAttempts.bind_pod (mooring/live/schedule_one.py);post_bind (mooring/live/schedule_one.py)",
                     "binding cycle", id="binding"),
        pytest.param("Engine.decide (mooring/core/engine/cycle.py);snapshot (mooring/core/state/cluster.py)", "decide",
                     id="a snapshot belongs to the decision"),
        pytest.param("Informer.apply (mooring/net/informer.py);put (mooring/live/event_handlers.py);"
                     "pop (mooring/core/queue/sub_queues.py)", "queue", id="the innermost marked frame"),
        pytest.param("PodAttempts.bind_pod (mooring/live/schedule_one.py);ApiWriter.bind (mooring/live/writer.py);"
                     "request (mooring/sim/backend.py);bind (mooring/controlplane/registry/subresources.py)",
                     "API server: bindings and patches", id="the server, for a binding"),
        pytest.param("create_all (mooring/bench/perf/targets.py);create (mooring/controlplane/registry/verbs.py)",
                     "API server: making objects", id="the server, for the load"),
        pytest.param("handle (mooring/controlplane/server.py)",
                     "API server: the rest", id="the server, without a caller"),
        pytest.param("select (selectors.py)", "event loop and the rest", id="without an owner"),
    ],
)  # fmt: skip
def test_whose_time_a_stack_is(stack: str, want: str) -> None:
    assert part_of(f"{LOOP};{stack}") == want


STACKS = {
    f"{LOOP};decide (mooring/core/engine/cycle.py)": 6,
    f"{LOOP};decide (mooring/core/engine/cycle.py);score (mooring/plugins/a.py)": 2,
    f"{LOOP};pop (mooring/core/queue/sub_queues.py)": 2,
}


def test_shares_add_up() -> None:
    assert breakdown(STACKS) == [("decide", 0.8), ("queue", 0.2)]
    assert breakdown({}) == []
    assert hottest(STACKS, 1) == [("decide (mooring/core/engine/cycle.py)", 0.6, 0.8)]


def test_a_flame_graph_is_a_picture_with_a_box_for_each_frame() -> None:
    root = ET.fromstring(flame_graph({**STACKS, "<module> (a&b.py)": 1}, "Basic & more"))
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "decide (mooring/core/engine/cycle.py): 72.7%" in titles
    assert "<module> (a&b.py): 9.1%" in titles
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.attrib.get("x", 0)), float(box.attrib.get("y", 0))
        assert 0 <= x <= x + float(box.attrib["width"]) <= width + 0.1
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    assert ET.fromstring(flame_graph({}, "nothing")).tag == f"{SVG}svg"


def test_collapsed_stacks_are_lines_for_other_tools() -> None:
    assert collapsed({"b;c": 2, "a": 1}) == "a 1\nb;c 2\n"


def test_a_profiler_is_found() -> None:
    assert isinstance(make_profiler("own"), StackSampler)
    assert isinstance(make_profiler("auto"), PySpy if PySpy.find() else StackSampler)


@pytest.mark.skipif(not PySpy.find(), reason="py-spy is not installed")
def test_py_spy_ends_with_what_is_measured() -> None:
    executable = PySpy.find()
    assert executable is not None
    profiler = PySpy(executable)
    profiler.start()
    burn_cpu(0.2)
    profiler.stop()
    stacks = profiler.stacks()  # none, where the system does not let it look
    assert all(count > 0 for count in stacks.values())
