"""Recorded scenarios with extenders, lived through: API server, scheduler, queue and extender, all over HTTP.

The replay in tests/extender compares bodies and scores of single attempts; here
it is what only a whole scheduler shows: how often a pod is tried, and what its status says in the end.
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.parity]

GOLDEN = Path(__file__).parents[1] / "parity" / "golden" / "wire" / "extender.jsonl.gz"
QUIET_S = 0.5  # long enough for a second and third attempt, too short for one after a backoff
LEFT_OUT = ("preempt", "tls", "bind")  # victims' uids are the API server's own; the others try nothing twice

_spec = importlib.util.spec_from_file_location(
    "scripted_server", Path(__file__).parents[1] / "net/extender/scripted_server.py"
)
assert _spec is not None and _spec.loader is not None
scripted = sys.modules.setdefault("scripted_server", importlib.util.module_from_spec(_spec))
if not hasattr(scripted, "serving"):
    _spec.loader.exec_module(scripted)


def scenarios() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [s for s in found if "refused" not in s and not s["id"].startswith(LEFT_OUT) and _fails(s)]


def _fails(scenario: dict[str, Any]) -> bool:
    expect = scenario["steps"][0]["expect"]
    return expect["outcome"] == "unschedulable" and "connection refused" not in expect["message"]


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda s: s["id"])
async def test_a_refused_pod_is_tried_as_often_as_recorded(world: Any, scenario: dict[str, Any]) -> None:
    step = scenario["steps"][0]
    for value in scenario["objects"]:
        if value["kind"] in ("Node", "Pod", "PriorityClass"):
            status = value.get("status")
            await world.create(
                value["kind"], {k: v for k, v in fresh(value).items() if k not in ("kind", "apiVersion")}
            )
            if value["kind"] == "Node":
                await world.patch("Node", value["metadata"]["name"], {"status": status}, "status")
    script = scripted.Script()
    with scripted.serving(script):
        config = json.loads(json.dumps(scenario["config"]).replace("PORT", str(script.port)))
        for request in step["requests"]:
            script.say(request["path"], request["answer"])
        async with world.scheduler(config):
            pod = {k: v for k, v in fresh(step["pod"]).items() if k not in ("kind", "apiVersion", "status")}
            await world.create("Pod", pod)
            want = step["expect"]
            await world.condition(pod["metadata"]["name"], reason=want["reason"])
            await asyncio.sleep(QUIET_S)  # nothing may happen, and that takes time to see
            condition = await world.condition(pod["metadata"]["name"], reason=want["reason"])
            assert condition["message"] == want["message"].replace("PORT", str(script.port))
        asked = [asked.path for asked in script.asked]
    assert sorted(asked) == sorted(request["path"] for request in step["requests"])


def fresh(value: dict[str, Any]) -> dict[str, Any]:
    """An object without what the API server gives."""
    made = copy.deepcopy(value)
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        made["metadata"].pop(key, None)
    return made
