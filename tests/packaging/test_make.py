"""The first ``make start``: it says what it does, and heals what an interruption left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for Python, for the Python of the environment and for mooring: it writes down what it is asked, and an
# interruption is the file whose name is the step at which it comes.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv --clear "*)
    echo "venv" >> {log}
    rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"
    if [ -e {folder}/interrupt-venv ]; then rm {folder}/interrupt-venv; exit 130; fi
    touch "$4/pip" ;;
  "-m pip --version") [ -e "$(dirname "$0")/../pip" ] ;;
  "-m pip install "*)
    echo "pip $(echo "$*" | grep -o '[.]\\[.*')" >> {log}
    if [ -e {folder}/interrupt-pip ]; then rm {folder}/interrupt-pip; exit 130; fi
    printf '#!/bin/sh\\necho "mooring $*" >> {log}\\n' > "$(dirname "$0")/mooring"
    chmod +x "$(dirname "$0")/mooring"
    if [ -e {folder}/interrupt-mooring ]; then
      rm {folder}/interrupt-mooring; echo "exit 1" >> "$(dirname "$0")/mooring"
    fi ;;
  "-c import sys; sys.exit(sys.version_info"*) [ ! -e {folder}/is-old ] ;;
  "--version") echo "Python 3.9.2" ;;
  *) exit 9 ;;
esac
"""


class Clone:
    """A fresh clone whose Python only pretends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._log = folder, folder / "log"
        (folder / "scripts").mkdir()
        for name in ("Makefile", "pyproject.toml", "scripts/install"):
            shutil.copy(ROOT / name, folder / name)
        python = folder / "fake-python"
        python.write_text(PYTHON.format(folder=folder, log=self._log))
        python.chmod(0o755)

    def make(self, target: str = "start") -> subprocess.CompletedProcess[str]:
        """Run make, without uv."""
        path = ":".join(f for f in os.environ["PATH"].split(":") if not (Path(f) / "uv").exists())
        command = ["make", "--no-print-directory", target, f"PYTHON={self.folder}/fake-python"]
        environ = {"PATH": path, "HOME": str(self.folder)}
        return subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True, env=environ)

    def interrupt(self, step: str) -> None:
        (self.folder / f"interrupt-{step}").touch()

    def asked(self) -> list[str]:
        """What was asked since the last look."""
        lines = self._log.read_text().splitlines()
        self._log.write_text("")
        return lines


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    return Clone(tmp_path)


def test_the_first_start_says_that_it_takes_a_while_and_the_second_does_not_install(clone: Clone) -> None:
    first = clone.make()
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines() == ["Installing into .venv (about 30 s, once)…"]
    assert clone.asked() == ["venv", "pip .[fast]", "mooring --version", "mooring start"]
    second = clone.make()
    assert (second.returncode, second.stdout) == (0, "")
    assert clone.asked() == ["mooring start"]


@pytest.mark.parametrize(
    ("step", "then"),
    [
        pytest.param("venv", ["venv", "pip .[fast]"], id="while the environment is made: it has no pip yet"),
        pytest.param("pip", ["pip .[fast]"], id="while packages are installed"),
    ],
)
def test_an_interrupted_start_heals_itself(clone: Clone, step: str, then: list[str]) -> None:
    clone.interrupt(step)
    assert clone.make().returncode != 0
    clone.asked()
    again = clone.make()
    assert again.returncode == 0, again.stderr
    assert clone.asked() == [*then, "mooring --version", "mooring start"]


def test_an_installation_that_does_not_start_is_one_clear_line(clone: Clone) -> None:
    clone.interrupt("mooring")
    broken = clone.make()
    assert broken.returncode != 0
    assert broken.stderr.splitlines()[0] == (
        "scripts/install: .venv has mooring, but it does not start; remove .venv and try again"
    )
    assert clone.make().returncode == 0, "the next start installs again"


def test_what_the_tests_need_is_enough_to_start(clone: Clone) -> None:
    assert clone.make(".venv/.installed").returncode == 0
    assert clone.asked() == ["venv", "pip .[dev]", "mooring --version"]
    assert clone.make().returncode == 0
    assert clone.asked() == ["mooring start"]


def test_an_old_python_is_one_clear_line(clone: Clone) -> None:
    (clone.folder / "is-old").touch()
    old = clone.make()
    assert old.returncode != 0
    assert old.stdout == ""
    assert old.stderr.splitlines()[0] == (
        f"mooring needs Python 3.11 or newer; {clone.folder}/fake-python is Python 3.9.2. "
        "Name another one: make start PYTHON=python3.12"
    )
