"""Everything that is said to be public can be imported."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import mooring

ROOT = Path(mooring.__file__).parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(ROOT)], "mooring.")
    if not module.name.endswith(".__main__") and ".learn." not in module.name
)
OPTIONAL = ("uvloop", "openenv")  # extras: a module may need one of these, and only these
DOCUMENTED = (
    "mooring.sdk",
    "mooring.testing",
    "mooring.api.errors",
    "mooring.api.clock",
    "mooring.api.codec",
    "mooring.api.quantity",
    "mooring.core.config.load",
    "mooring.core.session",
    "mooring.core.engine.decision",
    "mooring.core.framework.interfaces",
    "mooring.core.framework.status",
    "mooring.sim.replay",
    "mooring.core.state.cluster",
)


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_and_has_what_it_names(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if error.name and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"{name} needs the optional {error.name}")
        raise
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_modules_are_there(name: str) -> None:
    assert name in MODULES
    assert (importlib.import_module(name).__doc__ or "").strip()


@pytest.mark.parametrize("name", ["mooring", "mooring.sdk", "mooring.testing"])
def test_curated_lists_are_sorted_and_say_each_name_once(name: str) -> None:
    names = list(importlib.import_module(name).__all__)
    assert len(names) == len(set(names))
    assert names == sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n)), "as ruff sorts them"


def test_testing_names_every_public_function_and_class_it_defines() -> None:
    tree = ast.parse((ROOT / "testing.py").read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    public = {name for name in defined if not name.startswith("_")}
    assert public <= set(importlib.import_module("mooring.testing").__all__)


def test_every_module_says_what_it_is_for() -> None:
    silent = []
    for path in ROOT.rglob("*.py"):
        if "learn" in path.parts or path.name == "__main__.py":
            continue
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))):
            silent.append(str(path.relative_to(ROOT)))
    assert not silent
