"""Why nodes were refused, read per node, per reason and per plugin (spec 1.13)."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.framework.status import MAX_COUNTED, SUCCESS, Code, NodeStatuses, Status, Verdict, counts_in
from mooring.core.state.node_table import NodeTable
from mooring.testing import make_cluster, make_node

NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never", "ever")
ELSEWHERE = Status.unresolvable("elsewhere")


def table(names: str = "abcd") -> NodeTable:
    return make_cluster(*(make_node(name) for name in names)).snapshot().table


def statuses(rows: list[int] | None = None, absent: Status = SUCCESS) -> NodeStatuses:
    """The first row that was looked at is refused by both plugins, the second by the second one."""
    n = 4 if rows is None else len(rows)
    first = Verdict.choose(np.array([1, 0, 0, 0][:n]), (NEVER,))
    second = Verdict.choose(np.array([1, 1, 0, 0][:n]), (NO,))
    index = None if rows is None else np.array(rows)
    return NodeStatuses(table(), [("First", first), ("Second", second)], index, absent)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param("a", NEVER.by("First"), id="refused by both: the first counts"),
        pytest.param("b", NO.by("Second"), id="refused by the second"),
        pytest.param("c", SUCCESS, id="no refusal"),
        pytest.param("unknown", SUCCESS, id="a node that is not there"),
    ],
)
def test_the_status_of_a_node(node: str, want: Status) -> None:
    assert statuses().get(node) == want


def test_the_status_of_a_row() -> None:
    assert [statuses().at(row) for row in range(3)] == [NEVER.by("First"), NO.by("Second"), SUCCESS]


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        pytest.param([0, 1], {"a": "First", "b": "Second", "c": "", "d": ""}, id="the first two"),
        pytest.param([2, 0], {"c": "First", "a": "Second", "b": "", "d": ""}, id="in another order"),
    ],
)
def test_rows_that_were_not_looked_at_have_the_absent_status(rows: list[int], want: dict[str, str]) -> None:
    found = statuses(rows, ELSEWHERE)
    for node, plugin in want.items():
        assert found.get(node).plugin == plugin
        assert (found.get(node) == ELSEWHERE) is (plugin == "")
    assert found.histogram() == {"never": 1, "ever": 1, "no": 1, "elsewhere": 2}


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        pytest.param(statuses(), [3, 2, 0, 0], id="all were looked at"),
        pytest.param(statuses([2, 0], ELSEWHERE), [2, 3, 3, 3], id="some were"),
        pytest.param(statuses([2, 0]), [2, 0, 3, 0], id="the others pass"),
        pytest.param(NodeStatuses(table()), [0, 0, 0, 0], id="no refusal at all"),
    ],
)
def test_codes_of_all_nodes(found: NodeStatuses, codes: list[int]) -> None:
    assert found.codes().tolist() == codes
    for code in Code:
        assert found.rows_with(code).tolist() == [row for row, each in enumerate(codes) if each == int(code)]
        if code is not Code.SUCCESS:
            assert found.count_with(code) == codes.count(int(code))


def test_groups_have_every_refused_node_once() -> None:
    groups = [(status, rows.tolist()) for status, rows in statuses().groups()]
    assert groups == [(NEVER.by("First"), [0]), (NO.by("Second"), [1])]
    found = statuses([2, 0, 1], ELSEWHERE)
    assert [(status.plugin, rows.tolist()) for status, rows in found.groups()] == [
        ("First", [2]),
        ("Second", [0]),
        ("", [3]),
    ]
    assert found.groups() is found.groups(), "worked out once"


def test_equal_statuses_of_one_plugin_are_one_group() -> None:
    verdict = Verdict(np.array([5, 9, 0, 5]), lambda number: NO)
    ((status, rows),) = NodeStatuses(table(), [("Mine", verdict)]).groups()
    assert status == NO.by("Mine") and sorted(rows.tolist()) == [0, 1, 3]


def test_first_failures_leave_out_what_was_refused_before() -> None:
    found = [(name, ids.tolist()) for name, _, ids, _ in statuses().first_failures()]
    assert found == [("First", [1, 0, 0, 0]), ("Second", [0, 1, 0, 0])]
    twice = Verdict.where(np.array([True, False, False, False]), NO)
    both = NodeStatuses(table(), [("First", twice), ("Second", twice)])
    assert [name for name, *_ in both.first_failures()] == ["First"], "the second refused nothing that was left"


@pytest.mark.parametrize("rows", [None, [2, 0]], ids=["all looked at", "some looked at"])
def test_counts_are_those_of_the_groups(rows: list[int] | None) -> None:
    found = statuses() if rows is None else statuses(rows, ELSEWHERE)
    assert found.counts() == {status: len(nodes) for status, nodes in found.groups()}
    codes = np.zeros(len(found), np.int8)
    for status, nodes in found.groups():
        codes[nodes] = int(status.code)
    assert found.codes().tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("ids", "want"),
    [([], {}), ([0, 0], {}), ([3, 0, 3, 1], {1: 1, 3: 2}), ([5000, 0, 5000], {5000: 2}), ([-1, 2, 2], {-1: 1, 2: 2})],
)
def test_numbers_are_counted_in_order_also_large_and_negative_ones(ids: list[int], want: dict[int, int]) -> None:
    assert list(counts_in(np.array(ids, np.int64)).items()) == list(want.items())


def test_every_reason_counts_once_per_node() -> None:
    assert statuses().histogram() == {"never": 1, "ever": 1, "no": 1}
    verdict = Verdict.where(np.array([True, True, False, True]), Status.unschedulable("x", "y"))
    assert NodeStatuses(table(), [("Mine", verdict)]).histogram() == {"x": 3, "y": 3}


def test_the_plugins_that_refused_a_node() -> None:
    assert statuses().plugins() == {"First", "Second"}
    assert statuses([2, 0], ELSEWHERE).plugins() == {"First", "Second"}, "the absent status has no plugin"
    assert NodeStatuses(table()).plugins() == set()


def test_one_status_for_all() -> None:
    found = NodeStatuses.everywhere(table("ab"), NO.by("X"))
    assert found.histogram() == {"no": 2} and found.plugins() == {"X"}
    assert found.rows_with(Code.UNSCHEDULABLE).tolist() == [0, 1]
    assert (len(found), found.num_looked_at, found.rows.tolist()) == (2, 0, [])
    assert found.get("a") == found.at(1) == NO.by("X")


@pytest.mark.parametrize(
    ("rows", "looked_at"),
    [pytest.param(None, [0, 1, 2, 3], id="all"), pytest.param([3, 1], [3, 1], id="some")],
)
def test_which_rows_were_looked_at(rows: list[int] | None, looked_at: list[int]) -> None:
    found = statuses(rows)
    assert (len(found), found.num_looked_at, found.rows.tolist()) == (4, len(looked_at), looked_at)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([1, 2, 0, 1], id="small"),
        pytest.param([MAX_COUNTED - 1, 1, 0, 1], id="the largest that is counted"),
        pytest.param([MAX_COUNTED, 1, 0, 1], id="the smallest that is not"),
        pytest.param([-3, 2**40, 0, -3], id="large and negative"),
    ],
)
def test_numbers_may_be_any(numbers: list[int]) -> None:
    verdict = Verdict(np.array(numbers), lambda number: Status.unschedulable(f"number {number}"))
    found = NodeStatuses(table(), [("Odd", verdict)])
    assert found.histogram() == {
        f"number {number}": numbers.count(number) for number in dict.fromkeys(numbers) if number
    }
    assert found.rows_with(Code.UNSCHEDULABLE).tolist() == [0, 1, 3]
    assert found.rows_with(Code.SUCCESS).tolist() == [2]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(statuses(), "NodeStatuses(2 of 4 nodes refused: 1 ever, 1 never, 1 no)", id="some refused"),
        pytest.param(NodeStatuses(table()), "NodeStatuses(0 of 4 nodes refused)", id="none refused"),
        pytest.param(
            NodeStatuses.everywhere(table("ab"), NO), "NodeStatuses(2 of 2 nodes refused: 2 no)", id="all refused"
        ),
    ],
)
def test_what_a_person_sees(found: NodeStatuses, text: str) -> None:
    assert repr(found) == text
