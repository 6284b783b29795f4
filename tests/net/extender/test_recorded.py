"""mooring against recorded calls: the same requests, decisions, scores and messages as kube-scheduler's."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from recorded import Scenario, play, scenarios

from mooring.api.errors import ConfigError
from mooring.core.config.load import config_from_dict

CHOICES = 4  # no scenario has more than four nodes to draw from
REPLAYED = [s for s in scenarios() if "refused" not in s]
REFUSED = [s for s in scenarios() if "refused" in s]
COMPARED = (
    "outcome",
    "node",
    "reason",
    "message",
    "nominatedNode",
    "victims",
    "totals",
    "evaluatedNodes",
    "feasibleNodes",
)


@pytest.mark.parity
@pytest.mark.parametrize("scenario", REPLAYED, ids=lambda s: s["id"])
def test_scenario(scenario: Scenario) -> None:
    """The recording is what some draw of lots gives, in every step; where no lots are drawn, the only one."""
    differences: list[str] = []
    for choices in product(range(CHOICES if is_left_to_chance(scenario) else 1), repeat=2):
        results, calls = play(scenario, choices)
        found = [
            difference
            for step, result, asked in zip(scenario["steps"], results, calls, strict=True)
            for difference in (*compare(step, result), *compare_calls(step, asked))
        ]
        if not found:
            return
        differences = differences or found
    pytest.fail("\n".join(differences), pytrace=False)


def is_left_to_chance(scenario: Scenario) -> bool:
    """Which of equal nodes loses its pods is random; ``differs`` checks which of equal nodes wins."""
    return str(scenario["id"]).startswith("preempt")


def compare(step: Scenario, result: dict[str, Any]) -> list[str]:
    want = step["expect"]
    fields = [name for name in COMPARED if name in want]
    found = [f"{name}: {result.get(name)!r}, recorded {want[name]!r}" for name in fields if differs(name, step, result)]
    if want["outcome"] == "scheduled" and result["scores"] != want.get("scores", {}):
        found.append(f"scores: {result['scores']}, recorded {want.get('scores')}")
    if result.get("extenderScores", {}) != want.get("extenderScores", {}):
        found.append(f"extenderScores: {result.get('extenderScores')}, recorded {want.get('extenderScores')}")
    if "then" in step:
        for name in ("outcome", "node"):
            if result["then"][name] != step["then"][name]:
                found.append(f"then.{name}: {result['then'][name]}, recorded {step['then'][name]}")
    return found


def differs(name: str, step: Scenario, result: dict[str, Any]) -> bool:
    want, got = step["expect"][name], result.get(name)
    totals = step["expect"].get("totals")
    if name == "node" and totals:  # one of the best, as theirs is
        return totals.get(got) != totals[want]
    if name == "message" and want and "expected at least one victim" in want:
        return sorted(words(want)) != sorted(words(got or ""))  # nodes come in any order there
    return bool(got != want)


def words(message: str) -> list[str]:
    return message.replace("[", "").replace("]", "").replace(",", "").split()


def compare_calls(step: Scenario, asked: list[Any]) -> list[str]:
    """The same calls with the same bodies, field by field; nodes within a body may come in any order."""
    attempts = step["attempts"] if "then" in step else 1
    recorded = [request for request in step["requests"] if request["attempt"] <= attempts]
    got = sorted((call.attempt, call.path, normal(call.body, call.attempt)) for call in asked)
    want = sorted((r["attempt"], r["path"], normal(r["body"], r["attempt"])) for r in recorded)
    if got == want:
        for call in asked:
            assert call.headers["Content-Type"] == "application/json"
            assert "Content-Length" in call.headers
        return []
    return [f"calls:\n   ours     {got}\n   recorded {want}"]


def normal(body: Any, attempt: int) -> str:
    body = json.loads(json.dumps(body))
    if attempt > 1:
        body.pop("Pod", None)  # by then the pod's status has changed, which does not happen here
    if body.get("NodeNames"):
        body["NodeNames"].sort()
    if body.get("Nodes"):
        body["Nodes"]["items"].sort(key=lambda node: node["metadata"]["name"])
    for victims in (body.get("NodeNameToVictims") or {}).values():
        victims["Pods"].sort(key=lambda pod: pod["metadata"]["name"])  # equally important ones come in any order
    for victims in (body.get("NodeNameToMetaVictims") or {}).values():
        victims["Pods"].sort(key=lambda pod: pod["UID"])
    return json.dumps(body, sort_keys=True)


@pytest.mark.parity
@pytest.mark.parametrize("scenario", REFUSED, ids=lambda s: s["id"])
def test_start_up_is_refused_in_the_same_words(scenario: Scenario) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_dict(scenario["config"])
    recorded = scenario["refused"].split('err="', 1)[1].removesuffix('"').replace('\\"', '"')
    assert str(caught.value) == recorded
