"""Results as one table: columns, numbers, CSV, Parquet, and the small table for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import InputError, UsageError
from mooring.ask.sweep_file import TableShape, flat, load_sweep, pivot, tidy, to_csv, write_table
from mooring.show.sweep_page import write_page


def result(key: str, size: int, **fields: Any) -> dict[str, Any]:
    return {"key": key, "values": {"n": size}, "exitCode": 0, "result": fields}


def test_nested_fields_have_dots_and_lists_are_counted() -> None:
    assert flat({"a": {"b": 1, "c": {"d": "x"}}, "moved": [{}, {}]}) == {"a.b": 1, "a.c.d": "x", "moved": 2}
    assert flat([1, 2]) == {"count": 2}


def test_rows_are_sorted_by_their_values_and_values_stand() -> None:
    records = tidy([result("x", 10, n="other"), result("y", 9, late=True)])
    assert [record["n"] for record in records] == [9, 10]
    assert to_csv(records) == "key,n,exitCode,late\ny,9,0,True\nx,10,0,\n"


def test_parquet_has_the_same(tmp_path: Path) -> None:
    from pyarrow import parquet

    records = tidy([result("x", 1, share=0.5), result("y", 2, share=0.25)])
    write_table(records, tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == records


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name that ends in \.csv or \.parquet"):
        write_table([], tmp_path / "t.xls")


def test_a_table_for_people_has_means_and_deviations() -> None:
    records = [
        {"policy": policy, "trace": "a", "seed": seed, "placed": placed}
        for policy, seed, placed in (("spread", 0, 1), ("spread", 1, 3), ("pack", 0, 5))
    ]
    assert pivot(records, TableShape("trace", "policy", "placed")).text().splitlines() == [
        "trace   spread    pack",
        "a       2 ± 1.4   5",
    ]
    with pytest.raises(InputError, match="no result has a number 'plaecd'; did you mean placed"):
        pivot(records, TableShape("trace", "policy", "plaecd"))


def test_reference_numbers_are_shown_beside_results(tmp_path: Path) -> None:
    beside = tmp_path / "published.csv"
    beside.write_text("trace,a,b\nday,2.5,\nnight,9,9\n")
    records = [{"trace": "day", "policy": policy, "x": x} for policy, x in (("a", 1.0), ("a", 3.0), ("b", 5.0))]
    table = pivot(records, TableShape("trace", "policy", "x", str(beside)))
    assert table.rows == [("day", "2.0 ± 1.4 (2.5)", "5")]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, "no such file", id="no file"),
        pytest.param("pods,a\nx,1\n", "no column trace", id="other rows"),
    ],
)
def test_numbers_to_compare_with_that_cannot_be_read_are_one_line(tmp_path: Path, text: str | None, want: str) -> None:
    beside = tmp_path / "published.csv"
    if text is not None:
        beside.write_text(text)
    with pytest.raises(InputError, match=f"table.beside: .*{want}"):
        pivot([{"trace": "day", "policy": "a", "x": 1}], TableShape("trace", "policy", "x", str(beside)))


def test_a_page_has_the_table_and_says_how_it_was_made(tmp_path: Path) -> None:
    sweep = load_sweep(STUDY, {"data": str(_traces(tmp_path))})
    assert sweep.table is not None and len(sweep.rows) == 2 * 8 * 10
    records = [
        {"pods": row.values["pods"], "policy": row.values["policy"], sweep.table.value: 95.0} for row in sweep.rows
    ]
    page = write_page(sweep, pivot(records, sweep.table), len(records), tmp_path).read_text()
    assert "<td>95.00 ± 0 (95.39)</td>" in page and "openb_pod_list_default.csv" in page
    assert "seeds 42, 43" in page and "160 runs" in page
    part = write_page(sweep, pivot(records[:100], sweep.table), 100, tmp_path).read_text()
    assert "100 of 160 runs" in part
    assert "<p>The numbers in parentheses are the means" in page


STUDY = Path(__file__).parents[3] / "examples" / "gpu-fragmentation" / "table.yaml"


def _traces(folder: Path) -> Path:
    for name in ("openb_pod_list_default.csv", "openb_pod_list_own.csv", "openb_node_list_gpu_node.csv"):
        (folder / name).write_text("name\n")
    return folder
