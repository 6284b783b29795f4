"""The order that is kept: against a plain look at all nodes, over random histories of totals and of feasible nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import VERSIONS
from mooring.core.engine import order
from mooring.core.engine.order import KeptOrder, heap_winner
from mooring.core.session import open_session
from mooring.core.state.sharing import ChangeLog
from mooring.testing import make_cluster, make_node, make_pod


class Columns:
    """A table's logs, and columns over them as the engine keeps them."""

    def __init__(self, n: int, random: Any) -> None:
        self.node_log: ChangeLog[int] = ChangeLog()
        self.pod_log: ChangeLog[int] = ChangeLog()
        self.totals = np.array([int(random.random() * 3) for _ in range(n)], np.int64)
        self.feasible = np.array([random.random() < 0.7 for _ in range(n)], np.bool_)
        self.version = 1
        self.kept = KeptOrder(self)  # type: ignore[arg-type]
        self.winner = (-1, -1)

    def set(self, row: int, total: int, feasible: bool) -> None:
        self.totals[row], self.feasible[row] = total, feasible
        (self.pod_log if total % 2 else self.node_log).note(row)

    def check(self) -> None:
        rows = self.feasible.nonzero()[0]
        if len(rows):
            row = int(rows[heap_winner(self.totals[rows])])
            self.winner = self.kept.find((self.version, self.version), self.feasible, self.totals)
            assert self.winner == (row, self.totals[row])


@pytest.fixture(params=[(2, 0), (2, 1 << 14), (10, 1 << 14)], ids=["small blocks", "a small table", "large blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    shift, small = request.param
    monkeypatch.setattr(order, "_SHIFT", shift)
    monkeypatch.setattr(order, "_BLOCK", 1 << shift)
    monkeypatch.setattr(order, "_SMALL", small)
    monkeypatch.setattr(order, "_TINY", 0)


STEPS = st.lists(st.tuples(st.sampled_from([1, 1, 1, 3, 20]), st.integers(0, 4)), min_size=1, max_size=30)


@pytest.mark.usefixtures("blocks")
@settings(max_examples=60)
@given(st.integers(1, 70), STEPS, st.randoms(use_true_random=False))
def test_the_winner_is_that_of_a_plain_look(n: int, steps: list[tuple[int, int]], random: Any) -> None:
    columns = Columns(n, random)
    columns.check()
    for count, kind in steps:
        for _ in range(count):
            row = random.randrange(n)
            total = int(columns.totals[row]) - 1 if kind < 2 else random.randrange(-2, 3)
            is_feasible = bool(columns.feasible[row]) if kind < 3 else random.random() < 0.6
            columns.set(row, total, is_feasible)
        if count == 20:
            columns.version += 1
        columns.check()


@pytest.mark.usefixtures("blocks")
def test_equal_nodes_are_taken_one_after_another_until_none_is_left() -> None:
    """As a burst of equal pods that each fill a node: the feasible list becomes shorter with every one."""
    columns = Columns(3000, np.random.default_rng(1))  # type: ignore[arg-type]
    columns.totals[:], columns.feasible[:] = 100, True
    for _ in range(40):
        columns.check()
        row, total = columns.winner
        columns.set(row, total, False)
    columns.check()


@pytest.mark.usefixtures("blocks")
def test_equal_nodes_become_worse_one_after_another() -> None:
    """As a burst of equal pods on equal nodes: the totals change, and the feasible list does not."""
    columns = Columns(3000, np.random.default_rng(1))  # type: ignore[arg-type]
    columns.totals[:], columns.feasible[::50] = 100, False
    for _ in range(40):
        columns.check()
        row, total = columns.winner
        columns.set(row, total - 1, True)
    columns.check()


@pytest.mark.parametrize("version", VERSIONS.values(), ids=str)
def test_the_kept_order_alone_decides_about_like_pods(version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the default profile of every version: one plugin that scores all nodes anew would make the cost grow."""
    found: list[int] = []
    find = KeptOrder.find

    def noting(kept: KeptOrder, *columns: Any) -> tuple[int, int]:
        winner = find(kept, *columns)
        found.append(winner[0])
        return winner

    monkeypatch.setattr(KeptOrder, "find", noting)
    features = Features(version)
    cluster = make_cluster(*(make_node(f"n{i}") for i in range(5)))
    session = open_session(config_from_dict(None, features), cluster, features=features)
    for number in range(3):
        session.place(session.info(make_pod(f"p{number}", cpu="100m")))
    assert len(found) == 2, "the first pod of a template is not worth keeping"
