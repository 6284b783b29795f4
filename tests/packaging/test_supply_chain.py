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


def _release(version: str, *vulnerabilities: dict) -> dict:
    return {"info": {"version": version}, "vulnerabilities": list(vulnerabilities)}


KNOWN = {"id": "PYSEC-1", "fixed_in": ["2.0", "1.9.1"], "withdrawn": None}


@pytest.mark.parametrize(
    ("pages", "want"),
    [
        pytest.param({"/pypi/a/1.9/json": _release("1.9")}, [], id="nothing is known"),
        pytest.param(
            {"/pypi/a/1.9/json": _release("1.9", KNOWN)},
            ["a 1.9 is pinned; PYSEC-1 is fixed in 2.0, 1.9.1"],
            id="something is known",
        ),
        pytest.param(
            {"/pypi/a/1.9/json": _release("1.9", {**KNOWN, "fixed_in": []})},
            ["a 1.9 is pinned; PYSEC-1 is fixed in no version yet"],
            id="something that nobody has fixed",
        ),
        pytest.param(
            {"/pypi/a/1.9/json": _release("1.9", {**KNOWN, "withdrawn": "2024-01-01"})}, [], id="a withdrawn advisory"
        ),
        pytest.param(
            {"/pypi/a/json": _release("1.9", KNOWN)},
            ["a 1.9 is pinned; PYSEC-1 is fixed in 2.0, 1.9.1"],
            id="only the newest release has a page and it is this one",
        ),
        pytest.param({"/pypi/a/json": _release("2.0")}, None, id="the page of another release proves nothing"),
        pytest.param({}, None, id="no page"),
    ],
)
def test_what_pypi_says_about_a_release(pages, want):
    audit = runpy.run_path(str(ROOT / "scripts" / "audit.py"))
    assert audit["vulnerabilities"]("a", "1.9", pages.get) == want


def test_what_pypi_is_silent_about_is_not_counted_as_good():
    audit = runpy.run_path(str(ROOT / "scripts" / "audit.py"))
    pages = {"/pypi/a/1/json": _release("1", KNOWN), "/pypi/b/json": _release("9")}
    asked, found, silent = audit["online"]([("a", "1"), ("b", "1")], pages.get)
    assert (asked, len(found), silent) == (["a 1"], 1, ["b 1"])


def test_the_audit_says_how_old_its_list_is():
    command = [sys.executable, str(ROOT / "scripts" / "audit.py")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    until = tomllib.loads((ROOT / "scripts" / "minimum_versions.toml").read_text())["until"]
    assert done.returncode == 0 and f"until {until}" in done.stdout
