"""What extenders answered is in the record, and is answered again when an attempt is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mooring.cli.main import run
from mooring.core.framework.extender import ExtenderError, ExtenderFilterResult, Prioritized, VictimsOnNode
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.record import scheduler_state as extenders
from mooring.record.entries import Attempt
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from mooring.sim.player import run_in_virtual_time
from mooring.sim.scenario import Scenario, ScenarioCluster, node, pod
from mooring.sim.scenarios import extender as landlord
from mooring.sim.worlds import PlaySettings

from .test_live import played
from .test_reopening import check_all


class Moody:
    """Fails for some pods, scores what it likes, and lets no pod of node1 be evicted."""

    name = "moody"
    is_filter = is_prioritizer = supports_preemption = True
    is_binder = False

    def __init__(self, is_ignorable: bool) -> None:
        self.is_ignorable = is_ignorable
        self._asked = 0

    def is_interested(self, pod: PodInfo) -> bool:
        return "boring" not in pod.pod.name

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        self._asked += 1
        if self._asked % 3 == 0:
            raise ExtenderError("moody is in a mood")
        return ExtenderFilterResult(list(reversed(nodes)))

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        return Prioritized([(info.name, self._asked + i) for i, info in enumerate(nodes)], 2)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        return {name: each for name, each in victims.items() if name != "node1"}

    def bind(self, pod: PodInfo, node_name: str) -> None:
        raise NotImplementedError


async def _crowd(cluster: ScenarioCluster) -> None:
    await cluster.create(*(node(f"node{i}", cpu="2") for i in (1, 2, 3)))
    for i in range(8):
        await cluster.create(pod("boring" if i == 4 else f"p{i}", cpu="1"))
        await cluster.advance(3)
    await cluster.create(pod("vip", cpu="2", priorityClassName="system-cluster-critical"))
    await cluster.advance(60)


@pytest.mark.parametrize("is_ignorable", [True, False], ids=["one that may be ignored", "one that may not"])
def test_attempts_with_an_extender_decide_again_as_they_did(is_ignorable: bool) -> None:
    attempts = check_all(played(Scenario("crowd", "", _crowd, extenders=(Moody(is_ignorable),))))
    verbs = {answer.verb for attempt in attempts for answer in attempt.answers or ()}
    assert verbs == {"filter", "prioritize", "preempt"}
    assert any(answer.error for attempt in attempts for answer in attempt.answers or ())
    assert any(attempt.victims for attempt in attempts)


def test_secrets_in_the_configuration_are_not_in_the_record() -> None:
    entry = {"urlPrefix": "http://secret@127.0.0.1:1/e?token=secret", "filterVerb": "filter", "ignorable": True}
    record = played(Scenario("crowd", "", _crowd, config={"extenders": [entry]}, extenders=(Moody(True),)))
    configuration = str(record.header.configuration)
    assert "http://***@127.0.0.1:1/e?token=***" in configuration and "secret" not in configuration


def test_answers_that_name_too_many_nodes_are_marked_as_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "landlord.mrec"
    monkeypatch.setattr(extenders, "MAX_NAMES", 2)
    recorder = Recorder.to_file(path, source="scenario")
    story = Scenario("landlord", "", landlord.scenario, extenders=landlord.EXTENDERS)
    run_in_virtual_time(story, PlaySettings(write=lambda text: None, observers=(recorder,)))
    recorder.close()
    with Record.open(path) as record:
        left_out = [entry.number for _, entry in record.attempts() if entry.answers is None]
    assert left_out
    run(["replay", str(path), "--open", str(left_out[0])])
    warning = "warning: extenders were asked about this attempt; what they answered is not in the record"
    assert warning in capsys.readouterr().err
    heard = next(number for number in range(1, left_out[0]) if number not in left_out)
    assert run(["replay", str(path), "--open", str(heard)]) == 0
    assert warning not in capsys.readouterr().err


def test_another_total_is_a_difference() -> None:
    record = played(Scenario("crowd", "", _crowd))
    scored = next(entry for _, entry in record.attempts() if entry.score is not None)
    moment = record.attempt(scored.number)
    assert moment.difference(moment.decide()) == ""
    moment.attempt = Attempt(**{name: getattr(scored, name) for name in scored.__struct_fields__} | {"score": 1})
    assert moment.difference(moment.explain()) == f"a total of 1 for {scored.node}, now {scored.score}"
