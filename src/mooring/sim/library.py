"""Lookup of scenarios: by the name of an included one, or by the path of a Python or YAML file."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from mooring.api.errors import InputError, MooringError, UsageError
from mooring.api.text import hint
from mooring.core.config.versions import DEFAULT_VERSION
from mooring.record.files import names_a_record
from mooring.sim.imports.story import story_of_files
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import load_scenario_file

FOLDER = Path(__file__).parent / "scenarios"
FIRST = "first-placement"
IMPORTED = (".csv", ".json", ".jsonl", ".msgpack", ".sktrace")  # files of other tools

_EXPECTED = (
    "not a story; expected a scenario (.yaml or .py), a record of mooring, or a file that another tool has written"
)

# Manifests, or the lists of an export of kube-scheduler-simulator: a story has no such field at the top.
_MANIFEST = re.compile(rb"^(?:(?:- )?[\"']?apiVersion[\"']?:|(?:nodes|pods): *(?:\[\]|null)?\r?$)", re.MULTILINE)


def names() -> list[str]:
    """Return the names of the included stories, the introductory one first."""
    found = {_name(path) for path in _files()}
    return sorted(found, key=lambda name: (name != FIRST, name))


def built_in() -> list[Scenario]:
    return [find(name) for name in names()]


def find(text: str, given: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario of this name or in this file. ``given`` sets its parameters."""
    if names_a_record(text):
        return _imported(text, given)
    path = Path(text)
    if path.suffix in (".py", ".yaml", ".yml", *IMPORTED) or "/" in text or path.is_dir():
        return load(path, given)
    for file in _files():
        if _name(file) == text:
            return load(file, given)
    if path.exists():
        raise InputError(f"{path}: {_EXPECTED}")
    raise InputError(f"no scenario {text!r}; {hint(text, names())}")


def load(path: Path, given: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario from a file."""
    if path.suffix in IMPORTED or path.is_dir() or _has_manifests(path):
        return _imported(str(path), given)
    if path.suffix in (".yaml", ".yml"):
        scenario = load_scenario_file(path, given)
        return scenario if path.parent != FOLDER else replace(scenario, name=_name(path))
    if path.suffix != ".py":
        raise InputError(f"{path}: {_EXPECTED}")
    _refuse_parameters(str(path), "a story in Python", given)
    return from_module(_import(path), _name(path), str(path))


def _has_manifests(path: Path) -> bool:
    """Report whether a file has manifests, or an export of another tool."""
    try:
        return path.suffix in (".yaml", ".yml") and _MANIFEST.search(path.read_bytes()) is not None
    except OSError:  # reported by the reader
        return False


def _imported(name: str, given: Mapping[str, Any] | None) -> Scenario:
    _refuse_parameters(name, "a file that is imported", given)
    return story_of_files([name])


def _refuse_parameters(name: str, what: str, given: Mapping[str, Any] | None) -> None:
    if given:
        raise UsageError(f"{name}: {what} has no parameters; found {', '.join(given)}")


def from_module(module: ModuleType, name: str, source: str) -> Scenario:
    """Make a scenario of a module with ``async def scenario(cluster)``; CONFIG, PLUGINS, EXTENDERS and TITLE are
    optional.

    So are KUBERNETES_VERSION and FEATURE_GATES.
    """
    play: Any = getattr(module, "scenario", None)
    if not inspect.iscoroutinefunction(play):
        raise InputError(f"{source}: no scenario in it; expected a function async def scenario(cluster)")
    doc = inspect.getdoc(module) or inspect.getdoc(play) or name
    title = str(getattr(module, "TITLE", "") or doc.strip().splitlines()[0])
    return Scenario(
        name,
        title,
        play,
        getattr(module, "CONFIG", None),
        tuple(getattr(module, "PLUGINS", ())),
        extenders=tuple(getattr(module, "EXTENDERS", ())),
        source=source,
        kubernetes_version=getattr(module, "KUBERNETES_VERSION", str(DEFAULT_VERSION)),
        feature_gates=getattr(module, "FEATURE_GATES", {}),
    )


def _import(path: Path) -> ModuleType:
    if path.parent == FOLDER:
        return importlib.import_module(f"mooring.sim.scenarios.{path.stem}")
    if not path.is_file():
        raise InputError(f"{path}: No such file or directory")
    name = f"_mooring_scenario_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except MooringError:
        raise
    except Exception as error:
        raise InputError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from None
    return module


def _files() -> list[Path]:
    return sorted(
        path for path in FOLDER.iterdir() if path.suffix in (".py", ".yaml") and not path.stem.startswith("_")
    )


def _name(path: Path) -> str:
    return path.stem.replace("_", "-")
