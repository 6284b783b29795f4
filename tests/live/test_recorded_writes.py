"""Bindings, status patches and deletions beside kube-scheduler's, byte for byte where they are JSON."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.meta import Condition
from mooring.core.state.cluster import ClusterState
from mooring.live.status_patch import status_patch
from mooring.live.writer import ApiWriter

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "wire" / "pods.jsonl").read_text().splitlines()]


class Client:
    """Writes requests down."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any, str]] = []

    async def create(self, path: str, body: bytes) -> None:
        self.requests.append(("POST", path, json.loads(body), "application/json"))

    async def delete(self, path: str, body: bytes) -> None:
        self.requests.append(("DELETE", path, json.loads(body), "application/json"))

    async def patch(self, path: str, body: bytes, *, content_type: str) -> None:
        self.requests.append(("PATCH", path, json.loads(body), content_type))


def writer(client: Client) -> ApiWriter:
    return ApiWriter(client, SimpleNamespace(record=None), {})


def make(name: str = "web", *, uid: str = "u", status: dict[str, Any] | None = None, generation: int = 1) -> Pod:
    meta = {"name": name, "namespace": "default", "uid": uid, "generation": generation}
    return msgspec.convert({"metadata": meta, "status": status or {}}, Pod)


@pytest.mark.parametrize("row", [row for row in RECORDED if row["uri"].endswith("/binding")][:3])
async def test_a_binding_as_recorded(row):
    client = Client()
    pod = make(row["body"]["metadata"]["name"], uid=row["body"]["metadata"]["uid"])
    await writer(client).bind(ClusterState().info(pod), row["body"]["target"]["name"])
    assert client.requests == [("POST", row["uri"], row["body"], row["contentType"])]


async def test_a_deletion_as_recorded_but_of_this_pod_only():
    row = next(row for row in RECORDED if row["method"] == "DELETE")
    client = Client()
    await writer(client).delete_pod(make(row["uri"].rpartition("/")[2]))
    this_pod = {"preconditions": {"uid": "u"}}
    assert client.requests == [("DELETE", row["uri"], row["body"] | this_pod, row["contentType"])]


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
async def test_status_patches_as_recorded(rows):
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
        now = 0.0
        for entry in patch.get("conditions", []):
            whole = next(each for each in after["conditions"] if each["type"] == entry["type"])
            wanted = msgspec.convert({key: value for key, value in whole.items() if value is not None}, Condition)
            now = datetime.fromisoformat(whole["lastTransitionTime"]).timestamp()
        nominated = after.get("nominatedNodeName") if "nominatedNodeName" in patch else None
        pod = make(status=_without_nulls(status))
        got = status_patch(pod, now, condition=wanted, nominated_node=nominated)
        assert json.dumps(got) == json.dumps(row["body"]), "the same fields in the same order"
        client = Client()
        await writer(client).patch_pod_status("default", row["uri"].split("/")[-2], got)
        assert client.requests == [("PATCH", row["uri"], row["body"], row["contentType"])]
        if row["code"] == 200:
            status = after


def _without_nulls(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        {key: value for key, value in condition.items() if value is not None}
        for condition in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}
