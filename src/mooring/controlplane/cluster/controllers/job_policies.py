"""The policies of a Job: when a pod has failed, what that means, and when enough indexes have succeeded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from mooring.controlplane.cluster.controllers.base import is_terminating, phase
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object

INDEX = "batch.kubernetes.io/job-completion-index"
IGNORE, FAIL_INDEX, FAIL_JOB = "Ignore", "FailIndex", "FailJob"


def replaces_only_ended(job: Object) -> bool:
    """Whether a pod that is on its way out keeps its place until it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(job: Object, pod: Object) -> bool:
    """Whether a pod counts as failed. One that is deleted before it succeeds does, whoever deletes it."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_ended(job) and is_terminating(pod) and phase(pod) != "Succeeded"


def is_past_limit_of_restarts(job: Object, pods: Iterable[Object], limit: int) -> bool:
    """Whether containers were started again too often, which only kubelets of pods that restart OnFailure do."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    statuses = [pod.get("status") or {} for pod in pods if phase(pod) in ("Running", "Pending")]
    restarts: int = sum(
        each.get("restartCount", 0)
        for status in statuses
        for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    )
    return restarts >= limit if limit else restarts > 0


class Verdict(NamedTuple):
    """What the first matching rule of a podFailurePolicy says: its action, and why the Job fails if it does."""

    action: str = "Count"
    why: str = ""


def failure_verdict(job: Object, pod: Object) -> Verdict:
    """What a failed pod means for its Job."""
    metadata = pod["metadata"]
    for i, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = str(rule.get("action"))
        what = ""
        if rule.get("onExitCodes") is not None:
            ended = _matching_container(pod, rule["onExitCodes"])
            if ended is not None:
                code = ended["state"]["terminated"]["exitCode"]
                what = f"Container {ended['name']} for pod {metadata['namespace']}/{metadata['name']} failed with exit"
                what += f" code {code} matching {action} rule at index {i}"
        else:
            type_ = _matching_condition(pod, rule.get("onPodConditions") or ())
            if type_:
                what = f"Pod {metadata['namespace']}/{metadata['name']} has condition {type_} matching {action} rule at"
                what += f" index {i}"
        if what:
            return Verdict(action, what)
    return Verdict()


def _matching_container(pod: Object, wanted: Object) -> Object | None:
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        code = ((each.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
        is_listed = code in (wanted.get("values") or ())
        if code and wanted.get("containerName") in (None, each["name"]) and is_listed == (wanted["operator"] == "In"):
            found: Object = each
            return found
    return None


def _matching_condition(pod: Object, patterns: Iterable[Object]) -> str:
    wanted = {(each.get("type"), each.get("status", "True")) for each in patterns}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each["type"] for each in conditions if (each.get("type"), each.get("status")) in wanted), "")


def met_success_rule(job: Object, succeeded: Collection[int]) -> int | None:
    """The number of the first rule of the successPolicy that holds."""
    spec = job["spec"]
    for i, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or () if succeeded else ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            if count is not None and len(succeeded) >= count:
                return i
            continue
        wanted = parse_indexes(rule["succeededIndexes"], spec.get("completions") or 0)
        met = len(wanted.intersection(succeeded))
        if wanted and (met == len(wanted) or (count is not None and met >= count)):
            return i
    return None


def index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return quantities.whole(text)


def parse_indexes(text: str, completions: int) -> set[int]:
    """The indexes that ``0,1,4-6`` names, without those that the Job does not have; parts that are none are skipped."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = quantities.whole(first), quantities.whole(last or first)
        if begin is not None and end is not None:
            found.update(range(max(begin, 0), min(end, completions - 1) + 1))
    return found


def format_indexes(numbers: Iterable[int]) -> str:
    """``0,1,4-6``: as the status of a Job has them."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(",".join(map(str, part)) if len(part) <= 2 else f"{part[0]}-{part[-1]}" for part in parts)
