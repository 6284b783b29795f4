"""The conformance kit without sockets: extenders that pass, and those that do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.net.extender.conformance import ConformancePlan, ConformanceReport, Kit, latency, recorded_requests
from mooring.net.extender.http_client import ExtenderReply, NoAnswer
from mooring.net.extender.requests import BadExtenderRequest
from mooring.net.extender.sdk import Filtered, HandlerError, Node, Pod, Victims
from mooring.net.extender.server import error_answer, serve_object

PLAN = ConformancePlan(nodes=20, calls=2, concurrency=2, preempt_verb="preempt")


class Direct:
    """A client that calls an extender's functions in place of a server."""

    def __init__(
        self, change: Callable[[str, ExtenderReply], ExtenderReply] = lambda verb, reply: reply, **functions: Any
    ) -> None:
        self.verbs = serve_object(SimpleNamespace(**{**GOOD, **functions}), "x").verbs
        self.asked: list[tuple[str, bytes]] = []
        self._change = change

    def post(self, url: str, body: bytes, *, may_repeat: bool = True) -> ExtenderReply:
        verb = url.rpartition("/")[2]
        self.asked.append((verb, body))
        try:
            return self._change(verb, ExtenderReply(200, self.verbs[verb](body)[0]))
        except (BadExtenderRequest, HandlerError) as error:
            return ExtenderReply(400, error_answer(verb, str(error)))


def keep_ssd(pod: Pod, nodes: list[Node]) -> Filtered:
    return Filtered([node for node in nodes if node.labels.get("disk") == "ssd"], otherwise="no ssd")


def score(pod: Pod, node: Node) -> int:
    return 5


def agree(pod: Pod, victims: dict[str, Victims]) -> dict[str, Victims]:
    return victims


GOOD = {"filter": keep_ssd, "prioritize": score, "preempt": agree}


def run(client: Any, plan: ConformancePlan = PLAN) -> ConformanceReport:
    return Kit("http://me:secret@host/ext", plan, client).run()


def problems(report: ConformanceReport) -> dict[str, list[str]]:
    return {check.name: check.problems for check in report.checks if check.problems}


def test_a_good_extender_passes_without_a_warning() -> None:
    client = Direct()
    report = run(client)
    assert problems(report) == {} and report.passed
    assert [warning for check in report.checks for warning in check.warnings] == []
    assert {(found.verb, found.nodes) for found in report.latencies} == {("filter", 20), ("prioritize", 20)}
    assert report.url == "http://me:***@host/ext"
    names = [check.name for check in report.checks]
    assert names[0] == "it answers" and any("recorded request" in name for name in names)
    assert {verb for verb, _ in client.asked} == {"filter", "prioritize", "preempt"}


def test_a_good_extender_that_takes_names_passes_too() -> None:
    def keep_first(pod: Pod, nodes: list[str]) -> Filtered:
        return Filtered(nodes[:1], otherwise="not the first")

    def score_name(pod: Pod, node: str) -> int:
        return 1

    client = Direct(filter=keep_first, prioritize=score_name)
    report = run(client, ConformancePlan(nodes=20, calls=1, concurrency=1, by_name=True))
    assert problems(report) == {}
    sent = [json.loads(body) for verb, body in client.asked if body.endswith(b"]}")]
    assert all(body["Nodes"] is None and body["NodeNames"] for body in sent)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(ExtenderReply(500, b"{}"), "status 500", id="another status"),
        pytest.param(ExtenderReply(200, b"oops"), "a scheduler would say: invalid character 'o'", id="not JSON"),
        pytest.param(ExtenderReply(200, b'{"Error":"unhappy"}'), "Error: unhappy", id="always an error"),
    ],
)
def test_a_bad_filter_fails_every_check_of_it(changed: ExtenderReply, said: str) -> None:
    found = problems(run(Direct(lambda verb, reply: changed if verb == "filter" else reply)))
    assert all(said in found[f"filter {count} nodes"][0] for count in ("three", "100"))
    assert not any(name.startswith(("prioritize", "preempt")) for name in found)


def test_an_extender_that_changes_its_mind_is_warned_of() -> None:
    calls = iter(range(1_000_000))

    def moody(pod: Pod, nodes: list[Node]) -> Filtered:
        return Filtered(nodes[: next(calls) % len(nodes)], otherwise="not today")

    report = run(Direct(filter=moody))
    assert [check.name for check in report.checks if check.warnings] == ["filter gives the same answer twice"]


def test_an_extender_that_takes_anything_is_warned_of() -> None:
    class Careless(Direct):
        def post(self, url: str, body: bytes, *, may_repeat: bool = True) -> ExtenderReply:
            reply = super().post(url, body)
            return reply if reply.status == 200 else ExtenderReply(200, b"{}")

    report = run(Careless())
    (check,) = [check for check in report.checks if check.name == "filter: invalid requests are answered"]
    assert (
        check.passed and len(check.warnings) == 6 and check.warnings[0].startswith("an empty body: is answered as if")
    )


@pytest.mark.parametrize(
    ("dies_at", "failed"),
    [
        pytest.param(0, ["it answers"], id="immediately"),
        pytest.param(3, None, id="later"),
    ],
)
def test_an_extender_that_dies(dies_at: int, failed: list[str] | None) -> None:
    class Dies(Direct):
        def post(self, url: str, body: bytes, *, may_repeat: bool = True) -> ExtenderReply:
            if len(self.asked) >= dies_at:
                raise NoAnswer("connection refused")
            return super().post(url, body)

    report = run(Dies())
    found = problems(report)
    assert not report.passed and all("connection refused" in texts[0] for texts in found.values())
    if failed is None:
        assert len(found) == len(report.checks) - 1, "everything but the first"
    else:
        assert list(found) == failed == [check.name for check in report.checks], "and nothing else is tried"


def test_progress_is_reported() -> None:
    told: list[str] = []
    report = Kit("http://host", PLAN, Direct(), told.append).run()  # type: ignore[arg-type]
    assert told == [check.name for check in report.checks]


def test_the_same_seed_sends_the_same_requests() -> None:
    first, second, other = Direct(), Direct(), Direct()
    plan = ConformancePlan(nodes=20, calls=1, concurrency=1)
    run(first, plan)
    run(second, plan)
    run(other, ConformancePlan(nodes=20, calls=1, concurrency=1, seed=2))
    assert first.asked == second.asked != other.asked


@pytest.mark.parametrize(
    ("seconds", "p50", "p99", "largest"),
    [
        pytest.param([0.001], 1, 1, 1, id="one call"),
        pytest.param([i / 1000 for i in range(1, 101)], 51, 100, 100, id="a hundred calls"),
    ],
)
def test_latencies(seconds: list[float], p50: float, p99: float, largest: float) -> None:
    found = latency("filter", 7, list(reversed(seconds)))
    assert (found.calls, found.nodes) == (len(seconds), 7)
    assert (found.p50_ms, found.p99_ms, found.max_ms) == pytest.approx((p50, p99, largest))


def test_recorded_requests_have_both_forms() -> None:
    kinds = {(request["verb"], request["by_name"]) for request in recorded_requests()}
    assert {("filter", False), ("filter", True), ("prioritize", False), ("prioritize", True)} <= kinds
