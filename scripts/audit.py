"""Audits the dependencies: what is installed, what is pinned, and what pyproject.toml allows.

    python scripts/audit.py             without a network, by a list that is kept by hand
    python scripts/audit.py --online    ask PyPI about each pinned version, too

The list, scripts/minimum_versions.toml, knows the advisories up to the date in it. PyPI knows those of today; it is
asked for what it publishes about a release, which contains the vulnerabilities that are known of it.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("dra", "fast")
INDEX = "https://pypi.org"
Ask = Callable[[str], dict[str, Any] | None]


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


def minimum_versions() -> dict[str, Any]:
    """What is in the list: the day up to which it is complete, and an entry per package."""
    return tomllib.loads((ROOT / "scripts" / "minimum_versions.toml").read_text())


def problems() -> list[str]:
    """What is older than it should be, one line each."""
    sbom = runpy.run_path(str(ROOT / "scripts" / "sbom.py"))
    least = minimum_versions()
    found: list[str] = []
    for where, versions in (("installed", installed(sbom)), ("pinned", pinned()), ("allowed", allowed(sbom))):
        for name, version in versions:
            entry = least.get(name)
            if entry is not None and Version(version) < Version(entry["version"]):
                found.append(f"{name} {version} is {where}; {entry['version']} fixes {entry['fixes']}")
    return found


def ask(path: str) -> dict[str, Any] | None:
    """PyPI's JSON under ``path``, or None if there is none."""
    try:
        with urllib.request.urlopen(INDEX + path, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def vulnerabilities(name: str, version: str, ask: Ask) -> list[str] | None:
    """What PyPI knows about a release, one line each; None if it does not say.

    Some mirrors serve only the page of the newest release: it will do if that is the one.
    """
    found = ask(f"/pypi/{name}/{version}/json") or ask(f"/pypi/{name}/json")
    if found is None or found["info"]["version"] != version:
        return None
    return [
        f"{name} {version} is pinned; {entry['id']} is fixed in {', '.join(entry['fixed_in']) or 'no version yet'}"
        for entry in found.get("vulnerabilities") or ()
        if not entry.get("withdrawn")
    ]


def online(pins: Iterable[tuple[str, str]], ask: Ask) -> tuple[list[str], list[str], list[str]]:
    """Whom PyPI was asked about, what it said, and about whom it said nothing."""
    asked: list[str] = []
    found: list[str] = []
    silent: list[str] = []
    for name, version in pins:
        said = vulnerabilities(name, version, ask)
        (silent if said is None else asked).append(f"{name} {version}")
        found += said or ()
    return asked, found, silent


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--online", action="store_true", help="ask PyPI about each pinned version, too")
    arguments = parser.parse_args()
    try:
        found = problems()
    except metadata.PackageNotFoundError as error:
        print(f"audit: {error.name} is not installed; pip install -e '.[dev]'", file=sys.stderr)
        return 2
    if not found:
        print(
            f"no dependency is older than scripts/minimum_versions.toml asks for, "
            f"which knows advisories until {minimum_versions()['until']}"
        )
    if arguments.online:
        try:
            asked, said, silent = online(pinned(), ask)
        except (OSError, ValueError) as error:
            print(f"audit: {INDEX}: {error}", file=sys.stderr)
            return 2
        found += said
        print(f"PyPI was asked about {len(asked)} pinned versions and knows {len(said)} vulnerabilities of them")
        if silent:
            print(f"PyPI says nothing about {', '.join(silent)}")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
