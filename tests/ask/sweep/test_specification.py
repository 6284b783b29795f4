"""The file of a sweep: its rows, what they are known by, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mooring.api.errors import UsageError
from mooring.ask.sweep_file import Sweep, load_sweep


def read(tmp_path: Path, text: str, **given: str) -> Sweep:
    (tmp_path / "sweep.yaml").write_text(text)
    return load_sweep(tmp_path / "sweep.yaml", given)


def test_rows_are_all_combinations_and_seeds_change_fastest(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        "parameters: {size: 3}\ncommand: mooring simulate day.yaml --set size=${size} --set x=${x} --seed ${seed}\n"
        "over: {x: [a, b c]}\nseeds: 2\n",
    )
    assert [row.arguments[4:] for row in sweep.rows] == [
        ("--set", "x=a", "--seed", "0"),
        ("--set", "x=a", "--seed", "1"),
        ("--set", "x=b c", "--seed", "0"),
        ("--set", "x=b c", "--seed", "1"),
    ]
    assert sweep.rows[0].arguments[:4] == ("simulate", "day.yaml", "--set", "size=3")
    assert sweep.rows[3].values == {"size": 3, "x": "b c", "seed": 1}
    assert sweep.names == ("x", "seed")


def test_files_are_shown_by_what_the_pattern_leaves_open(folder: Path) -> None:
    sweep = load_sweep(folder / "sweep.yaml")
    assert [row.values for row in sweep.rows] == [{"config": "least.yaml"}, {"config": "most.yaml"}]
    assert sweep.rows[1].arguments[-1] == str(folder / "configs" / "most.yaml")


def test_a_row_has_the_same_key_wherever_its_files_are(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    shutil.copytree(folder, elsewhere)
    here = [row.key for row in load_sweep(folder / "sweep.yaml").rows]
    assert [row.key for row in load_sweep(elsewhere / "sweep.yaml").rows] == here
    assert len(set(here)) == 2


def test_a_file_that_changes_makes_another_row(folder: Path) -> None:
    before = [row.key for row in load_sweep(folder / "sweep.yaml").rows]
    with (folder / "configs" / "most.yaml").open("a") as file:
        file.write("# changed\n")
    after = [row.key for row in load_sweep(folder / "sweep.yaml").rows]
    assert before[0] == after[0] and before[1] != after[1]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("- a\n", "expected a sweep with the fields title", id="no mapping"),
        pytest.param("comand: simulate x\n", "comand: no such field", id="a misspelt field"),
        pytest.param("over: {x: [1]}\n", "command: expected a command of mooring", id="no command"),
        pytest.param("command: simulate x\nover: {x: 1}\n", "over.x: expected a list of values", id="no list"),
        pytest.param("command: simulate x\nover: {x: []}\n", "over.x: expected a list of values", id="an empty list"),
        pytest.param(
            "command: simulate x\nover: {x: {files: nowhere/*.csv}}\n",
            "over.x: no file matches nowhere/*.csv",
            id="no files",
        ),
        pytest.param("command: simulate ${y}\n", "no parameter 'y'", id="an unknown name"),
        pytest.param("command: simulate x\nseeds: 0\n", "seeds: found 0", id="no seeds"),
        pytest.param("command: simulate x\nparameters: {a: 1}\nover: {a: [1]}\n", "a is a parameter", id="twice"),
        pytest.param("command: simulate x\nparameters: {d: {help: traces}}\n", "give one with --set d=", id="not set"),
        pytest.param(
            "command: simulate x\nover: {a: [1]}\ntable: {rows: a, columns: b, value: c}\n",
            "table.columns: found 'b', expected one of a",
            id="a table of nothing",
        ),
        pytest.param(
            "command: simulate x\nseeds: 1000001\n", "1,000,001 rows; expected at most 1,000,000", id="too many rows"
        ),
    ],
)
def test_a_mistake_is_reported_in_one_line(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert want in str(caught.value) and str(tmp_path / "sweep.yaml") in str(caught.value)
