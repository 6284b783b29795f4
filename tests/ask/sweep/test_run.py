"""Running a sweep: what is run, what is kept, and that it does not matter where."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import MooringError, UsageError
from mooring.ask.sweep import Shard, SweepStore, parse_shard, read_folders, run_sweep, sweep
from mooring.ask.sweep_file import Sweep, load_sweep, tidy
from mooring.ask.workers import RayExecutor
from mooring.cli.sweep import run_here

NUMBERS = "command: count ${number} --seed ${seed}\nover: {number: [1, 2, 3]}\nseeds: 2\n"


class Worker:
    """Runs a command that prints its number; some numbers fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, arguments: Sequence[str], folder: str | None = None) -> tuple[int, str, str]:
        self.ran.append(tuple(arguments))
        if arguments[1] in self.failing:
            return 2, "", "mooring: no such thing\n"
        return 0, json.dumps({"double": 2 * int(arguments[1])}), ""


@pytest.fixture
def numbers(tmp_path: Path) -> Sweep:
    (tmp_path / "sweep.yaml").write_text(NUMBERS)
    return load_sweep(tmp_path / "sweep.yaml")


def test_every_row_is_run_once_and_kept(numbers: Sweep, tmp_path: Path) -> None:
    store, worker = SweepStore(tmp_path / "results"), Worker()
    told: list[tuple[int, int]] = []
    done = run_sweep(numbers, store, work=worker, jobs=2, on_progress=lambda *each: told.append(each))
    assert (done.rows, done.kept, done.ran, done.failed) == (6, 0, 6, {})
    assert told == [(i, 6) for i in range(7)]
    again = run_sweep(numbers, store, work=worker)
    assert (again.kept, again.ran, len(worker.ran)) == (6, 0, 6)
    assert [(r["number"], r["seed"], r["double"]) for r in tidy(store.all())] == [
        (n, seed, 2 * n) for n in (1, 2, 3) for seed in (0, 1)
    ]


def test_a_row_that_failed_is_tried_again(numbers: Sweep, tmp_path: Path) -> None:
    store = SweepStore(tmp_path / "results")
    done = run_sweep(numbers, store, work=Worker("2"))
    assert (done.ran, list(done.failed.values())) == (4, ["mooring: no such thing"] * 2)
    assert run_sweep(numbers, store, work=Worker()).ran == 2


def test_an_interrupted_sweep_continues_where_it_stopped(numbers: Sweep, tmp_path: Path) -> None:
    store = SweepStore(tmp_path / "results")

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(numbers, store, work=Worker(), jobs=1, on_progress=stop)
    before = len(list(store.all()))
    assert before >= 2
    assert run_sweep(numbers, store, work=Worker()).kept == before


def test_shards_share_the_rows(numbers: Sweep, tmp_path: Path) -> None:
    folders = [tmp_path / str(i) for i in range(4)]
    counts = [
        run_sweep(numbers, SweepStore(folder), work=Worker(), shard=Shard(i, 4)).ran for i, folder in enumerate(folders)
    ]
    assert counts == [2, 2, 1, 1]
    whole = SweepStore(tmp_path / "whole")
    run_sweep(numbers, whole, work=Worker())
    assert tidy(read_folders([*folders, folders[0]])) == tidy(whole.all())


@pytest.mark.parametrize(
    ("text", "variables", "want"),
    [
        pytest.param("1/4", {}, Shard(1, 4), id="as given"),
        pytest.param("/4", {"JOB_COMPLETION_INDEX": "3"}, Shard(3, 4), id="of an Indexed Job"),
        pytest.param("/4", {"SLURM_ARRAY_TASK_ID": "2"}, Shard(2, 4), id="of a Slurm array"),
        pytest.param("/4", {}, "none of JOB_COMPLETION_INDEX", id="nothing says it"),
        pytest.param("4/4", {}, "expected I/N with I from 0 to N-1", id="one too many"),
        pytest.param("x", {}, "expected I/N", id="no shard at all"),
    ],
)
def test_which_shard(text: str, variables: dict[str, str], want: Shard | str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "SHARD_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(want, Shard):
        assert parse_shard(text) == want
    else:
        with pytest.raises(UsageError, match=want):
            parse_shard(text)


def test_the_function_raises_what_failed(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("command: explain none.yaml --cluster none.yaml\n")
    with pytest.raises(MooringError, match=r"1 of 1 rows failed; the first: mooring explain none\.yaml .*no such file"):
        sweep(tmp_path / "sweep.yaml")


# ---- wherever it runs --------------------------------------------------------------------------------------------


def here(folder: Path) -> list[dict[str, Any]]:
    """The rows as this process runs them."""
    store = SweepStore(folder / "here")
    with ThreadPoolExecutor(1) as pool:
        run_sweep(load_sweep(folder / "sweep.yaml"), store, executor=pool, work=run_here)
    return [record for row in load_sweep(folder / "sweep.yaml").rows for record in tidy([store.get(row) or {}])]


def on(executor: Executor, folder: Path) -> list[dict[str, Any]]:
    return sweep(folder / "sweep.yaml", executor=executor, results=folder / "there")


def test_a_process_of_its_own_gives_the_same_rows(folder: Path) -> None:
    rows = sweep(folder / "sweep.yaml", jobs=2)
    assert rows == here(folder)
    assert [(row["config"], row["exitCode"], row["moved"]) for row in rows] == [
        ("least.yaml", 0, 0),
        ("most.yaml", 1, 1),
    ]
    assert len(list((folder / "sweep.results").glob("*.json"))) == 2


def test_a_dask_cluster_gives_the_same_rows(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
            ) as cluster,
            Client(cluster) as client,
            client.get_executor() as executor,
        ):
            assert on(executor, folder) == here(folder)


def test_a_ray_cluster_gives_the_same_rows(folder: Path) -> None:
    ray = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
        try:
            assert on(RayExecutor(), folder) == here(folder)
        finally:
            ray.shutdown()


def test_ray_that_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'mooring\[ray\]'"):
        RayExecutor()
