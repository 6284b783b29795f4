"""The stories that come with mooring, in virtual time: all hold, and each is the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import InputError
from mooring.sim.library import FIRST, find, names
from mooring.sim.narration import VERBOSE
from mooring.sim.runner import Result, Settings, run_in_real_time, run_in_virtual_time


def _run(name: str, *, as_json: bool = False, level: int = VERBOSE) -> tuple[Result, str]:
    lines: list[str] = []
    result = run_in_virtual_time(find(name), Settings(level=level, as_json=as_json, write=lines.append))
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
    outputs = [
        subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=100) for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and b"as expected" in outputs[0]


def test_every_story_of_the_list_is_there() -> None:
    wanted = {"affinity", "extender", "gang", "label-appears", "node-failure", "permit-wait", "preemption",
              "resource-pressure", "taints", "volumes", "zone-spread"}  # fmt: skip
    assert names()[0] == FIRST and wanted <= set(names())


def test_minutes_are_told_in_virtual_time() -> None:
    result, text = _run("node-failure")
    assert 350 < result.seconds < 450
    assert "node.kubernetes.io/unreachable:NoExecute" in text


def test_the_first_story_in_real_time() -> None:
    lines: list[str] = []
    result = run_in_real_time(find(FIRST), Settings(write=lines.append))
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


@pytest.mark.parametrize(("text", "says"), [
    pytest.param("first-placment", "did you mean 'first-placement'", id="a slip of the pen"),
    pytest.param("nothing-like-it", "there are first-placement", id="an unknown name"),
    pytest.param("missing/story.py", "No such file", id="a file that is not there"),
    pytest.param("story.txt/", "a scenario is a .py or a .yaml file", id="another kind of file"),
])  # fmt: skip
def test_what_cannot_be_found(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        find(text)


def test_a_python_file_without_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "story.py"
    path.write_text("def scenario(cluster): pass\n")
    with pytest.raises(InputError, match="async def scenario"):
        find(str(path))
    path.write_text("1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        find(str(path))
