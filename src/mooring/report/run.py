"""A run that is reported on: its name, what is known about it, and its measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mooring.measures.of_record import measure_entries
from mooring.measures.results import Measures
from mooring.record.entries import Attempt, Happened
from mooring.record.reader import Record

Timed = tuple[float, Happened]
SHOW_EVERY = 500  # attempts


@dataclass(frozen=True, slots=True)
class Run:
    """``facts`` are pairs of a name and a text, for the head of a report."""

    name: str
    measures: Measures
    facts: dict[str, str] = field(default_factory=dict)


Show = Callable[[str, int, int], None]
"""Told which record is read, how many of its attempts were read, and how many there are."""


def run_of_record(path: str | Path, name: str = "", show: Show | None = None) -> Run:
    """Read and measure a record."""
    name = name or Path(path).name
    with Record.open(path) as record:
        entries = record.entries()
        if show is not None:
            entries = _shown(entries, partial(show, name), record.num_attempts)
        measures = measure_entries(entries, record.last_time)
        header = record.header
        facts = {
            "recorded by": f"{header.source}, mooring {header.mooring}",
            "decides as": f"Kubernetes {header.kubernetes}",
            "began": _date(header.started),
        }
        if not record.is_complete:
            facts["note"] = "the record was cut off, or is still being written"
    return Run(name, measures, {key: text for key, text in facts.items() if text})


def runs_of_records(paths: Iterable[str | Path], show: Show | None = None) -> list[Run]:
    """Several records; those of one name are told apart by their folders."""
    places = [Path(path) for path in paths]
    names = [place.name for place in places]
    return [run_of_record(place, str(place) if names.count(place.name) > 1 else place.name, show) for place in places]


def _shown(entries: Iterator[Timed], show: Callable[[int, int], None], total: int) -> Iterator[Timed]:
    done = 0
    for timed in entries:
        if isinstance(timed[1], Attempt):
            done += 1
            if done % SHOW_EVERY == 0:
                show(done, total)
        yield timed


def _date(seconds: float) -> str:
    """A time of a real clock; virtual time begins in 1970 and says nothing."""
    if seconds < 365 * 86400:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""
