"""Recorded scenarios with extenders: replayed against a real HTTP server that gives the recorded answers."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from scripted_server import Script, make_certificate, serving

from mooring.api.clock import VirtualClock
from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.core.config.load import config_from_dict
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.handle import Nominations
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.net.extender.client import AskTogether, build_extenders
from mooring.net.extender.wire import RawObjects
from mooring.sim.replay import bound, describe, latest_time, load_object

GOLDEN = Path(__file__).parents[2] / "parity" / "golden" / "wire" / "extender.jsonl.gz"
Scenario = dict[str, Any]


@cache
def scenarios() -> list[Scenario]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Player:
    """A scheduler for one scenario: no queue, but everything an extender can notice."""

    def __init__(self, scenario: Scenario, script: Script, pick: Callable[[int], int]) -> None:
        self.script = script
        self.cluster = ClusterState()
        self.nominations = Nominations()
        self.raw = RawObjects()
        config = config_from_dict(scenario["config"])
        self.extenders = build_extenders(config.extenders, self.raw)
        self.session = open_session(
            config,
            self.cluster,
            clock=VirtualClock(latest_time(scenario["objects"])),
            nominator=self.nominations,
            prepare=lambda handle: setattr(handle, "pick", pick),
            extenders=self.extenders,
            ask_all=AskTogether(),
        )
        for value in scenario["objects"]:
            self._put(value)

    def close(self) -> None:
        for extender in self.extenders:
            extender.close()

    def _put(self, value: Mapping[str, Any]) -> None:
        obj = load_object(value)
        if obj is not None:
            self.cluster.put(obj)
            self.raw.put(obj, value)

    def step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        pod: Pod = from_plain(Pod, step["pod"])
        self.raw.put(pod, step["pod"])
        self.script.attempt = 1
        decision, result = self._attempt(pod)
        while "then" in step and self.script.attempt < step["attempts"]:
            self.script.attempt += 1
            for victim in decision.victims:
                self.cluster.remove_pod(victim.uid)
            again = copy.copy(pod)
            again.status = copy.copy(pod.status)
            again.status.nominated_node_name = decision.nominated_node or ""
            decision, result["then"] = self._attempt(again)
            result["victims"] = sorted({*result["victims"], *result["then"].get("victims", ())})
        for effect in step.get("effects") or ():
            self._put(effect)
        if step["afterwards"].startswith("bound:"):
            self.cluster.put(bound(self.session, pod, step["afterwards"].removeprefix("bound:")))
        return result

    def _attempt(self, pod: Pod) -> tuple[ScheduleResult, dict[str, Any]]:
        profile = self.session.profiles[pod.spec.scheduler_name]
        decision = self.session.engine.decide(self.cluster.info(pod), profile)
        result = describe(decision, profile)
        result["evaluatedNodes"] = decision.evaluated_nodes
        result["feasibleNodes"] = decision.feasible_nodes
        result["extenderScores"] = decision.extender_scores
        result["plugins"] = decision.unschedulable_plugins
        extenders = self.session.engine.extenders
        if decision.outcome is Outcome.SCHEDULED and extenders is not None:
            status = extenders.bind(decision.pod, decision.node or "")
            if status is not None and not status.is_success:
                result |= {
                    "outcome": "unschedulable",
                    "node": None,
                    "reason": "SchedulerError",
                    "message": status.message,
                    "nominatedNode": None,
                    "victims": [],
                }
        return decision, result


def prepared(scenario: Scenario, script: Script) -> tuple[Scenario, Any]:
    """The scenario with a real port and real certificates, and the server to run it against."""
    tls = None
    text = json.dumps(scenario)
    if "<caData>" in text or "tlsConfig" in text:
        mine, other = make_certificate("127.0.0.1"), make_certificate("127.0.0.1")
        tls = mine.context()
        trusted = other if "wrong" in scenario["id"] else mine
        text = text.replace("<caData>", base64.b64encode(trusted.certificate).decode())
    if nobody_listens(scenario):
        with socket.socket() as sock:  # a port that was free a moment ago
            sock.bind(("127.0.0.1", 0))
            script.port = sock.getsockname()[1]
        return json.loads(text.replace("PORT", str(script.port))), nullcontext(script)
    return json.loads(text), serving(script, tls)


def nobody_listens(scenario: Scenario) -> bool:
    return any("connection refused" in (s["expect"].get("message") or "") for s in scenario["steps"])


def play(scenario: Scenario, choices: Sequence[int]) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Results and calls per step; ``choices``, one per attempt, are taken wherever upstream draws lots."""
    script = Script()
    real, server = prepared(scenario, script)
    results, calls = [], []
    with server:
        real = json.loads(json.dumps(real).replace("PORT", str(script.port)))
        player = Player(real, script, lambda n: choices[(script.attempt - 1) % len(choices)] % n)
        try:
            for step in real["steps"]:
                script.answers.clear()
                script.asked.clear()
                for request in step["requests"]:
                    script.say(request["path"], request["answer"])
                result = player.step(step)
                results.append(json.loads(json.dumps(result, default=sorted).replace(str(script.port), "PORT")))
                calls.append(list(script.asked))
        finally:
            player.close()
    return results, calls
