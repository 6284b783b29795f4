"""From answers to exceptions: which one, and what its one line says."""

from __future__ import annotations

import errno
import json
import socket

import pytest

from mooring.api.errors import ApiError
from mooring.net.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    VersionTooLarge,
    error_of_answer,
    error_of_watch,
    parse_retry_after,
    resource_of,
    verb_of,
    why_not,
)

PODS = "/api/v1/namespaces/default/pods"


def answer(code, body=b"", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of_answer(code, body, headers, method="POST", path=PODS)


TOO_LARGE = {"details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}}


@pytest.mark.parametrize(
    ("code", "status", "want"),
    [
        pytest.param(400, {}, BadRequest, id="400"),
        pytest.param(401, {}, Unauthorized, id="401"),
        pytest.param(403, {}, Forbidden, id="403"),
        pytest.param(404, {}, NotFound, id="404"),
        pytest.param(405, {}, MethodNotAllowed, id="405"),
        pytest.param(406, {}, NotAcceptable, id="406"),
        pytest.param(409, {"reason": "Conflict"}, Conflict, id="409"),
        pytest.param(409, {"reason": "AlreadyExists"}, AlreadyExists, id="409 of a name that is taken"),
        pytest.param(410, {}, Gone, id="410"),
        pytest.param(418, {}, ApiError, id="an unknown code"),
        pytest.param(422, {}, Invalid, id="422"),
        pytest.param(429, {}, TooManyRequests, id="429"),
        pytest.param(500, {}, ServerError, id="500"),
        pytest.param(504, {"reason": "Timeout"}, ServerError, id="504"),
        pytest.param(504, TOO_LARGE, VersionTooLarge, id="504 of a version that is yet to come"),
        pytest.param(504, {"details": {"causes": None}}, ServerError, id="504 without causes, as Go writes it"),
        pytest.param(500, TOO_LARGE, ServerError, id="the cause counts with its code only"),
    ],
)
def test_the_exception_of_an_answer(code, status, want):
    error = answer(code, status)
    assert (type(error), error.code, error.reason) == (want, code, status.get("reason", ""))
    assert isinstance(error, ApiError)


@pytest.mark.parametrize(
    ("code", "body", "line"),
    [
        pytest.param(409, {"message": "taken"}, "taken", id="what the Status says"),
        pytest.param(500, {"message": "one\n  two"}, "one two", id="in one line"),
        pytest.param(503, b"upstream is\naway", "upstream is away", id="a text that is no Status"),
        pytest.param(500, b"x" * 1000, "x" * 200, id="not all of a long one"),
        pytest.param(500, b'{"a":' * 9_999, ('{"a":' * 40), id="nested without end"),
        pytest.param(502, b"", "the server answered 502", id="nothing"),
        pytest.param(403, {"message": "no"}, "forbidden: may not create pods: no", id="a 403 names verb and resource"),
        pytest.param(
            403, {"message": 'User "x" cannot create pods'}, 'User "x" cannot create pods', id="unless it does already"
        ),
        pytest.param(
            401, {"message": "no"}, "the server refused the credentials (401) on create pods: no", id="so does a 401"
        ),
    ],
)
def test_the_line_of_an_answer(code, body, line):
    assert str(answer(code, body)) == line


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(None, None, id="no header"),
        pytest.param("0", 0.0, id="immediately"),
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("-1", None, id="less than nothing"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", None, id="a date, which API servers do not send"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", None, id="a date in the far future"),
        pytest.param("31", 10.0, id="longer than anybody has reason to ask for"),
        pytest.param("1" + 30 * "0", 10.0, id="for ever"),
        pytest.param("9" * 400, 10.0, id="more than a float holds"),
        pytest.param("1e30", None, id="a float"),
        pytest.param("inf", None, id="infinity"),
        pytest.param("1_0", None, id="a number as Python writes it"),
        pytest.param("٣", None, id="digits of another script"),
        pytest.param("", None, id="nothing"),
        pytest.param("soon", None, id="a word"),
    ],
)
def test_retry_after(value, want):
    assert parse_retry_after(value) == want
    headers = {} if value is None else {"retry-after": value}
    assert answer(429, **headers).retry_after_s == want


@pytest.mark.parametrize(
    ("body", "want", "line"),
    [
        pytest.param({"code": 410, "reason": "Expired", "message": "old"}, Gone, "old", id="a code"),
        pytest.param({"reason": "Expired", "message": "old"}, Gone, "old", id="a reason alone"),
        pytest.param({"message": "a\nb"}, ServerError, "a b", id="neither"),
        pytest.param([], ServerError, "an ERROR event without a Status", id="no Status"),
    ],
)
def test_the_exception_of_an_error_event(body, want, line):
    error = error_of_watch(json.dumps(body).encode())
    assert (type(error), str(error)) == (want, line)


def test_an_error_event_that_is_nested_without_end():
    assert type(error_of_watch(b'{"a":' * 9_999)) is ServerError


@pytest.mark.parametrize(
    ("error", "was_sent"),
    [
        pytest.param(ConnectionFailed("x", was_sent=True), True, id="a connection that broke"),
        pytest.param(ConnectionFailed("x", was_sent=False), False, id="a connection that never was"),
        pytest.param(RequestTimeout("x", was_sent=True), True, id="no answer in time"),
        pytest.param(Unreachable("x"), False, id="nothing listens"),
    ],
)
def test_whether_it_was_sent(error, was_sent):
    assert (error.was_sent, error.code) == (was_sent, 0)
    assert isinstance(error, ConnectionFailed)


def test_whether_it_was_sent_has_to_be_said():
    with pytest.raises(TypeError):
        ConnectionFailed("x")


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        pytest.param("GET", "/api/v1/pods?watch=true", "watch", "pods", id="watch everywhere"),
        pytest.param("GET", PODS, "list", "pods", id="list in a namespace"),
        pytest.param("GET", PODS + "/a", "get", "pods", id="one by name"),
        pytest.param("GET", "/api/v1/namespaces/x", "get", "namespaces", id="a namespace itself"),
        pytest.param("GET", "/api/v1/namespaces", "list", "namespaces", id="all namespaces"),
        pytest.param("PATCH", PODS + "/a/status", "patch", "pods/status", id="a subresource"),
        pytest.param("GET", "/version", "get", "/version", id="no resource"),
        pytest.param("DELETE", "/apis/a.b/v1/things/x", "delete", "things.a.b", id="of a group"),
    ],
)
def test_verb_and_resource_of_a_request(method, path, verb, resource):
    assert (verb_of(method, path), resource_of(path)) == (verb, resource)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            "Connection refused",
            id="refused",
        ),
        pytest.param(socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="no such host"),
        pytest.param(OSError("Multiple exceptions: both"), "Multiple exceptions: both", id="several addresses"),
    ],
)
def test_why_there_is_no_connection(error: OSError, words: str) -> None:
    assert why_not(error) == words
