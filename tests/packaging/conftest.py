"""The packages, built once for all tests of a process."""

from __future__ import annotations

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
