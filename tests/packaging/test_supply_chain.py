"""The bill of materials and the audit say what is true of this installation."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sbom() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "sbom.py"))


def test_the_bill_lists_every_dependency_once_with_its_installed_version(sbom):
    made = sbom["sbom"]()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    named = {entry["name"]: entry["version"] for entry in made["components"]}
    assert len(named) == len(made["components"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["dependencies"]:
        name = sbom["canonical"](line.split(">")[0])
        assert named[name] == metadata.version(name)


def test_extras_are_listed_only_when_asked_for(sbom):
    pytest.importorskip("uvloop")
    names = [{entry["name"] for entry in sbom["sbom"](extras)["components"]} for extras in ((), ("fast",))]
    assert names[1] - names[0] == {"uvloop"}


def test_the_dependencies_form_a_closed_graph(sbom):
    made = sbom["sbom"]()
    known = {entry["bom-ref"] for entry in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {entry["ref"] for entry in made["dependencies"]} == known
    assert {ref for entry in made["dependencies"] for ref in entry["dependsOn"]} <= known


def test_the_same_installation_gives_the_same_bytes():
    command = [sys.executable, str(ROOT / "scripts" / "sbom.py")]
    first, second = (subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2))
    assert first == second
    assert json.loads(first)["serialNumber"].startswith("urn:uuid:")


def test_nothing_that_is_installed_pinned_or_allowed_is_too_old():
    assert runpy.run_path(str(ROOT / "scripts" / "audit.py"))["problems"]() == []


def test_something_too_old_is_noticed(tmp_path, monkeypatch):
    audit = runpy.run_path(str(ROOT / "scripts" / "audit.py"))
    for folder in ("scripts", "deploy"):
        (tmp_path / folder).mkdir()
    for name in ("scripts/sbom.py", "scripts/minimum_versions.toml", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "deploy" / "requirements.txt").write_text("idna==3.6\n")
    monkeypatch.setitem(audit["problems"].__globals__, "ROOT", tmp_path)
    assert audit["problems"]() == ["idna 3.6 is pinned; 3.7 fixes CVE-2024-3651 (quadratic time)"]
