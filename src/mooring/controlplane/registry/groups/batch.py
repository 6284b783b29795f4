"""The batch group: Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.errors import ParseError
from mooring.api.times import human_duration
from mooring.controlplane.registry.columns import AGE, NAME, ago, at, get
from mooring.controlplane.registry.meta import immutable, parse_time
from mooring.controlplane.registry.pod_validation import validate_pod_spec
from mooring.controlplane.registry.workloads import (
    WORKLOAD,
    default_template,
    keep_metadata,
    selector_is_immutable,
    template_columns,
)
from mooring.controlplane.types.cron import parse_schedule, time_zone
from mooring.controlplane.types.kind import Column, Context, Fields, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, invalid_value, required, unsupported


def _job_status(obj: Object, _: float) -> str:
    conditions = {c.get("type") for c in get(obj, "status", "conditions") or () if c.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in conditions:
            return kind
    if get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in conditions), "Running"
    )


def _job_completions(obj: Object, _: float) -> str:
    done, wanted = get(obj, "status", "succeeded") or 0, get(obj, "spec", "completions")
    parallelism = get(obj, "spec", "parallelism") or 0
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object, now: float) -> str:
    start, end = get(obj, "status", "startTime"), get(obj, "status", "completionTime")
    begun = parse_time(start) if start else None
    if begun is None:
        return ""
    finished = parse_time(end) if end else None
    return human_duration((finished if finished is not None else now) - begun)


def _job(obj: Mapping[str, Any]) -> dict[str, str]:
    return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}


def _default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    default_template(spec)


def _admit_job(obj: Object, _: Context) -> None:
    spec = obj["spec"]
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


def _not_negative(spec: Object, at: str, *names: str) -> list[Cause]:
    why = "must be greater than or equal to 0"
    return [invalid_value(f"{at}.{name}", spec[name], why) for name in names if (spec.get(name) or 0) < 0]


def _validate_job_spec(spec: Object, at: str) -> list[Cause]:
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    found = _not_negative(
        spec, at, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    )  # fmt: skip
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
    found: list[Cause] = []
    if mode not in (None, "NonIndexed", "Indexed"):
        found.append(unsupported(f"{at}.completionMode", mode, ("Indexed", "NonIndexed")))
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
    policy, replacement = spec.get("podFailurePolicy"), spec.get("podReplacementPolicy")
    allowed = ("Failed", "TerminatingOrFailed") if policy is None else ("Failed",)
    found: list[Cause] = []
    if replacement is not None and replacement not in allowed:
        found.append(unsupported(f"{at}.podReplacementPolicy", replacement, allowed))
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
        what = "both OnExitCodes and OnPodConditions is not supported" if patterns else (
            "one of OnExitCodes and OnPodConditions is required"
        )  # fmt: skip
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
    found = selector_is_immutable(new, old)
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy"):
        found += immutable(new, old, f"spec.{name}", "spec", name)
    suspended = (old.get("spec") or {}).get("suspend")
    if not suspended:
        found += immutable(new, old, "spec.template", "spec", "template")
    return found


JOBS = Kind(
    "Job",
    "jobs",
    "batch",
    subresources=("status",),
    categories=("all",),
    has_generation=True,
    fields=Fields(("status.successful",), _job),
    strategy=Strategy(
        default=_default_job,
        admit=_admit_job,
        prepare_status=keep_metadata,
        validate=_validate_job,
        validate_update=_update_job,
    ),
    columns=(
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *WORKLOAD,
    ),
)


def _default_cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
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
    found += _not_negative(spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit",
                           "failedJobsHistoryLimit")  # fmt: skip
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
    when = get(obj, "status", "lastScheduleTime")
    return ago(when, now) if when else "<none>"


_POLICIES = ("Allow", "Forbid", "Replace")
MAX_CRON_JOB_NAME = 52  # the time is put after it, and makes the name of a Job

CRON_JOBS = Kind(
    "CronJob",
    "cronjobs",
    "batch",
    short_names=("cj",),
    subresources=("status",),
    categories=("all",),
    has_generation=True,
    strategy=Strategy(default=_default_cron_job, prepare_status=keep_metadata, validate=_validate_cron_job),
    columns=(
        NAME,
        Column("Schedule", at("spec", "schedule")),
        Column("Timezone", at("spec", "timeZone", default="<none>")),
        Column("Suspend", lambda obj, _: str(bool(get(obj, "spec", "suspend"))), type="boolean"),
        Column("Active", lambda obj, _: len(get(obj, "status", "active") or ()), type="integer"),
        Column("Last Schedule", _last_schedule),
        AGE,
        *template_columns("spec", "jobTemplate", "spec"),
    ),
)
