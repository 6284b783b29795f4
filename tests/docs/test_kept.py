"""The page that lists what is kept between decisions names everything, and its numbers are the code's."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from .texts import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture" / "kept.md").read_text(encoding="utf-8")
SOURCE = REPOSITORY / "src" / "mooring" / "core"
ROOMS = ("state", "framework", "engine", "plugins")
PATHS = [path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py")) if path.stem[0] != "_"]
KEEPS = re.compile(r"\.kept\[|\.cursor\(\)|\(Derived\)|Kept\(|@lru_cache|Weak(?:Key|Value)Dictionary\(|OrderedDict\(")
BOUND = re.compile(r"^(_?MAX_[A-Z_]+) *=", re.MULTILINE)
NOT_ABOUT_KEEPING = {
    "MAX_NODE_SCORE", "MAX_COUNTED", "MAX_CONTAINER_THRESHOLD", "MAX_BLOCKERS", "MAX_EXTRA_SKEW", "MAX_CHARACTERS",
    "_MAX_GROWTH", "MAX_MEMOS", "MAX_FAILURES", "MAX_GPUS",
}  # fmt: skip


def found_in(stem: str, name: str) -> list[object]:
    """What modules of this file name call this; files in different folders may have the same name."""
    paths = [path.relative_to(REPOSITORY / "src").with_suffix("") for path in PATHS if path.stem == stem]
    modules = [importlib.import_module(".".join(path.parts)) for path in paths]
    return [getattr(module, name) for module in modules if hasattr(module, name)]


NUMBERS = re.findall(r"(\d[\d.,]*)( MiB)?[^\d()|`;]*\(`(\w+)\.(\w+)`\)", PAGE)


@pytest.mark.parametrize(
    ("number", "unit", "where", "name"), [pytest.param(*found, id=f"{found[2]}.{found[3]}") for found in NUMBERS]
)
def test_a_number_equals_its_constant(number: str, unit: str, where: str, name: str) -> None:
    wanted = float(number.replace(",", "")) * (1 << 20 if unit else 1)
    assert wanted in found_in(where, name)


def test_every_constant_has_its_number() -> None:
    assert {f"{found[2]}.{found[3]}" for found in NUMBERS} == set(re.findall(r"\(`(\w+\.\w+)`\)", PAGE))


def test_every_class_on_the_page_exists() -> None:
    named = re.findall(r"`(\w+)\.([A-Z][a-z]\w+)`", PAGE)
    assert len(named) > 20
    assert [f"{where}.{name}" for where, name in named if not found_in(where, name)] == []


@pytest.mark.parametrize("name", sorted({path.stem for path in PATHS if KEEPS.search(path.read_text("utf-8"))}))
def test_a_module_that_keeps_something_is_named(name: str) -> None:
    assert f"`{name}" in PAGE


def test_every_bound_is_on_the_page() -> None:
    bounds = {(path.stem, bound) for path in PATHS for bound in BOUND.findall(path.read_text("utf-8"))}
    assert {(name, bound) for name, bound in bounds if bound not in NOT_ABOUT_KEEPING and bound not in PAGE} == set()


def test_the_code_leads_to_the_page() -> None:
    assert "docs/architecture/kept.md" in (SOURCE / "engine" / "derived.py").read_text(encoding="utf-8")
    assert Path(REPOSITORY / "docs" / "architecture" / "kept.md").is_file()
