"""The container file, read as Docker reads it: pinned, without privileges, checked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    word: str
    rest: str


def _instructions() -> list[Instruction]:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines()]


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    return _instructions()


@pytest.fixture(scope="module")
def last_stage(instructions) -> list[Instruction]:
    start = max(i for i, instruction in enumerate(instructions) if instruction.word == "FROM")
    return instructions[start:]


def test_it_has_only_instructions_that_docker_knows(instructions):
    known = {"FROM", "RUN", "COPY", "ENV", "LABEL", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {instruction.word for instruction in instructions} <= known


def test_every_base_is_pinned_to_a_patch_version(instructions):
    bases = [instruction.rest.split()[0] for instruction in instructions if instruction.word == "FROM"]
    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base), base


def test_plugins_are_installed_with_the_python_that_runs_them(instructions):
    """A package with compiled parts works with the Python it was installed for."""
    bases = {instruction.rest.split()[0] for instruction in instructions if instruction.word == "FROM"}
    page = (ROOT / "docs" / "run" / "container.md").read_text()
    assert set(re.findall(r"^FROM (python:\S+)", page, re.MULTILINE)) == bases and len(bases) == 1


def test_no_tool_that_installs_is_left(instructions, last_stage):
    made = [instruction.rest for instruction in instructions if "venv" in instruction.rest]
    assert made and all("--without-pip" in command for command in made)
    assert any("pip uninstall --yes" in instruction.rest for instruction in last_stage)


def test_it_does_not_run_as_root(last_stage):
    (user,) = [instruction.rest for instruction in last_stage if instruction.word == "USER"]
    assert user == "65532:65532"


def test_what_is_started_is_the_command_and_needs_no_shell(last_stage):
    forms = {i.word: json.loads(i.rest) for i in last_stage if i.word in ("ENTRYPOINT", "CMD")}
    assert forms == {"ENTRYPOINT": ["mooring"], "CMD": ["run"]}


def test_its_health_is_checked_with_valid_python(last_stage):
    (check,) = [instruction.rest for instruction in last_stage if instruction.word == "HEALTHCHECK"]
    command = json.loads(check[check.index("CMD ") + 4 :])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "healthcheck", "exec")
    assert "/livez" in command[2]


def test_what_is_copied_is_there_and_not_ignored(instructions):
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for instruction in instructions:
        if instruction.word != "COPY" or "--from" in instruction.rest:
            continue
        for source in instruction.rest.split()[:-1]:
            assert (ROOT / source).exists()
            assert source in kept
