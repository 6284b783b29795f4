"""The columns that templates share are bounded however many templates there are, and however nodes are filled."""

from __future__ import annotations

from mooring.core.engine import columns as template_columns
from mooring.testing import Scheduler, make_node, make_pod

NODES, TEMPLATES, FILLINGS = 40, 8, 100
LEAST = 64  # fillings that a template may always remember


def _columns(scheduler):
    """All columns of all templates, of filters and of scores."""
    for kept in scheduler.session.engine.search.kept.values():
        yield from kept.filters.values()
        yield from kept.scores.values()


def _fill(scheduler):
    """Every template is decided for again and again, while nodes are filled as they never were before."""
    number = 0
    for template in range(TEMPLATES):
        for _ in range(FILLINGS):
            number += 1
            scheduler.put(make_pod(f"p{number}", node=f"n{number % NODES}", cpu=f"{1 + number % 30}m", memory=number))
            assert scheduler.decide(make_pod("new", cpu=f"{template + 1}m")).node


def test_many_templates_remember_fewer_fillings_each(monkeypatch):
    monkeypatch.setattr(template_columns, "MAX_MEMOS", 2 * LEAST)
    scheduler = Scheduler(*(make_node(f"n{i}", cpu="64", memory="64Gi", pods=500) for i in range(NODES)))
    _fill(scheduler)
    kept = [len(columns.memo) for columns in _columns(scheduler)]
    assert len(kept) == 2 * TEMPLATES and max(kept) > 1
    assert sum(kept) <= 2 * (2 * LEAST + LEAST * (TEMPLATES - 1))


def test_templates_count_even_where_there_are_few_nodes(monkeypatch):
    monkeypatch.setattr(template_columns, "MAX_BYTES", 20 * template_columns.FIXED_BYTES)
    scheduler = Scheduler(*(make_node(name, cpu="64", memory="64Gi", pods=500) for name in "abc"))
    for template in range(30):
        for _ in range(2):  # what comes only once is not kept
            assert scheduler.decide(make_pod("new", cpu=f"{template + 1}m")).node
    for kept in scheduler.session.engine.search.kept.values():
        assert 16 <= len(kept.filters) <= 20
        assert 16 <= len(kept.scores) <= 20
