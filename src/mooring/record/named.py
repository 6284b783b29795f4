"""A record's moment as people name it: ``run.mrec@90s``, or ``run.mrec`` alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mooring.api.times import parse_time
from mooring.config.duration import parse_seconds
from mooring.errors import ParseError, UsageError

if TYPE_CHECKING:
    from mooring.record.reader import Record

BEGINS = b"\x89MREC"  # how a record begins; what reads records is slow to import


def file_and_time(name: str) -> tuple[str, str]:
    """The file and the time after its ``@``; a file whose name has an ``@`` in it is taken as it is."""
    file, at, time = name.rpartition("@")
    return (file, time) if at and not os.path.exists(name) else (name, "")


def names_a_record(name: str) -> bool:
    """Whether the file begins as records do, or is named as one: who opens it says what is wrong with it."""
    file = file_and_time(name)[0]
    if file.endswith(".mrec"):
        return True
    if not os.path.isfile(file):  # what is read from a pipe is gone
        return False
    try:
        with open(file, "rb") as opened:
            return opened.read(len(BEGINS)) == BEGINS
    except OSError:
        return False


def record_time(text: str, record: Record) -> float:
    """A timestamp, or a time from the record's beginning."""
    try:
        return record.first_time + parse_seconds(text.removeprefix("+"))
    except ParseError:
        pass
    try:
        return parse_time(text)
    except ParseError:
        raise UsageError(
            f"{text!r} is not a time; write 90s, from the beginning of the record, or 2026-01-31T12:00:00Z"
        ) from None
