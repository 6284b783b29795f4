"""Refusals: the Status a client gets, and the words of upstream's field errors."""

from __future__ import annotations

import pytest

from mooring.controlplane.types import status
from mooring.controlplane.types.status import Cause, StatusError


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (status.not_found("pods", "", "a"), 404, "NotFound", 'pods "a" not found'),
        (status.not_found("deployments", "apps", "a"), 404, "NotFound", 'deployments.apps "a" not found'),
        (status.already_exists("pods", "", "a"), 409, "AlreadyExists", 'pods "a" already exists'),
        (
            status.conflict("pods", "", "a"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the '
            "latest version and try again",
        ),
        (status.forbidden("pods", "", "a", "no"), 403, "Forbidden", 'pods "a" is forbidden: no'),
        (status.forbidden("pods", "", "", "no"), 403, "Forbidden", "pods is forbidden: no"),
        (status.unauthorized(), 401, "Unauthorized", "Unauthorized"),
        (status.too_old(5, 9), 410, "Expired", "too old resource version: 5 (9)"),
        (status.too_large(9, 5), 504, "Timeout", "Timeout: Too large resource version: 9, current: 5"),
        (
            status.method_not_allowed(),
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (status.path_not_found(), 404, "NotFound", "the server could not find the requested resource"),
        (status.bad_request("why"), 400, "BadRequest", "why"),
    ],
    ids=lambda value: value.reason if isinstance(value, StatusError) else "",
)  # fmt: skip
def test_a_refusal_is_a_status(error: StatusError, code: int, reason: str, message: str) -> None:
    shown = error.to_status()
    assert (shown["kind"], shown["status"], shown["code"], shown["reason"]) == ("Status", "Failure", code, reason)
    assert shown["message"] == message


def test_details_name_the_object() -> None:
    details = status.not_found("deployments", "apps", "a").to_status()["details"]
    assert details == {"name": "a", "group": "apps", "kind": "deployments"}


def test_a_status_without_reason_says_none() -> None:
    assert "reason" not in StatusError(404, "", "x").to_status()


def test_when_to_come_back_is_in_the_details_and_the_headers() -> None:
    error = status.too_many_requests("slow down", 2.4, {"reason": "DisruptionBudget", "message": "m"})
    assert error.headers == {"Retry-After": "2"}
    assert error.to_status()["details"] == {
        "causes": [{"reason": "DisruptionBudget", "message": "m"}],
        "retryAfterSeconds": 2,
    }


@pytest.mark.parametrize(
    ("cause", "want"),
    [
        (status.required("spec.x"), "spec.x: Required value"),
        (status.required("spec.x", "because"), "spec.x: Required value: because"),
        (status.invalid_value("spec.x", "a", "must be b"), 'spec.x: Invalid value: "a": must be b'),
        (status.invalid_value("spec.x", 5, "must be 6"), "spec.x: Invalid value: 5: must be 6"),
        (status.invalid_value("spec.x", True, "no"), "spec.x: Invalid value: true: no"),
        (status.invalid_value("spec.x", None, "no"), "spec.x: Invalid value: null: no"),
        (status.invalid_value("spec.x", {"a": [1]}, "no"), 'spec.x: Invalid value: {"a":[1]}: no'),
        (status.unsupported("spec.x", "a", ("b", "c")), 'spec.x: Unsupported value: "a": supported values: "b", "c"'),
        (status.duplicate("spec.x", "a"), 'spec.x: Duplicate value: "a"'),
        (status.forbidden_field("spec.x", "no"), "spec.x: Forbidden: no"),
        (status.field_not_found("spec.x", "a"), 'spec.x: Not found: "a"'),
        (status.too_long("spec.x", 9), "spec.x: Too long: may not be more than 9 bytes"),
    ],
    ids=lambda value: value.reason if isinstance(value, Cause) else "",
)
def test_a_field_error(cause: Cause, want: str) -> None:
    assert str(cause) == want


def test_one_cause_is_bare_and_several_are_in_brackets() -> None:
    one = status.invalid("Pod", "", "a", [status.required("spec.x")])
    assert str(one) == 'Pod "a" is invalid: spec.x: Required value'
    two = status.invalid("Deployment", "apps", "a", [status.required("spec.x"), status.required("spec.y")])
    assert str(two) == 'Deployment.apps "a" is invalid: [spec.x: Required value, spec.y: Required value]'
    assert [cause["field"] for cause in two.details["causes"]] == ["spec.x", "spec.y"]


@pytest.mark.parametrize(
    ("causes", "want"),
    [
        ([("one", ".a")], 'Apply failed with 1 conflict: conflicts with "one": .a'),
        ([("one", ".a"), ("one", ".b")], 'Apply failed with 2 conflicts: conflicts with "one":\n- .a\n- .b'),
        (
            [("two", ".a"), ("one", ".b")],
            'Apply failed with 2 conflicts: conflicts: conflicts with "one":\n- .b\nconflicts with "two":\n- .a',
        ),
    ],
    ids=["one field", "two fields of one manager", "two managers"],
)
def test_conflicts_of_apply(causes: list[tuple[str, str]], want: str) -> None:
    assert str(status.apply_conflict(causes)) == want


def test_an_error_lists_accepted_values() -> None:
    assert "application/json" in str(status.unsupported_media("text/csv", ["application/json"]))
    assert "application/json" in str(status.not_acceptable(["application/json"]))
