"""Kinds of nodes: the winner and the sizes against a plain look, and what is too many kinds."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.core.engine import kinds as module
from mooring.core.engine import search
from mooring.core.engine.kinds import Kinds
from mooring.core.engine.order import heap_winner
from mooring.core.state.sharing import ChangeLog
from mooring.testing import Scheduler, make_node, make_pod


class Given:
    """A facet that the test sets."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = np.array(numbers, np.int64)

    def token(self, table: Any) -> int:
        return 0

    def column(self, table: Any) -> Any:
        return self.numbers.copy()

    def at(self, table: Any, row: int) -> int:
        return self.numbers.item(row)


class Columns:
    """A table's logs, and columns over them as the engine keeps them."""

    generation = 1
    infos: tuple[()] = ()

    def __init__(self, n: int, random: Any) -> None:
        self.n, self.random = n, random
        self.node_log: ChangeLog[int] = ChangeLog()
        self.pod_log: ChangeLog[int] = ChangeLog()
        self.totals = np.array([random.randrange(3) for _ in range(n)], np.int64)
        self.feasible = np.array([random.random() < 0.8 for _ in range(n)], np.bool_)
        self.facets = [Given([random.randrange(3) for _ in range(n)]), Given([0] * n)]
        self.version = self.totals_version = self.choice = 1
        self.kinds = Kinds(self, self.facets)  # type: ignore[arg-type]

    def change(self, row: int) -> None:
        random = self.random
        self.totals[row] = random.randrange(-1, 3)
        self.feasible[row] = random.random() < 0.8
        self.facets[random.randrange(2)].numbers[row] = random.randrange(4)
        (self.pod_log if row % 2 else self.node_log).note(row)

    def check(self) -> None:
        assert self.kinds.follow(self.version, self.feasible)
        present = self.kinds.present()
        assert self.kinds.size_of(present) == np.count_nonzero(self.feasible)
        pairs = list(zip(*(facet.numbers.tolist() for facet in self.facets), strict=True))
        rows = self.kinds.rows_of(present).rows.tolist()
        assert {pairs[row] for row in rows} == {pairs[row] for row in self.feasible.nonzero()[0].tolist()}
        if self.random.random() < 0.3:  # otherwise the same is asked as the last time
            self.choice = self.random.randrange(1, 5)
        chosen = [kind for kind in present if kind % 5 < self.choice]
        if not chosen:
            return
        added = np.array([kind % 3 for kind in chosen], np.int64)
        pair_of = {kind: pairs[row] for kind, row in zip(present, rows, strict=True)}
        gives = {pair_of[kind]: extra for kind, extra in zip(chosen, added.tolist(), strict=True)}
        able = [row for row in self.feasible.nonzero()[0].tolist() if pairs[row] in gives]
        sums = np.array([self.totals[row] + gives[pairs[row]] for row in able], np.int64)
        position = heap_winner(sums)
        found = self.kinds.find(self.totals_version, self.totals, chosen, added)
        assert found == (able[position], sums[position])
        assert self.kinds.added_to(self.totals, chosen, added).tolist() == sums.tolist()


STEPS = st.lists(st.sampled_from([1, 1, 1, 2, 30]), min_size=1, max_size=25)


@pytest.fixture(params=[(2, 0), (6, 0), (6, 2048)], ids=["small blocks", "large blocks", "a small table"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    shift, tiny = request.param
    for name, value in {"_SHIFT": shift, "_BLOCK": 1 << shift, "_TINY": tiny, "_FEW": 4}.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("blocks")
@settings(max_examples=80)
@given(st.integers(1, 300), STEPS, st.integers(0, 2**32))
def test_the_winner_is_that_of_a_plain_look(n: int, steps: list[int], seed: int) -> None:
    random = Random(seed)
    columns = Columns(n, random)
    columns.check()
    for count in steps:
        for _ in range(count):
            columns.change(random.randrange(n))
        if count == 30:  # all are added up again
            columns.totals_version += 1
        columns.check()


@pytest.mark.parametrize(
    ("values", "are_few"), [(range(4), True), (range(5), False), ([1 << 40], False)],
    ids=["as many as allowed", "one more", "a number too large to be told from others"],
)  # fmt: skip
def test_how_many_kinds_are_too_many(values: Any, are_few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KINDS", 8)
    columns = Columns(200, Random(1))
    columns.feasible[:] = True
    columns.facets[0].numbers[:], columns.facets[1].numbers[:] = 0, 0
    columns.facets[0].numbers[: len(values)] = list(values)
    assert columns.kinds.follow(1, columns.feasible) is are_few
    assert columns.kinds.follow(1, columns.feasible) is are_few


def test_kinds_without_nodes_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KINDS", 8)
    columns = Columns(500, Random(1))
    columns.feasible[:] = True
    columns.facets[0].numbers[:], columns.facets[1].numbers[:] = 0, 0
    for number in range(40):
        columns.facets[0].numbers[7] = number
        columns.pod_log.note(7)
        columns.check()


def test_a_label_with_many_domains_is_asked_about_on_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW_NODES", 0)
    asked: list[int] = []
    spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    wanted: dict[str, Any] = {"labels": {"app": "web"}, "spec": {"topologySpreadConstraints": [spread]}}
    scheduler = Scheduler(*(make_node(f"n{i:03}", labels={"rack": f"r{i}"}) for i in range(65)))
    follow = Kinds.follow
    monkeypatch.setattr(Kinds, "follow", lambda kinds, *columns: asked.append(1) or follow(kinds, *columns))
    for number in range(4):
        pod = scheduler.cluster.info(make_pod(f"p{number}", **wanted))
        decision = scheduler.session.engine.decide(pod, scheduler.profiles["default-scheduler"], detail=False)
        scheduler.put(make_pod(f"p{number}", node=str(decision.node), **wanted))
    assert not asked
