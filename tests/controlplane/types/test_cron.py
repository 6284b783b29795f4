"""Schedules of CronJobs: what is due when, and what is not a schedule."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from mooring.api.errors import ParseError
from mooring.controlplane.registry.groups.batch import parse_schedule


def _next(schedule: str, after: str, zone: str = "") -> str:
    tz = ZoneInfo(zone or "UTC")
    found = parse_schedule(schedule, zone).next(datetime.fromisoformat(after).timestamp())
    return "never" if found is None else datetime.fromtimestamp(found, tz).isoformat()


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        pytest.param("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00+00:00", id="now is over"),
        pytest.param("*/15 * * * *", "2026-01-01T00:14:59Z", "2026-01-01T00:15:00+00:00", id="a second before"),
        pytest.param("30 3 * * *", "2026-01-01T03:30:00Z", "2026-01-02T03:30:00+00:00", id="the next day"),
        pytest.param("0 0 1 * *", "2026-12-15T00:00:00Z", "2027-01-01T00:00:00+00:00", id="over the year's end"),
        pytest.param("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00", id="a leap day"),
        pytest.param("0 0 31 2 *", "2026-01-01T00:00:00Z", "never", id="a day that no month has"),
        pytest.param("0 9 * * mon-fri", "2026-01-02T10:00:00Z", "2026-01-05T09:00:00+00:00", id="on working days"),
        pytest.param("0 9 13 * FRI", "2026-01-03T00:00:00Z", "2026-01-09T09:00:00+00:00", id="either day is enough"),
        pytest.param("0 9 */2 * FRI", "2026-01-03T00:00:00Z", "2026-01-03T09:00:00+00:00", id="a step restricts"),
        pytest.param("0 9 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T09:00:00+00:00", id="Sunday is 0"),
        pytest.param("5/20 * * * ?", "2026-01-01T00:06:00Z", "2026-01-01T00:25:00+00:00", id="from 5 to the end"),
        pytest.param("1,3-5 0 * * *", "2026-01-01T00:01:00Z", "2026-01-01T00:03:00+00:00", id="a list with a range"),
        pytest.param("0 0 1 JUN,dec *", "2026-07-01T00:00:00Z", "2026-12-01T00:00:00+00:00", id="months by name"),
        pytest.param("@hourly", "2026-01-01T00:20:00Z", "2026-01-01T01:00:00+00:00", id="hourly"),
        pytest.param("@weekly", "2026-01-01T00:20:00Z", "2026-01-04T00:00:00+00:00", id="weekly"),
        pytest.param("@every 90s", "2026-01-01T00:00:07.5Z", "2026-01-01T00:01:37+00:00", id="in equal steps"),
    ],
)
def test_a_schedule_is_due(schedule: str, after: str, due: str) -> None:
    assert _next(schedule, after) == due


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        pytest.param("0 8 * * *", "2026-01-01T08:00:00+01:00", "2026-01-02T08:00:00+01:00", id="local time"),
        pytest.param("30 2 * * *", "2026-03-29T00:00:00+01:00", "2026-03-30T02:30:00+02:00", id="an hour left out"),
        pytest.param("30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", id="an hour repeated"),
        pytest.param("0 0 * * *", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", id="a day of 23 hours"),
    ],
)
def test_a_schedule_follows_its_time_zone(schedule: str, after: str, due: str) -> None:
    assert _next(schedule, after, "Europe/Berlin") == due


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        pytest.param("", "empty spec string", id="nothing"),
        pytest.param("* * * *", "expected exactly 5 fields, found 4: [* * * *]", id="four fields"),
        pytest.param("60 * * * *", "end of range (60) above maximum (59): 60", id="no such minute"),
        pytest.param("* * 0 * *", "beginning of range (0) below minimum (1): 0", id="no such day"),
        pytest.param("* 9-8 * * *", "beginning of range (9) beyond end of range (8): 9-8", id="a range backwards"),
        pytest.param("*/0 * * * *", "step of range should be a positive number: */0", id="no step"),
        pytest.param("1-2-3 * * * *", "too many hyphens: 1-2-3", id="two hyphens"),
        pytest.param("1/2/3 * * * *", "too many slashes: 1/2/3", id="two slashes"),
        pytest.param("* * * * 7", "end of range (7) above maximum (6): 7", id="Sunday is not 7"),
        pytest.param("* * * foo *", "failed to parse int from foo", id="no such month"),
        pytest.param("@often", "unrecognized descriptor: @often", id="no such name"),
    ],
)
def test_what_is_not_a_schedule_is_refused(schedule: str, why: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_schedule(schedule)
    assert str(error.value) == why


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ParseError, match="unknown time zone Mars/Olympus"):
        parse_schedule("* * * * *", "Mars/Olympus")
