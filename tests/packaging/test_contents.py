"""The wheel and the sdist hold what they must, and nothing of anybody's machine."""

from __future__ import annotations

import email
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mooring"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _shipped_sources() -> set[str]:
    return {
        f"mooring/{path.relative_to(SOURCE)}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_source_and_data_file(packages):
    with zipfile.ZipFile(packages.wheel) as wheel:
        names = set(wheel.namelist())
    assert _shipped_sources() - names == set()
    assert "mooring/py.typed" in names


def test_the_wheel_holds_nothing_but_the_package_and_its_metadata(packages):
    with zipfile.ZipFile(packages.wheel) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"mooring", f"mooring-{PROJECT['version']}.dist-info"}


def test_the_wheel_says_what_it_is(packages):
    with zipfile.ZipFile(packages.wheel) as wheel:
        folder = f"mooring-{PROJECT['version']}.dist-info"
        metadata = email.message_from_bytes(wheel.read(f"{folder}/METADATA"))
        entry_points = wheel.read(f"{folder}/entry_points.txt").decode()
    assert metadata["Name"] == "mooring"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert "mooring = mooring.cli.entry:main" in entry_points
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(needed) == sorted(PROJECT["dependencies"])


@pytest.mark.parametrize(
    "path",
    [
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "SECURITY.md",
        "Makefile",
        "mkdocs.yml",
        "deploy/Dockerfile",
        "deploy/base/kustomization.yaml",
        "docs/index.md",
        "scripts/release",
        "src/mooring/py.typed",
        "tests/conftest.py",
    ],
)
def test_the_sdist_can_build_test_and_deploy(packages, path):
    with tarfile.open(packages.sdist) as sdist:
        names = set(sdist.getnames())
    assert f"mooring-{PROJECT['version']}/{path}" in names


def test_the_sdist_holds_no_leftovers(packages):
    with tarfile.open(packages.sdist) as sdist:
        unwanted = [name for name in sdist.getnames() if name.endswith((".pyc", ".so")) or "/.venv/" in name]
    assert unwanted == []
