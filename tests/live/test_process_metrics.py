"""The process's own figures, beside those that Prometheus' own library reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from mooring.live.resource_metrics import process_metrics

STAT = (
    "4711 ({command}) S 1 4711 4711 0 -1 4194560 9000 0 12 0 345 67 0 0 20 0 9 0 8123456 734003200 25600 "
    "18446744073709551615 1 1 0 0 0 0 0 16781312 17642 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with a process in it."""
    own = tmp_path / "self"
    (own / "fd").mkdir(parents=True)
    for number in range(7):
        (own / "fd" / str(number)).touch()
    (own / "stat").write_text(STAT.format(command="mooring"))
    (own / "limits").write_text("Max open files            1024                 4096                 files\n")
    (tmp_path / "stat").write_text("cpu  1 2 3\nbtime 1700000000\nprocesses 5\n")
    return tmp_path


def samples(text: str) -> dict[str, float]:
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


@pytest.mark.parametrize("command", ["mooring", "odd) S 1 (name", ""])
def test_figures_are_those_of_the_official_library(proc: Path, command: str) -> None:
    (proc / "self/stat").write_text(STAT.format(command=command))
    theirs = CollectorRegistry()
    ProcessCollector(proc=str(proc), registry=theirs)
    want = {sample.name: sample.value for family in theirs.collect() for sample in family.samples}
    ours = samples(process_metrics(proc))
    assert want.pop("process_max_fds") == 1024 and ours["process_max_fds"] > 0, "ours comes from the kernel itself"
    assert want == {name: pytest.approx(ours[name]) for name in want}
    assert ours["process_cpu_seconds_total"] == (345 + 67) / os.sysconf("SC_CLK_TCK")


def test_without_proc_there_is_what_python_knows(tmp_path: Path) -> None:
    assert set(samples(process_metrics(tmp_path))) == {"process_max_fds", "python_gc_objects_frozen"}


def test_this_process_has_memory_and_files() -> None:
    ours = samples(process_metrics())
    assert ours["process_resident_memory_bytes"] > 1 << 20
    assert ours["process_open_fds"] > 0
