"""CONTRIBUTING.md is true: its layers are import-linter's, its recipes name what exists; decisions are numbered."""

from __future__ import annotations

import re
import tomllib

import pytest

from .texts import REPOSITORY

PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
DECISIONS = sorted((REPOSITORY / "decisions").glob("*.md"))


def contracts() -> list[dict[str, object]]:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, object]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def test_the_layers_are_those_of_import_linter() -> None:
    table = PAGE[PAGE.index("| row | packages |") : PAGE.index("In `core` and `api` nothing")]
    rows = [re.findall(r"`(\w+)`", line.split("|")[2]) for line in table.strip().splitlines()[2:]]
    layers = next(contract["layers"] for contract in contracts() if str(contract["name"]).startswith("Layers"))
    assert isinstance(layers, list)
    assert rows == [[name.strip(" ()").removeprefix("mooring.") for name in row.split("|")] for row in layers]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:src|tests|scripts|docs|examples)/[\w./-]+)`", PAGE))))
def test_a_file_that_a_recipe_names_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/mooring/core/engine/in_tree.py", "IN_TREE"),
        ("src/mooring/core/engine/in_tree.py", "OPTIONAL"),
        ("src/mooring/core/config/profile.py", "IN_TREE_POINTS"),
        ("src/mooring/core/config/types.py", "ARGS_TYPES"),
        ("src/mooring/cli/main.py", "COMMANDS"),
        ("src/mooring/core/engine/derived.py", "class Derived"),
        ("src/mooring/core/engine/derived.py", "class Kept"),
        ("src/mooring/core/engine/derived.py", "def settle"),
        ("src/mooring/core/engine/cycle.py", "uses_cache"),
        ("src/mooring/controlplane/registry/catalog.py", "GROUPS"),
        ("src/mooring/live/metrics.py", "class SchedulerMetrics"),
        ("src/mooring/live/meters.py", "class Meters"),
        ("src/mooring/live/observer.py", "class SchedulerObserver"),
    ],
)
def test_a_name_in_a_recipe_is_in_its_file(path: str, name: str) -> None:
    assert name in (REPOSITORY / path).read_text(encoding="utf-8")
    assert name.rpartition(" ")[2] in PAGE


@pytest.mark.parametrize(
    "recipe",
    ["A plugin of kube-scheduler", "A command", "A story", "A derived column", "An API kind", "A metric", "A page"],
)
def test_there_is_a_recipe(recipe: str) -> None:
    assert f"\n## {recipe}" in PAGE


# ---- decisions ---------------------------------------------------------------------------------------------------


def test_every_decision_has_its_own_number() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert len(numbers) == len(set(numbers)), f"{[n for n in numbers if numbers.count(n) > 1]}: take the next free one"


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_number_and_its_parts(path) -> None:
    text = path.read_text(encoding="utf-8")
    number = re.match(r"# 0*(\d+)[.:] \S", text)
    assert number and int(number[1]) == int(path.name[:4])
    headings = re.findall(r"^## (.+)", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences", "What would change our mind"]
    assert len(text.split()) <= 450, "a decision is one page"
