"""What can be taken away from a record, without a browser."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict

import pytest

from mooring.cli.main import run
from mooring.show.exports import COLUMNS, decisions, decisions_csv, decisions_parquet, trace
from mooring.show.timeline import EventKind


def test_decisions_are_those_of_the_record(story):
    shown = story("preemption")
    with shown.source.opener()() as record:
        wanted = [
            (each.number, each.key, each.tries, each.outcome, each.node or each.nominated or "", each.message)
            for _, each in record.attempts()
        ]
    assert [(row[0], *row[2:6], row[7]) for row in decisions(shown.timeline)] == wanted


def test_a_table_has_no_formulas(story):
    shown = story("first-placement")
    rows = list(csv.reader(io.StringIO(decisions_csv(shown.timeline).decode())))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 1 + len(shown.timeline.attempt_events)


def test_parquet_has_the_same_rows(story):
    parquet = pytest.importorskip("pyarrow.parquet")
    shown = story("zone-spread")
    table = parquet.read_table(io.BytesIO(decisions_parquet(shown.timeline)))
    assert table.column_names == list(COLUMNS)
    assert [tuple(row.values()) for row in table.to_pylist()] == list(decisions(shown.timeline))


@pytest.mark.parametrize("name", ["preemption", "zone-spread", "node-failure"])
def test_a_trace_has_the_form_of_chromes_traces(story, name):
    """Slices of a track are nested: what ends is what began last. Counts are never negative, times do not fall."""
    timeline = story(name).timeline
    events = json.loads(trace(timeline))["traceEvents"]
    tracks: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    last = 0
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= set(event)
        if event["ph"] == "M":
            continue
        assert event["ts"] >= last
        last = event["ts"]
        is_async = event["ph"] in "be"
        track = tracks[(event["cat"], event["id2"]["local"]) if is_async else (event["pid"], event["tid"])]
        if event["ph"] in "bB":
            assert is_async or not track  # pods of one thread come one after the other
            track.append(event["name"])
        if event["ph"] in "eE":
            assert track.pop() == event["name"]
        if event["ph"] == "C":
            assert min(event["args"].values()) >= 0
    attempts = [event for event in events if event["ph"] == "i" and event["name"] != "evicted"]
    assert len(attempts) == len(timeline.attempt_events)
    kinds = Counter(timeline.events.columns["kind"])
    assert sum(map(len, (open_ for track, open_ in tracks.items() if track[0] != "queue"))) == (
        kinds[EventKind.ON] - kinds[EventKind.OFF]
    )
    waiting = next(event["args"] for event in reversed(events) if event["ph"] == "C")
    assert sum(len(open_) == 2 for track, open_ in tracks.items() if track[0] == "queue") == sum(waiting.values())


@pytest.mark.parametrize(("name", "begin"), [("d.csv", b"number,time_s"), ("d.parquet", b"PAR1"), ("t.json", b"{")])
def test_the_command_writes_them(tmp_path, name, begin, capsys):
    path = tmp_path / name
    assert run(["ui", "first-placement", "-o", str(path)]) == 0
    assert path.read_bytes().startswith(begin)
    assert "Written" in capsys.readouterr().out


def test_two_records_make_no_table(tmp_path, capsys):
    assert run(["ui", "first-placement", "preemption", "-o", str(tmp_path / "d.csv")]) == 2
    assert "expected one record" in capsys.readouterr().err


def test_a_report_can_be_the_page(tmp_path, built_page, capsys):
    path, page = tmp_path / "run.mooring", tmp_path / "page.html"
    assert run(["simulate", "first-placement", "--record", str(path)]) == 0
    assert run(["report", str(path), "--html", str(page)]) == 0
    assert 'id="carried"' in page.read_text(encoding="utf-8")
    assert run(["report", str(path), "--html", str(page), "-o", "x.md"]) == 2
    assert "expected neither -o nor --row" in capsys.readouterr().err
