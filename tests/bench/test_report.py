"""Results: rows, files, comparisons and pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mooring.api.errors import InputError
from mooring.bench.perf import plot, report
from mooring.bench.perf.collect import Collector, Latencies, ThisProcess
from mooring.bench.perf.definitions import PerfWorkload
from mooring.bench.perf.report import PerfResult, Throughput

SVG = "{http://www.w3.org/2000/svg}"


def make_result(name: str = "5Nodes", average: float = 500.0, **fields: object) -> PerfResult:
    result = PerfResult("Basic", name, "misc", {"initNodes": 5}, "embedded", pods=1000, seconds=2.0)
    result.throughput = Throughput(average, 480.0, 520.0, 530.0, [480.0, 520.0])
    result.cpu_s, result.cpu_s_per_1000, result.peak_mib = 1.5, 1.5, 200.0
    result.algorithm_ms = Latencies(1000, 0.2, 0.1, 0.3, 0.9)
    result.attempts_ms = {"scheduled": Latencies(1000, 2.0, 1.0, 3.0, 9.0)}
    for key, value in fields.items():
        setattr(result, key, value)
    return result


def test_a_collector_becomes_a_result() -> None:
    workload = PerfWorkload("Basic", "5Nodes", "misc", {}, frozenset(), 3.0, {}, ())
    collector = Collector("", lambda record: True, ThisProcess(), None, lambda: 0.0)
    collector.start()
    collector.times = [collector.started + at for at in (0.5, 1.0, 1.5, 2.0)]
    collector.stop()
    result = report.result_of(workload, collector, "embedded")
    assert (result.pods, result.seconds, result.throughput.average) == (4, 2.0, 2.0)
    assert result.throughput.windows == [1.0, 3.0]
    assert result.is_passed is False
    assert result.cpu_s_per_1000 is not None


@pytest.mark.parametrize(
    ("result", "cells"),
    [
        pytest.param(
            make_result(threshold=270.0),
            ["1,000", "500", "480", "520", "530", "270 kept", "1.500", "0.10/0.90", "1.00/9.00", "200"],
            id="a threshold that is kept",
        ),
        pytest.param(
            make_result(threshold=600.0),
            ["1,000", "500", "480", "520", "530", "600 missed", "1.500", "0.10/0.90", "1.00/9.00", "200"],
            id="a threshold that is missed",
        ),
        pytest.param(
            make_result(cpu_s=None, cpu_s_per_1000=None, algorithm_ms=None, attempts_ms={}, peak_mib=None),
            ["1,000", "500", "480", "520", "530", "-", "-", "-", "-", "-"],
            id="a scheduler elsewhere",
        ),
        pytest.param(make_result(error="no"), ["-", "failed", *["-"] * 8], id="a failure"),
    ],
)
def test_rows(result: PerfResult, cells: list[str]) -> None:
    (row,) = report.rows([result])
    assert row == ["Basic/5Nodes", *cells]
    assert len(row) == len(report.COLUMNS)


def test_footnotes_say_what_the_cpu_time_counts_and_what_went_wrong() -> None:
    results = [make_result(cpu_includes_api_server=True, load_cpu_s=0.3, notes=["a note"]), make_result("b", error="x")]
    lines = report.footnotes(results)
    assert lines[0].startswith("CPU is that of the whole process: scheduler, API server")
    assert lines[1:] == ["Basic/5Nodes: a note", "Basic/b: x"]


def test_a_run_is_written_and_read_again(tmp_path: Path) -> None:
    results = [make_result(threshold=270.0), make_result("b", error="x")]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(report.document(results, report.about())))
    assert report.read(path) == results
    document = json.loads(path.read_text())
    assert {"date", "machine", "versions", "results"} <= set(document)
    assert document["machine"]["cores"] >= 1 and document["versions"]["python"]
    assert document["results"][0]["passed"] is True
    assert report.about_line(document).startswith(document["date"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "not JSON", id="no JSON"),
        pytest.param("[]", "not a result of mooring bench perf", id="another document"),
        pytest.param('{"format": "mooring-bench-perf/1", "results": [{}]}', "results:", id="results without names"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        report.read(path)
    with pytest.raises(InputError, match="no such file"):
        report.read(tmp_path / "none.json")


def test_a_comparison_shows_new_old_and_ratio() -> None:
    new = [make_result(average=750.0, cpu_s_per_1000=0.75), make_result("only-new"), make_result("c", error="x")]
    old = [make_result(), make_result("only-old"), make_result("c")]
    assert report.compare(new, old) == [
        ["Basic/5Nodes", "750", "500", "1.50×", "0.750", "1.500", "0.50×", "200", "200", "1.00×"]
    ]
    assert len(report.COMPARED) == 10
    (row,) = report.compare([make_result(cpu_s_per_1000=None)], old)
    assert row[4:7] == ["-", "1.500", "-"]


def test_a_plot_is_a_picture_with_a_line_for_each_workload() -> None:
    results = [
        make_result("a<b&c", threshold=270.0),
        make_result("one", throughput=Throughput(3.0, 3, 3, 3, [3.0])),
        make_result("failed", error="x", throughput=Throughput()),
    ]
    root = ET.fromstring(plot.throughput(results, "2 cores & more"))
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f"{SVG}polyline")) == 2
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "Basic/a<b&c: 500 pods/s, threshold 270" in texts
    assert "600" in texts, "the scale has room for the highest value"
    height = float(root.attrib["height"])
    assert all(0 <= float(y) <= height for line in root.iter(f"{SVG}line") for y in (line.attrib["y1"],))


def test_an_empty_plot_says_that_it_is_empty() -> None:
    root = ET.fromstring(plot.throughput([]))
    assert "nothing was bound" in [text.text for text in root.iter(f"{SVG}text")]
