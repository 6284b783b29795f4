"""Results as one table: columns, numbers, CSV, Parquet, and the small table for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.errors import InputError, UsageError
from mooring.sweeping.specification import TableShape
from mooring.sweeping.tables import flat, pivot, tidy, to_csv, write_table


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
        "trace   spread      pack",
        "a       2 ± 1.414   5",
    ]
    with pytest.raises(InputError, match="no result has a number 'plaecd'; there are seed, placed"):
        pivot(records, TableShape("trace", "policy", "plaecd"))
