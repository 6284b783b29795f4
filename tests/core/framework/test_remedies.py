"""A change says what it is, and a few nodes stand for many."""

from __future__ import annotations

import pytest

from mooring.core.framework.interfaces import FEW, Change, few
from mooring.testing import make_cluster, make_node


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(Change("uncordon {node}", node="a"), "uncordon a", id="the node's name is filled in"),
        pytest.param(Change("tolerate a=b"), "tolerate a=b", id="a change of the pod has none"),
        pytest.param(Change("label {x}=y on {node}", node="a"), "label {x}=y on a", id="other braces stay"),
    ],
)
def test_text(change: Change, want: str) -> None:
    assert str(change) == want


@pytest.mark.parametrize(("count", "want"), [(0, 0), (3, 3), (50, FEW)])
def test_few(count: int, want: int) -> None:
    nodes = make_cluster(*(make_node(f"n{i}") for i in range(count))).nodes()
    assert [node.name for node in few(nodes)] == [f"n{i}" for i in range(want)]
