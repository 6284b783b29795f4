"""The batch group: Jobs and CronJobs, and the schedules of CronJobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Protocol

import msgspec

from mooring.api.errors import ParseError
from mooring.api.times import human_duration, parse_seconds
from mooring.controlplane.quotas.reading import QUEUE_LABEL
from mooring.controlplane.registry.columns import ago, columns, get
from mooring.controlplane.registry.groups.queues import CLUSTER_QUEUES
from mooring.controlplane.registry.groups.workloads import (
    TEMPLATE_COLUMNS,
    default_template,
    keep_metadata,
    template_columns,
)
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.validation import fill, immutable, not_negative, one_of, parse_time
from mooring.controlplane.types.kind import Column, Context, Fields, Kind, Object
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported

# Jobs


def _job_status(obj: Object, _: float) -> str:
    conditions = {c.get("type") for c in get(obj, "status.conditions") or () if c.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in conditions:
            return kind
    if get(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in conditions), "Running"
    )


def _job_completions(obj: Object, _: float) -> str:
    done, wanted = get(obj, "status.succeeded") or 0, get(obj, "spec.completions")
    parallelism = get(obj, "spec.parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: float) -> str:
    start, end = get(obj, "status.startTime"), get(obj, "status.completionTime")
    begun = parse_time(start) if start else None
    if begun is None:
        return ""
    finished = parse_time(end) if end else None
    return human_duration((finished if finished is not None else now) - begun)


def _default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    policy = spec.get("podFailurePolicy")
    fill(spec, podReplacementPolicy="TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill(pattern, status="True")
    default_template(spec)


def _admit_job(obj: Object, context: Context) -> None:
    spec = obj["spec"]
    if QUEUE_LABEL in (obj["metadata"].get("labels") or {}) and next(context.each(CLUSTER_QUEUES), None) is not None:
        spec["suspend"] = True  # as Kueue's webhook does
    if spec.get("manualSelector"):
        return
    name, uid = obj["metadata"].get("name", ""), obj["metadata"]["uid"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    labels.update(
        {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
    )
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _validate_job(obj: Object) -> list[Cause]:
    return _validate_job_spec(obj.get("spec") or {}, "spec")


def _validate_job_spec(spec: Object, at: str) -> list[Cause]:
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    found = not_negative(spec, at, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    found += not_negative(spec, at, "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes")
    found += _validate_indexes(spec, at)
    found += _validate_policies(spec, at)
    found += validate_pod_spec(pod_spec, f"{at}.template.spec")
    where, restart_policy = f"{at}.template.spec.restartPolicy", pod_spec.get("restartPolicy")
    if restart_policy not in ("OnFailure", "Never"):
        found.append(unsupported(where, restart_policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and restart_policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(invalid_value(where, restart_policy, why))
    return found


def _validate_indexes(spec: Object, at: str) -> list[Cause]:
    mode, completions, most = spec.get("completionMode"), spec.get("completions"), spec.get("maxFailedIndexes")
    found = one_of(spec, at, "completionMode", ("Indexed", "NonIndexed"))
    if most is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode == "Indexed":
        if completions is None:
            found.append(required(f"{at}.completions", "when completion mode is Indexed"))
        elif most is not None and most > completions:
            found.append(invalid_value(f"{at}.maxFailedIndexes", most, "must be less than or equal to completions"))
        return found
    names = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
    why = "requires indexed completion mode"
    return found + [invalid_value(f"{at}.{name}", spec[name], why) for name in names if spec.get(name) is not None]


def _validate_policies(spec: Object, at: str) -> list[Cause]:
    policy = spec.get("podFailurePolicy")
    allowed = ("Failed", "TerminatingOrFailed") if policy is None else ("Failed",)
    found = one_of(spec, at, "podReplacementPolicy", allowed)
    for i, rule in enumerate((policy or {}).get("rules") or ()):
        found += _validate_failure_rule(spec, rule, f"{at}.podFailurePolicy.rules[{i}]")
    for i, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        if rule.get("succeededCount") is None and rule.get("succeededIndexes") is None:
            why = "at least one of succeededCount or succeededIndexes must be specified"
            found.append(required(f"{at}.successPolicy.rules[{i}]", why))
    return found


def _validate_failure_rule(spec: Object, rule: Object, at: str) -> list[Cause]:
    action, codes, patterns = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions")
    found: list[Cause] = []
    if action not in _FAILURE_ACTIONS:
        found.append(unsupported(f"{at}.action", action, _FAILURE_ACTIONS))
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        found.append(invalid_value(f"{at}.action", action, "requires the backoffLimitPerIndex to be set"))
    if bool(patterns) == (codes is not None):
        what = "both OnExitCodes and OnPodConditions is not supported"
        if not patterns:
            what = "one of OnExitCodes and OnPodConditions is required"
        found.append(invalid_value(at, rule, f"specifying {what}"))
    if codes is not None:
        values = codes.get("values") or []
        if codes.get("operator") not in ("In", "NotIn"):
            found.append(unsupported(f"{at}.onExitCodes.operator", codes.get("operator"), ("In", "NotIn")))
        if not values:
            found.append(invalid_value(f"{at}.onExitCodes.values", values, "at least one value is required"))
        elif values != sorted(set(values)):
            found.append(invalid_value(f"{at}.onExitCodes.values", values, "must be ordered"))
        elif 0 in values and codes.get("operator") == "In":
            found.append(invalid_value(f"{at}.onExitCodes.values", values, "must not be 0 for the In operator"))
    return found


_FAILURE_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def _update_job(new: Object, old: Object) -> list[Cause]:
    fixed = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy"]
    if not (old.get("spec") or {}).get("suspend"):
        fixed.append("template")
    return immutable(new, old, *(f"spec.{name}" for name in fixed))


JOBS = Kind(
    "Job",
    "batch",
    subresources=("status",),
    categories=("all",),
    has_generation=True,
    fields=Fields(
        ("status.successful",), lambda obj: {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}
    ),
    default=_default_job,
    admit=_admit_job,
    prepare_status=keep_metadata,
    validate=_validate_job,
    validate_update=_update_job,
    columns=columns(
        "Name",
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        "Age",
        *TEMPLATE_COLUMNS,
    ),
)


# When a CronJob is due: five fields, ``@daily`` or the like, or ``@every 90s``, as kube-controller-manager reads them.
#
# | field | values | also |
# |---|---|---|
# | minute | 0 to 59 | ``*``, ``?``, lists ``1,15``, ranges ``8-18``, steps ``*/5`` and ``3/5`` (from 3 to the end) |
# | hour | 0 to 23 | |
# | day of the month | 1 to 31 | |
# | month | 1 to 12 | ``jan`` to ``dec`` |
# | day of the week | 0 to 6, Sunday is 0 | ``sun`` to ``sat`` |
#
# If both days are restricted, either is enough. In a time zone an hour that the clock leaves out is never due, and one
# that it repeats is due twice.

HOUR_S, MINUTE_S = 3600, 60
MAX_YEARS = 5
"""A schedule without a time in this many years never fires, such as the 31st of February."""

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
    """A schedule."""

    def next(self, after_s: float) -> float | None:
        """Return the first time after this one, in seconds since 1970; None if there is none."""


@dataclass(frozen=True, slots=True)
class Every:
    """A schedule with equal steps, counted from the given time."""

    seconds: float

    def next(self, after_s: float) -> float | None:
        return float(int(after_s)) + self.seconds


class CronField(msgspec.Struct, frozen=True):
    """The values of one field. ``is_any``: it was written ``*``."""

    values: frozenset[int]
    is_any: bool = False


class Cron(msgspec.Struct, frozen=True):
    """A schedule of minutes of a calendar."""

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
    """Return a time zone by its name; ParseError if the machine does not have it."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few schedules name one

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParseError(f"unknown time zone {name}") from None


@lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Return the schedule of a CronJob; ParseError with the mistake. Without a zone it is UTC."""
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
    """Return the values of ``2``, ``2-9``, ``*/3`` or ``2-9/3``, and whether the part means any value."""
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


# CronJobs


def _default_cron_job(obj: Object) -> None:
    spec = fill(obj.setdefault("spec", {}), concurrencyPolicy="Allow", suspend=False)
    fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    default_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _validate_cron_job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = _validate_schedule(spec.get("schedule") or "")
    if spec.get("timeZone") is not None:
        try:
            time_zone(spec["timeZone"])
        except ParseError as error:
            found.append(invalid_value("spec.timeZone", spec["timeZone"], str(error)))
    if spec.get("concurrencyPolicy") not in _POLICIES:
        found.append(unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES))
    limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    found += not_negative(spec, "spec", *limits)
    found += _validate_job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    if len(obj["metadata"].get("name", "")) > MAX_CRON_JOB_NAME:
        why = f"must be no more than {MAX_CRON_JOB_NAME} characters"
        found.append(invalid_value("metadata.name", obj["metadata"]["name"], why))
    return found


def _validate_schedule(schedule: str) -> list[Cause]:
    if not schedule:
        return [required("spec.schedule")]
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid_value("spec.schedule", schedule, why)]
    try:
        parse_schedule(schedule)
    except ParseError as error:
        return [invalid_value("spec.schedule", schedule, str(error))]
    return []


def _last_schedule(obj: Object, now: float) -> str:
    when = get(obj, "status.lastScheduleTime")
    return ago(when, now) if when else "<none>"


_POLICIES = ("Allow", "Forbid", "Replace")
MAX_CRON_JOB_NAME = 52  # the time is appended to it for the name of a Job

CRON_JOBS = Kind(
    "CronJob",
    "batch",
    short_names=("cj",),
    subresources=("status",),
    categories=("all",),
    has_generation=True,
    default=_default_cron_job,
    prepare_status=keep_metadata,
    validate=_validate_cron_job,
    columns=columns(
        "Name",
        "Schedule: spec.schedule",
        "Timezone: spec.timeZone | <none>",
        Column("Suspend", lambda obj, _: str(bool(get(obj, "spec.suspend"))), type="boolean"),
        Column("Active", lambda obj, _: len(get(obj, "status.active") or ()), type="integer"),
        Column("Last Schedule", _last_schedule),
        "Age",
        *template_columns("spec.jobTemplate.spec"),
    ),
)
