"""Audits the dependencies without a network: what is installed, what is pinned, and what pyproject.toml allows.

    python scripts/audit.py

Each version is compared with scripts/minimum_versions.toml, a list that is kept by hand. Where the advisory databases
can be reached, ask them, too: pip-audit -r deploy/requirements.txt
"""

from __future__ import annotations

import runpy
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("dra", "fast")


def installed(sbom: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sbom["closure"]("mooring", EXTRAS):
        yield name, metadata.version(name)


def pinned() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "deploy" / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            yield name, version


def allowed(sbom: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The lowest version that pyproject.toml lets in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    for line in lines:
        requirement = Requirement(line)
        lowest = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
        yield sbom["canonical"](requirement.name), lowest[0] if lowest else "0"


def problems() -> list[str]:
    """What is older than it should be, one line each."""
    sbom = runpy.run_path(str(ROOT / "scripts" / "sbom.py"))
    least = tomllib.loads((ROOT / "scripts" / "minimum_versions.toml").read_text())
    found: list[str] = []
    for where, versions in (("installed", installed(sbom)), ("pinned", pinned()), ("allowed", allowed(sbom))):
        for name, version in versions:
            entry = least.get(name)
            if entry is not None and Version(version) < Version(entry["version"]):
                found.append(f"{name} {version} is {where}; {entry['version']} fixes {entry['fixes']}")
    return found


def main() -> int:
    try:
        found = problems()
    except metadata.PackageNotFoundError as error:
        print(f"audit: {error.name} is not installed; pip install -e '.[dev]'", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    if not found:
        print("no dependency is older than scripts/minimum_versions.toml asks for")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
