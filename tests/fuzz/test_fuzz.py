"""A little of what ``scripts/fuzz`` does at length, and everything it ever found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .targets import TARGETS, check

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_corpus_is_answered(path):
    check(TARGETS[path.parent.name], path.read_bytes())


def test_every_target_has_a_corpus():
    assert {path.parent.name for path in FILES} == TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(data=st.data())
def test_anything_is_answered(name, data):
    target = TARGETS[name]
    check(target, data.draw(target.strategy))


def test_the_command_runs_and_names_what_it_does_not_know():
    command = [sys.executable, str(ROOT / "scripts" / "fuzz")]
    done = subprocess.run([*command, "--seconds", "0.2", "quantity"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("quantity")
    wrong = subprocess.run([*command, "quantities"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr == f"fuzz: no target quantities; there are {', '.join(sorted(TARGETS))}\n"
