"""The packages, built once for all tests of a process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Packages:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory) -> Packages:
    pytest.importorskip("hatchling", reason="the build backend comes with the extra [dev]")
    out = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Packages(wheel, sdist)


@pytest.fixture(scope="session")
def installed(packages, tmp_path_factory) -> Path:
    """An environment with the wheel and its runtime dependencies; skipped where the package index is out of reach."""
    where = tmp_path_factory.mktemp("empty")
    python = where / "bin" / "python"
    uv = shutil.which("uv")
    if uv:
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(where)],
            [uv, "pip", "install", "--quiet", "--python", str(python), str(packages.wheel)],
        ]
    else:
        steps = [
            [sys.executable, "-m", "venv", "--without-pip", str(where)],
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                str(python),
                "install",
                "-q",
                "--no-compile",
                str(packages.wheel),
            ],
        ]
    for step in steps:
        done = subprocess.run(step, check=False, capture_output=True, text=True, cwd=where)
        if done.returncode and _is_out_of_reach(done.stderr):
            pytest.skip("the package index is out of reach")
        assert done.returncode == 0, done.stderr
    return where


def _is_out_of_reach(stderr: str) -> bool:
    signs = ("NewConnectionError", "Temporary failure in name resolution", "Failed to fetch", "from versions: none")
    return any(sign in stderr for sign in signs)
