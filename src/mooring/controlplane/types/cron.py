"""When a CronJob is due: five fields, ``@daily`` or the like, or ``@every 90s``, as kube-controller-manager reads them.

| field | values | also |
|---|---|---|
| minute | 0 to 59 | ``*``, ``?``, lists ``1,15``, ranges ``8-18``, steps ``*/5`` and ``3/5`` (from 3 to the end) |
| hour | 0 to 23 | |
| day of the month | 1 to 31 | |
| month | 1 to 12 | ``jan`` to ``dec`` |
| day of the week | 0 to 6, Sunday is 0 | ``sun`` to ``sat`` |

If both days are restricted, either is enough. In a time zone an hour that the clock leaves out is never due, and one
that it repeats is due twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Protocol

import msgspec

from mooring.api.errors import ParseError
from mooring.core.config.decode import parse_seconds

HOUR_S, MINUTE_S = 3600, 60
MAX_YEARS = 5
"""A schedule that is not due for so long is never due, such as the 31st of February."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Schedule(Protocol):
    """When something is due."""

    def next(self, after_s: float) -> float | None:
        """The first time it is due after this one, in seconds since 1970; None if it never is."""


@dataclass(frozen=True, slots=True)
class Every:
    """Due in equal steps, counted from the time that is asked about."""

    seconds: float

    def next(self, after_s: float) -> float | None:
        return float(int(after_s)) + self.seconds


class CronField(msgspec.Struct, frozen=True):
    """The values of one field. ``is_any`` says that it was written ``*``."""

    values: frozenset[int]
    is_any: bool = False


class Cron(msgspec.Struct, frozen=True):
    """Due at minutes of a calendar."""

    minutes: CronField
    hours: CronField
    days: CronField
    months: CronField
    weekdays: CronField
    zone: tzinfo = UTC

    def next(self, after_s: float) -> float | None:
        at_s = float(int(after_s) // MINUTE_S * MINUTE_S + MINUTE_S)
        last_year = datetime.fromtimestamp(at_s, self.zone).year + MAX_YEARS
        while True:
            at = datetime.fromtimestamp(at_s, self.zone)
            if at.year > last_year:
                return None
            if at.month not in self.months.values:
                first = at.replace(day=1, hour=0, minute=0, fold=0) + timedelta(days=32)
                at_s = first.replace(day=1).timestamp()
            elif not self._is_day(at):
                at_s = (at.replace(hour=0, minute=0, fold=0) + timedelta(days=1)).timestamp()
            elif at.hour not in self.hours.values:
                at_s += HOUR_S - at.minute * MINUTE_S
            elif at.minute not in self.minutes.values:
                at_s += MINUTE_S
            else:
                return at_s

    def _is_day(self, at: datetime) -> bool:
        of_month, of_week = at.day in self.days.values, at.isoweekday() % 7 in self.weekdays.values
        if self.days.is_any or self.weekdays.is_any:
            return of_month and of_week
        return of_month or of_week


def time_zone(name: str) -> tzinfo:
    """A time zone by its name; ParseError if the machine does not know it."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few schedules name one

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParseError(f"unknown time zone {name}") from None


@lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: str = "") -> Schedule:
    """The schedule that a CronJob has; ParseError says what is wrong with it. Without a zone it is UTC."""
    if not text:
        raise ParseError("empty spec string")
    if text.startswith("@every "):
        return Every(max(1.0, float(int(parse_seconds(text.removeprefix("@every "))))))
    if text.startswith("@"):
        if text not in _NAMES:
            raise ParseError(f"unrecognized descriptor: {text}")
        text = _NAMES[text]
    fields = text.split()
    if len(fields) != 5:
        raise ParseError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    return Cron(
        _field(fields[0], 0, 59),
        _field(fields[1], 0, 23),
        _field(fields[2], 1, 31),
        _field(fields[3], 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
        _field(fields[4], 0, 6, {name: number for number, name in enumerate(_DAYS)}),
        time_zone(zone) if zone else UTC,
    )


def _field(text: str, least: int, most: int, names: dict[str, int] | None = None) -> CronField:
    values: set[int] = set()
    is_any = False
    for part in filter(None, text.split(",")):
        found, is_star = _range(part, least, most, names or {})
        values |= found
        is_any |= is_star
    return CronField(frozenset(values), is_any)


def _range(part: str, least: int, most: int, names: dict[str, int]) -> tuple[set[int], bool]:
    """The values of ``2``, ``2-9``, ``*/3`` or ``2-9/3``, and whether it stands for any value."""
    values, *steps = part.split("/")
    low, *highs = values.split("-")
    if len(steps) > 1:
        raise ParseError(f"too many slashes: {part}")
    if low in ("*", "?"):
        start, end, is_any = least, most, True
    else:
        if len(highs) > 1:
            raise ParseError(f"too many hyphens: {part}")
        start, is_any = _number(low, names), False
        end = _number(highs[0], names) if highs else most if steps else start
    step = _number(steps[0], {}) if steps else 1
    if start < least:
        raise ParseError(f"beginning of range ({start}) below minimum ({least}): {part}")
    if end > most:
        raise ParseError(f"end of range ({end}) above maximum ({most}): {part}")
    if start > end:
        raise ParseError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if not step:
        raise ParseError(f"step of range should be a positive number: {part}")
    return set(range(start, end + 1, step)), is_any and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isascii() or not text.isdigit():
        raise ParseError(f"failed to parse int from {text}")
    return int(text)
