"""Plugins from files, modules and entry points; what is wrong with them is one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mooring.api.errors import PluginError
from mooring.core.config.plugin_loading import GROUP, load_installed, load_plugins
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.registry import Registry

GOOD = """
from __future__ import annotations
from mooring import sdk

class Quiet(sdk.NodeFilter):
    name = "Quiet"
    def filter(self, state, pod, node):
        return sdk.SUCCESS

class Loud(sdk.NodeScore):
    name = "Loud"
    def score(self, state, pod, node):
        return 1

class _Helper:
    name = "not a plugin"
"""


@pytest.fixture
def registry() -> Registry:
    return in_tree_registry()


def written(tmp_path: Path, text: str, name: str = "mine.py") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_a_file_brings_all_its_plugins(tmp_path: Path, registry: Registry) -> None:
    assert load_plugins([written(tmp_path, GOOD)], registry) == ["Quiet", "Loud"]
    assert registry.points()["Quiet"] == {"filter"}


def test_one_class_of_a_file(tmp_path: Path, registry: Registry) -> None:
    assert load_plugins([written(tmp_path, GOOD) + ":Loud"], registry) == ["Loud"]
    assert "Quiet" not in registry


def test_a_file_twice_is_fine(tmp_path: Path, registry: Registry) -> None:
    path = written(tmp_path, GOOD)
    assert load_plugins([path, path + ":Quiet"], registry) == ["Quiet", "Loud", "Quiet"]


def test_a_class_of_a_module(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD, "mooring_test_plugins.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_plugins(["mooring_test_plugins:Quiet"], registry) == ["Quiet"]
    del sys.modules["mooring_test_plugins"]


@pytest.mark.parametrize(
    ("text", "suffix", "line"),
    [
        pytest.param("class A(:\n  pass", "", "mine.py, line 1: invalid syntax", id="a syntax error"),
        pytest.param("import nothing_of_that_name", "", "mine.py, line 1: ModuleNotFoundError", id="a missing module"),
        pytest.param("x = 1\n\n1 / 0", "", "mine.py, line 3: ZeroDivisionError: division by zero", id="a failure"),
        pytest.param("x = 1", "", "no plugin in this file", id="nothing in it"),
        pytest.param(
            'class Rack:\n  name = "rack"\n  size = 3\n  def grow(self): ...',
            "",
            "no plugin in this file",
            id="a class with a name that is no plugin",
        ),
        pytest.param(
            'class Mine:\n  name = "Mine"\n  def __init__(self, args, handle): ...\n  def fliter(self, s, p, n): ...',
            "",
            "Mine: has fliter, which is never read; did you mean filter?",
            id="the only method of the only class is misspelt",
        ),
        pytest.param(GOOD, ":Quite", "no class Quite; did you mean Quiet?", id="a class that is not there"),
        pytest.param(GOOD, ":sdk", "sdk is not a class", id="not a class"),
        pytest.param(
            GOOD.replace('name = "Quiet"', 'name = "NodeName"'),
            "",
            "the name 'NodeName' is taken by NodeName; choose another",
            id="a name that is taken",
        ),
        pytest.param(
            GOOD.replace("def filter(self, state, pod, node)", "def filter(self, pod, node)"),
            "",
            "filter(self, pod, node) cannot be called; expected def filter(self, state, pod, node)",
            id="a wrong signature",
        ),
        pytest.param(
            GOOD.replace("def filter", "def fliter"),
            "",
            "Quiet: has fliter, which is never read; did you mean filter?",
            id="a method that is missing",
        ),
        pytest.param(
            GOOD.replace("    def filter", "    def __init__(self): pass\n    def filter"),
            "",
            "Quiet: is made with (args, handle); expected def __init__(self, args, handle)",
            id="a constructor that takes nothing",
        ),
        pytest.param(
            GOOD.replace('name = "Quiet"', 'name = "Quiet"\n    args = dict'),
            "",
            "Quiet: args is <class 'dict'>; expected the type of its arguments, a msgspec.Struct",
            id="arguments that are no struct",
        ),
        pytest.param(
            "class A:\n  def __init__(self, args, handle): ...\n  def filter(self, s, p, n): ...",
            ":A",
            "mine.py:A: A: has no name",
            id="no name",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, registry: Registry, text: str, suffix: str, line: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_plugins([written(tmp_path, text) + suffix], registry)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "line"),
    [
        pytest.param("gone.py", "plugin gone.py: there is no file gone.py", id="no file"),
        pytest.param("gone.module:A", "there is no module gone; is it installed?", id="no module"),
        pytest.param("mooring.sdk:NodeFliter", "no class NodeFliter; did you mean NodeFilter?", id="no class"),
        pytest.param(":A", "expected module:Class, file.py, file.py:Class or an entry point", id="no module at all"),
        pytest.param("Nothing", "no entry point of that name in the group mooring.plugins", id="no entry point"),
    ],
)
def test_a_reference_to_nothing(registry: Registry, reference: str, line: str) -> None:
    with pytest.raises(PluginError, match="plugin") as caught:
        load_plugins([reference], registry)
    assert line in str(caught.value)


def test_installed_plugins_are_found_by_entry_point(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, GOOD, "mooring_test_installed.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = "Quiet = mooring_test_installed:Quiet\nBroken = mooring_test_installed:Gone\n"
    package = tmp_path / "installed-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    (problem,) = load_installed(registry)
    assert "Quiet" in registry
    assert problem.startswith("plugin Broken (mooring_test_installed:Gone): mooring_test_installed: AttributeError")
    assert load_plugins(["Quiet"], registry) == ["Quiet"]
    with pytest.raises(PluginError, match="did you mean Quiet"):
        load_plugins(["Qiet"], registry)
    del sys.modules["mooring_test_installed"]


def test_what_is_installed_meanwhile_is_found(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    load_installed(registry)
    assert "Quiet" not in registry
    written(tmp_path, GOOD, "mooring_test_meanwhile.py")
    load_installed(registry)
    assert "Quiet" not in registry, "a module alone is no package"
    package = tmp_path / "quiet-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[mooring.plugins]\nQuiet = mooring_test_meanwhile:Quiet\n")
    os.utime(tmp_path)  # where the file system's clock is coarse
    load_installed(registry)
    assert "Quiet" in registry
    del sys.modules["mooring_test_meanwhile"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(
            "traits = sdk.Traits(filter_read=sdk.Reads.NODE)",
            "mine.py, line 7: Traits has no filter_read; did you mean filter_reads?",
            id="a trait that there is not",
        ),
        pytest.param(
            "filter_reads = sdk.Reads.NODE",
            "Quiet: declares filter_reads, which is no longer read; write traits = Traits(filter_reads=Reads.…)",
            id="a former declaration",
        ),
        pytest.param("trait = None", "Quiet: has trait, which is never read; did you mean traits?", id="a misspelling"),
    ],
)
def test_a_wrong_declaration_is_one_line(tmp_path: Path, registry: Registry, line: str, message: str) -> None:
    text = GOOD.replace('name = "Quiet"', f'name = "Quiet"\n    {line}')
    with pytest.raises(PluginError) as caught:
        load_plugins([written(tmp_path, text)], registry)
    assert message in str(caught.value) and "\n" not in str(caught.value)
