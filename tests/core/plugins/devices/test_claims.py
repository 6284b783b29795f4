"""A pod's claims: which they are, and whether their devices are ready."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.resource import ResourceClaim
from mooring.core.plugins.devices.claims import (
    ClaimProblem,
    binding_failure,
    claim_name,
    has_binding_timed_out,
    has_prioritized_list,
    is_ready_for_binding,
    is_reserved_for,
    may_use,
    pod_claims,
    prioritized_score,
)

from .builders import Wire, claim, exactly, first_of

BY_NAME = {"name": "x", "resourceClaimName": "c"}
BY_TEMPLATE = {"name": "x", "resourceClaimTemplateName": "t"}
MADE = [{"name": "x", "resourceClaimName": "made"}]
OWNED = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]


def pod(*claims: Wire, made: list[Wire] | None = None, namespace: str = "ns") -> Pod:
    wire = {
        "metadata": {"name": "p", "namespace": namespace, "uid": "uid-p"},
        "spec": {"resourceClaims": claims},
        "status": {"resourceClaimStatuses": made or []},
    }
    return msgspec.convert(wire, Pod)


def stored(name: str, **parts: Any) -> ResourceClaim:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"} | parts.pop("metadata", {})
    return msgspec.convert({"metadata": meta, **parts}, ResourceClaim)


@pytest.mark.parametrize(
    ("wanted", "made", "want"),
    [
        pytest.param(BY_NAME, [], ("c", False), id="named by the pod"),
        pytest.param(BY_TEMPLATE, MADE, ("made", True), id="made from a template, so it must be the pod's"),
        pytest.param(BY_TEMPLATE, [{"name": "x"}], (None, True), id="none was needed"),
        pytest.param(BY_TEMPLATE, [], 'pod "ns/p": ResourceClaim not created yet', id="not made yet"),
        pytest.param(
            {"name": "x"}, [], 'pod "ns/p", spec.resourceClaim "x": none of the supported fields are set', id="neither"
        ),
    ],
)
def test_what_the_claim_is_called(wanted: Wire, made: list[Wire], want: tuple[str | None, bool] | str) -> None:
    waiting = pod(wanted, made=made)
    if isinstance(want, str):
        with pytest.raises(ClaimProblem) as problem:
            claim_name(waiting, waiting.spec.resource_claims[0])
        assert str(problem.value) == want
    else:
        assert claim_name(waiting, waiting.spec.resource_claims[0]) == want


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param({"ns/made": stored("made", metadata={"ownerReferences": OWNED})}, "", id="all is well"),
        pytest.param({}, 'could not find ResourceClaim "ns/made"', id="it is not there"),
        pytest.param(
            {"ns/made": stored("made", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})},
            'resourceclaim "made" is being deleted',
            id="it is being deleted",
        ),
        pytest.param(
            {"ns/made": stored("made")},
            "ResourceClaim ns/made was not created for Pod ns/p (Pod is not owner)",
            id="it is another pod's",
        ),
    ],
)
def test_what_keeps_a_pod_waiting(found: dict[str, ResourceClaim], text: str) -> None:
    waiting = pod(BY_TEMPLATE, made=MADE)
    if text:
        with pytest.raises(ClaimProblem) as problem:
            pod_claims(waiting, found.get)
        assert str(problem.value) == text
    else:
        assert pod_claims(waiting, found.get) == list(found.values())


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param(pod(BY_NAME), True, id="the pod names it"),
        pytest.param(pod(BY_TEMPLATE, made=[{"name": "x", "resourceClaimName": "c"}]), True, id="it was made for it"),
        pytest.param(pod({"name": "x", "resourceClaimName": "d"}), False, id="the pod names another"),
        pytest.param(pod(BY_NAME, namespace="other"), False, id="another namespace"),
        pytest.param(pod(), False, id="a pod without claims"),
    ],
)
def test_which_pods_may_use_a_claim(waiting: Pod, want: bool) -> None:
    assert may_use(waiting, stored("c")) is want


def test_a_reservation_is_known_by_uid() -> None:
    mine = stored("c", status={"reservedFor": [{"resource": "pods", "name": "p", "uid": "uid-p"}]})
    other = stored("c", status={"reservedFor": [{"resource": "pods", "name": "p", "uid": "older"}]})
    assert is_reserved_for(mine, pod()) and not is_reserved_for(other, pod())


def with_device(*conditions: str, allocated: str = "2026-01-01T00:00:00Z") -> ResourceClaim:
    """An allocated claim whose device must become ready and may fail; these conditions are true."""
    device = {"driver": "drv", "pool": "p", "device": "a"}
    result = device | {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    true = [{"type": kind, "status": "True", "reason": "R", "message": "m"} for kind in conditions]
    status = {
        "allocation": {"devices": {"results": [result]}, "allocationTimestamp": allocated},
        "devices": [device | {"conditions": true}],
    }
    return stored("c", status=status)


@pytest.mark.parametrize(
    ("conditions", "is_ready", "failure"),
    [
        pytest.param((), False, "", id="nothing is said yet"),
        pytest.param(("ready",), True, "", id="ready"),
        pytest.param(("failed",), False, 'device binding failed: claim=c, reason=R, message="m"', id="failed"),
        pytest.param(("other",), False, "", id="a condition of another kind"),
    ],
)
def test_whether_devices_are_ready(conditions: tuple[str, ...], is_ready: bool, failure: str) -> None:
    found = with_device(*conditions)
    assert (is_ready_for_binding(found), binding_failure(found)) == (is_ready, failure)


def test_a_claim_without_allocation_is_not_ready() -> None:
    assert not is_ready_for_binding(stored("c"))


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(with_device(allocated="1970-01-01T00:00:00Z"), True, id="long ago"),
        pytest.param(with_device(allocated="1970-01-01T00:01:30Z"), False, id="within the time"),
        pytest.param(stored("c"), False, id="not allocated"),
        pytest.param(
            stored("c", status={"allocation": {"devices": {}, "allocationTimestamp": "1970-01-01T00:00:00Z"}}),
            False,
            id="nothing to wait for",
        ),
    ],
)
def test_whether_the_wait_for_devices_is_over(found: ResourceClaim, want: bool) -> None:
    assert has_binding_timed_out(found, now=100.0, timeout_s=60.0) is want


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        pytest.param([], 0, id="not allocated"),
        pytest.param(["plain", "list/first"], 8, id="the first alternative"),
        pytest.param(["plain", "list/second"], 7, id="the second"),
    ],
)
def test_what_a_prioritised_choice_is_worth(chosen: list[str], want: int) -> None:
    found = claim(exactly("plain"), first_of("list", exactly("first"), exactly("second")))
    if chosen:
        results = [{"request": name, "driver": "drv", "pool": "p", "device": "a"} for name in chosen]
        status = {"allocation": {"devices": {"results": results}}}
        found = msgspec.convert(msgspec.to_builtins(found) | {"status": status}, ResourceClaim)
    assert (prioritized_score(found, found.status.allocation), has_prioritized_list(found)) == (want, True)


def test_a_plain_claim_has_no_prioritised_list() -> None:
    assert not has_prioritized_list(claim(exactly()))
