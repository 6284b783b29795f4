"""Objects remember which keys changed since a version."""

from __future__ import annotations

import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.storage import CSIDriver, CSINode
from mooring.state import objects as module
from mooring.state.objects import Objects


def node(name: str) -> CSINode:
    return CSINode(metadata=ObjectMeta(name=name))


def test_what_came_changed_or_went_since_a_version() -> None:
    objects = Objects()
    objects.put(node("a"))
    seen = objects.version(CSINode)
    assert objects.changes(CSINode, seen) == ()
    objects.put(node("b"))
    objects.put(node("a"))
    objects.remove(CSINode, "b")
    objects.remove(CSINode, "never-there")
    objects.put(CSIDriver(metadata=ObjectMeta(name="another kind")))
    assert objects.changes(CSINode, seen) == ["b", "a", "b"]
    assert objects.changes(CSINode, objects.version(CSINode)) == ()


def test_what_is_too_long_ago_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG", 3)
    objects = Objects()
    for name in "abcd":
        objects.put(node(name))
    assert objects.changes(CSINode, 0) is None
    assert objects.changes(CSINode, 2) is None
    assert objects.changes(CSINode, 3) == ["d"]
