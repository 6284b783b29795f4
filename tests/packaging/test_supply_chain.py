"""Pins, bill of materials and audit: the tools find everything that a container installs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = ROOT / "deploy" / "requirements.txt"
TOOLS = Path(sys.executable).parent


def pinned() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", PINS.read_text(), re.MULTILINE))


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that the container has."""
    lines = list(PROJECT["project"]["dependencies"])
    for extra in PROJECT["tool"]["pip-tools"]["extra"]:
        lines += PROJECT["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def needed() -> set[str]:
    """Every distribution that mooring needs here, with the extras that the container has."""
    todo = declared()
    found: set[str] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        inner = [Requirement(line) for line in metadata.requires(name) or ()]
        todo += [one for one in inner if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def test_every_dependency_is_pinned_and_nothing_else():
    try:
        assert pinned().keys() == needed()
    except metadata.PackageNotFoundError as missing:
        pytest.skip(f"{missing.name} is not installed")


def test_every_pin_is_allowed():
    pins = pinned()
    for requirement in declared():
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_every_pin_has_hashes_and_says_nothing_of_a_machine():
    """pip checks the files it installs against them; one line without a hash would make it refuse all."""
    text = PINS.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert [line.split()[0] for line in lines if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line)] == []
    assert not re.search(r"://|--index-url|--find-links|--trusted-host", text)


def test_the_container_installs_by_hash():
    assert "--require-hashes" in (ROOT / "deploy" / "Dockerfile").read_text()


# pip-audit in an environment where PyPI knows nothing of the packages, as behind a mirror or offline.
UNKNOWN_TO_PYPI = """
from pip_audit._service import PyPIService, SkippedDependency
PyPIService.query = lambda self, spec: (SkippedDependency(name=spec.name, skip_reason="not found on PyPI"), [])
from pip_audit._cli import audit
audit()
"""


def audit_arguments(file: str) -> list[str]:
    command = next(line for line in (ROOT / file).read_text().splitlines() if "/pip-audit" in line)
    return ["--progress-spinner=off", *command.split("/pip-audit")[1].strip('"').split()]


AUDITS = pytest.mark.parametrize("file", ["Makefile", "scripts/release"])


@AUDITS
def test_the_audit_looks_at_every_pin(file):
    """Without asking anybody: a dry run says how many it would ask about."""
    done = subprocess.run(
        [TOOLS / "pip-audit", "--dry-run", *audit_arguments(file)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"would have audited {len(pinned())} packages" in done.stderr


@AUDITS
def test_an_audit_that_learns_nothing_fails(file):
    """By default pip-audit passes over packages that it could not ask about, and finds no vulnerabilities."""
    done = subprocess.run(
        [sys.executable, "-c", UNKNOWN_TO_PYPI, *audit_arguments(file)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "not found on PyPI" in done.stderr


def test_the_bill_of_an_environment_lists_what_is_in_it(installed, tmp_path):
    """The environment of the wheel stands in for the one that ``scripts/release`` makes of the pins."""
    (site,) = (installed / "lib").glob("python3*/site-packages")
    there = {canonicalize_name(found.name): found.version for found in metadata.distributions(path=[str(site)])}
    command = next(line for line in (ROOT / "scripts" / "release").read_text().splitlines() if "/cyclonedx-py" in line)
    arguments = command.split('/cyclonedx-py" ')[1].split()[:-1]
    bills = []
    for name in ("first", "second"):
        arguments[arguments.index("-o") + 1] = str(tmp_path / name)
        subprocess.run(
            [TOOLS / "cyclonedx-py", *arguments, installed / "bin" / "python"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        bills.append((tmp_path / name).read_bytes())
    assert bills[0] == bills[1], "the same environment gives the same bytes"
    bill = json.loads(bills[0])
    assert bill["bomFormat"] == "CycloneDX"
    listed = {canonicalize_name(entry["name"]): entry["version"] for entry in bill["components"]}
    assert {**listed, "mooring": PROJECT["project"]["version"]} == there
    (root,) = [entry for entry in bill["dependencies"] if entry["ref"] == bill["metadata"]["component"]["bom-ref"]]
    assert {canonicalize_name(ref.split("==")[0]) for ref in root["dependsOn"]} == {
        canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]
    }
