"""Measures of a record: its entries are told to a meter one after another, up to the time at which it was closed."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.measures.meter import Meter
from mooring.measures.results import Measures
from mooring.record.entries import ERROR, Attempt, BindingFailed, Deleted, Entry, Evicted, Failed, Put
from mooring.record.reader import Record


def measure_record(record: Record) -> Measures:
    """The measures of a whole record."""
    return measure_entries(record.entries(), record.last_time)


def measure_entries(entries: Iterable[tuple[float, Entry]], end: float) -> Measures:
    """The measures of entries with their times, in order of time; nothing happened from the last of them to ``end``."""
    meter = Meter()
    for at, entry in entries:
        match entry:
            case Put():
                meter.put(at, entry.object)
            case Deleted():
                meter.deleted(at, entry.kind, entry.key, entry.uid)
            case Attempt(is_scheduled=True):
                meter.scheduled()
            case Attempt():
                meter.refused(
                    at,
                    entry.uid,
                    entry.plugins,
                    is_error=entry.outcome == ERROR,
                    makes_room=bool(entry.victims),
                )
                meter.explained(entry.uid, entry.message)
            case Failed():
                meter.explained(entry.uid, entry.message)
            case BindingFailed():
                meter.binding_failed(at)
            case Evicted():
                meter.evicted(at, entry.uid, entry.preemptor)
    return meter.finish(end)
