"""Bindings, status patches and deletions beside kube-scheduler's, byte for byte where they are JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.meta import Condition
from mooring.client import pods
from mooring.client.errors import Conflict, ConnectionFailed, NotFound, RequestTimeout, ServerError
from mooring.errors import ApiError

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "wire" / "pods.jsonl").read_text().splitlines()]


class Client:
    """Writes requests down, and fails as told."""

    def __init__(self, *faults: ApiError) -> None:
        self.requests: list[tuple[str, str, Any, str]] = []
        self.faults = list(faults)

    async def create(self, path: str, body: bytes, *, timeout_s: float | None) -> None:
        self._take("POST", path, body, "application/json")

    async def delete(self, path: str, body: bytes, *, timeout_s: float | None) -> None:
        self._take("DELETE", path, body, "application/json")

    async def patch(self, path: str, body: bytes, *, content_type: str, timeout_s: float | None) -> None:
        self._take("PATCH", path, body, content_type)

    def _take(self, method: str, path: str, body: bytes, content_type: str) -> None:
        self.requests.append((method, path, json.loads(body), content_type))
        if self.faults:
            raise self.faults.pop(0)


def make(name: str = "web", *, uid: str = "u", status: dict[str, Any] | None = None, generation: int = 1) -> Pod:
    meta = {"name": name, "namespace": "default", "uid": uid, "generation": generation}
    return msgspec.convert({"metadata": meta, "status": status or {}}, Pod)


@pytest.mark.parametrize("row", [row for row in RECORDED if row["uri"].endswith("/binding")][:3])
async def test_a_binding_as_recorded(row):
    client = Client()
    pod = make(row["body"]["metadata"]["name"], uid=row["body"]["metadata"]["uid"])
    await pods.bind(client, pod, row["body"]["target"]["name"])
    assert client.requests == [("POST", row["uri"], row["body"], row["contentType"])]


async def test_a_deletion_as_recorded():
    row = next(row for row in RECORDED if row["method"] == "DELETE")
    client = Client()
    await pods.delete(client, make(row["uri"].rpartition("/")[2]))
    assert client.requests == [("DELETE", row["uri"], row["body"], row["contentType"])]


def histories() -> list[Any]:
    """Each pod's recorded condition and nomination patches, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in RECORDED:
        if row["method"] == "PATCH" and "extendedResourceClaimStatus" not in row["body"]["status"]:
            found.setdefault(row["uri"], []).append(row)
    return [pytest.param(rows, id=uri.split("/")[-2]) for uri, rows in found.items()]


def merged(status: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a recorded patch to a status."""
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    for condition in patch.get("conditions", []):
        conditions[condition["type"]] = conditions.get(condition["type"], {}) | condition
    result = {**status, "conditions": list(conditions.values())}
    if "nominatedNodeName" in patch:
        result["nominatedNodeName"] = patch["nominatedNodeName"] or ""
    return result


@pytest.mark.parametrize("rows", histories())
def test_status_patches_as_recorded(rows):
    """From the state before and after each recorded patch, ours comes out the same."""
    status: dict[str, Any] = {}
    order = rows[0]["body"]["status"].get("$setElementOrder/conditions", [])
    if len(order) > 1:
        # Conditions that others had written before; only their types are known, and only they matter.
        status = {"conditions": [{"type": entry["type"], "status": "True"} for entry in order[:-1]]}
    for row in rows:
        patch = row["body"]["status"]
        if "nominatedNodeName" in patch and patch["nominatedNodeName"] is None and not status.get("nominatedNodeName"):
            pytest.fail("the recording takes back a nomination that was never made")
        after = merged(status, patch)
        wanted = None
        now = ""
        for entry in patch.get("conditions", []):
            whole = next(each for each in after["conditions"] if each["type"] == entry["type"])
            wanted = msgspec.convert({key: value for key, value in whole.items() if value is not None}, Condition)
            now = whole["lastTransitionTime"]
        nominated = after.get("nominatedNodeName") if "nominatedNodeName" in patch else None
        pod = make(status=_without_nulls(status))
        got = pods.status_patch(pod, now=now, condition=wanted, nominated_node_name=nominated)
        assert got == row["body"]
        assert json.dumps(got) == json.dumps(row["body"]), "fields in the same order"
        if row["code"] == 200:
            status = after


def _without_nulls(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        {key: value for key, value in condition.items() if value is not None}
        for condition in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}


FAILED = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="m")
HAD = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "m",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_a_condition_that_has_not_changed_is_not_patched_again():
    pod = make(status={"conditions": [HAD], "nominatedNodeName": "a"})
    assert pods.status_patch(pod, now="x", condition=FAILED) is None
    assert pods.status_patch(pod, now="x", condition=FAILED, nominated_node_name="a") is None
    assert pods.status_patch(pod, now="x") is None


def test_a_changed_status_has_a_new_transition_time():
    pod = make(status={"conditions": [{**HAD, "status": "True"}]})
    patch = pods.status_patch(pod, now="2026-02-02T00:00:00Z", condition=FAILED)
    assert patch["status"]["conditions"] == [
        {"lastTransitionTime": "2026-02-02T00:00:00Z", "status": "False", "type": "PodScheduled"}
    ]


def test_a_new_generation_travels_with_another_change():
    pod = make(status={"conditions": [HAD]}, generation=2)
    assert pods.status_patch(pod, now="x", condition=FAILED) is None
    patch = pods.status_patch(pod, now="x", condition=FAILED, nominated_node_name="b")
    assert patch["status"]["conditions"] == [{"observedGeneration": 2, "type": "PodScheduled"}]
    assert patch["status"]["nominatedNodeName"] == "b"


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(Conflict("x", code=409, reason="Conflict"), 4, id="a conflict"),
        pytest.param(ServerError("x", code=500, reason="InternalError"), 4, id="an internal error"),
        pytest.param(ConnectionFailed("cannot connect to x", was_sent=False), 4, id="nobody home"),
        pytest.param(ConnectionFailed("the connection broke", was_sent=True), 1, id="a cut connection"),
        pytest.param(RequestTimeout("no answer", was_sent=True), 1, id="no answer"),
        pytest.param(ServerError("x", code=504, reason="Timeout"), 1, id="a gateway timeout"),
        pytest.param(NotFound("x", code=404), 1, id="no such pod"),
    ],
)
async def test_what_is_tried_again(error, tries):
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    client = Client(*[error] * 9)
    with pytest.raises(type(error)):
        await pods.patch_status(client, make(), {"status": {}}, sleep=nap)
    assert len(client.requests) == tries
    assert [round(seconds, 2) for seconds in naps] == [pytest.approx(0.01 * 5**n, rel=0.15) for n in range(tries - 1)]


async def test_a_conflict_once_is_no_failure():
    client = Client(Conflict("x", code=409, reason="Conflict"))
    await pods.patch_status(client, make(), {"status": {"nominatedNodeName": "a"}})
    assert [request[:2] for request in client.requests] == [("PATCH", "/api/v1/namespaces/default/pods/web/status")] * 2
    assert client.requests[0][3] == "application/strategic-merge-patch+json"
