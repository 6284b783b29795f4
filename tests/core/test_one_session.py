"""One place makes engines, handles and profiles, and one rule counts pods in. The exceptions are named here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mooring

SOURCE = Path(mooring.__file__).parent

MAKERS = {"Engine", "Handle", "Profile"}
MAY_MAKE = {
    "core/session.py",  # the only place that builds a runtime
    "net/extender/plugin_server.py",  # serves one plugin to a scheduler elsewhere: there is no engine and no profile
    "testing.py",  # make_handle, for the tests of one plugin
}
MAY_ASSUME = {
    "core/session.py",  # Session.assume
    "core/engine/cycle.py",  # hold, the step that commit and pod groups share
    "record/moment.py",  # repeats what the recorded scheduler had assumed
}
CLUSTERS = {"cluster", "_cluster", "state", "fork"}  # what a ClusterState is called; plugins' caches assume, too


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def found(matches: object) -> set[str]:
    files = (path for path in SOURCE.rglob("*.py") if "learn" not in path.parts)
    return {
        path.relative_to(SOURCE).as_posix()
        for path in files
        if any(matches(call) for call in calls(ast.parse(path.read_text())))  # type: ignore[operator]
    }


def makes_a_runtime(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in MAKERS


def assumes(call: ast.Call) -> bool:
    method = call.func
    if not isinstance(method, ast.Attribute) or method.attr != "assume":
        return False
    owner = method.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in CLUSTERS


def test_one_place_builds_a_runtime() -> None:
    assert found(makes_a_runtime) == MAY_MAKE


def test_one_rule_counts_pods_in() -> None:
    assert found(assumes) == MAY_ASSUME
