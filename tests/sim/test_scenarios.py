"""The stories that come with mooring, in virtual time: all hold, and each is the same every time."""

from __future__ import annotations

import pytest

from mooring.sim.library import FIRST, find, names
from mooring.sim.narration import VERBOSE
from mooring.sim.player import PlayResult, run_in_real_time, run_in_virtual_time
from mooring.sim.worlds import PlaySettings


def _run(name: str, *, as_json: bool = False, level: int = VERBOSE) -> tuple[PlayResult, str]:
    lines: list[str] = []
    result = run_in_virtual_time(find(name), PlaySettings(level=level, as_json=as_json, write=lines.append))
    return result, "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", names())
def test_a_story_holds_and_prints_the_same_bytes_twice(name: str) -> None:
    result, first = _run(name)
    assert result.held, first
    assert result.expectations > 0
    assert _run(name)[1] == first


def test_another_process_with_another_hash_seed_prints_the_same_bytes() -> None:
    import os
    import subprocess
    import sys

    command = [sys.executable, "-m", "mooring", "scenario", "run", "--virtual-time", "-v", "zone-spread", "volumes"]
    outputs = [subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2")]
    assert outputs[0] == outputs[1] and b"as expected" in outputs[0]


def test_every_story_of_the_list_is_there() -> None:
    wanted = {"affinity", "extender", "gang", "label-appears", "node-failure", "permit-wait", "preemption",
              "resource-pressure", "taints", "volumes", "zone-spread"}  # fmt: skip
    assert names()[0] == FIRST and wanted <= set(names())


def test_narration_uses_virtual_time() -> None:
    result, text = _run("node-failure")
    assert 350 < result.seconds < 450
    assert "node.kubernetes.io/unreachable:NoExecute" in text


def test_the_first_story_in_real_time() -> None:
    lines: list[str] = []
    result = run_in_real_time(find(FIRST), PlaySettings(write=lines.append))
    assert result.held, "\n".join(lines)
    assert any("pod1 → node10" in line for line in lines)


def test_json_has_one_object_per_line() -> None:
    import json

    _, text = _run("preemption", as_json=True)
    notes = [json.loads(line) for line in text.splitlines()]
    decided = [note for note in notes if note["type"] == "decide"]
    assert {"ordinary-1", "cheap-2", "important"} == {note["pod"].partition("/")[2] for note in decided}
    refused = next(note for note in decided if note["outcome"] == "unschedulable")
    assert refused["victims"] == ["default/cheap-2"] and refused["nominatedNode"] == "node2"
    assert any(note["type"] == "wakes" and note["event"] for note in notes)
