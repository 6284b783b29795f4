"""Random stories on the embedded control plane: every attempt that is opened again decides as it did."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring import sdk
from mooring.controlplane.server import ControlPlane
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.live.flags import parse_flags
from mooring.live.observer import SchedulerObserver
from mooring.live.process import OK, SchedulerProcess
from mooring.live.settings import load_settings
from mooring.net.credentials import StaticCredentials
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.record.background import record_live, running
from mooring.record.entries import Note, Put
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.sim.library import built_in
from mooring.sim.player import run_in_virtual_time
from mooring.sim.scenario import Scenario, ScenarioCluster, node, pod
from mooring.sim.scenarios import volumes
from mooring.sim.worlds import PlaySettings

from .conftest import read
from .test_reopening import check_all

STORIES = built_in()


def played(story: Scenario) -> Record:
    sink = io.BytesIO()
    recorder = Recorder(Immediately(sink), source="scenario", keyframe_every=1, batch=1)  # many keyframes
    run_in_virtual_time(story, PlaySettings(write=lambda text: None, observers=(recorder,)))
    recorder.close()
    return Record(io.BytesIO(sink.getvalue()), story.name, [*story.plugins, *story.plugin_files])


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_stories_decide_again_as_they_did(story: Scenario) -> None:
    assert check_all(played(story))


def test_what_a_story_says_is_in_its_record() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        cluster.say("nothing happens")

    record = played(Scenario("quiet", "A quiet story", play))
    notes = [entry for _, entry in record.entries() if isinstance(entry, Note)]
    assert notes == [Note("A quiet story", "say"), Note("nothing happens", "say")]


def test_promised_volumes_are_promised_again() -> None:
    """One volume, two pods that want it: the second is refused before anything is written about the first."""

    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("node1"), node("node2"))
        await cluster.apply(volumes.STORAGE)
        await cluster.create(volumes.claim("a", "local"), volumes.claim("b", "local"))
        await cluster.create(*(pod(f"p-{name}", volumes=volumes.with_claim(name)) for name in "ab"))
        await cluster.advance(30)

    attempts = check_all(played(Scenario("volumes", "", play)))
    assert [entry.node for entry in attempts[:2]] == ["node1", ""]
    assert "didn't find available persistent volumes to bind" in attempts[1].message


class Known(SchedulerObserver):
    """Knows the scheduler of a story."""

    scheduler: Any = None

    def configured(self, scheduler: Any) -> None:
        self.scheduler = scheduler


PACKING = {
    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
    "schedulerName": "default-scheduler",
}


def reloaded(recorder: Recorder) -> None:
    """Half of the pods are spread over the nodes; then the configuration is another one, and the rest is packed."""
    known = Known()

    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(*(node(f"node{i}", cpu="8") for i in range(3)))
        for i in range(12):
            if i == 6:
                known.scheduler.reload(config_from_dict({"profiles": [PACKING]}, Features()))
            await cluster.create(pod(f"p{i}", cpu="1"))
            await cluster.advance(1)

    run_in_virtual_time(
        Scenario("reload", "", play), PlaySettings(write=lambda text: None, observers=(known, recorder))
    )
    recorder.close()


@pytest.mark.parametrize("every", [1, 10_000], ids=["a keyframe after it", "no keyframe after it"])
def test_attempts_after_a_reload_are_decided_by_the_configuration_of_then(every: int) -> None:
    sink = io.BytesIO()
    reloaded(Recorder(Immediately(sink), source="scenario", keyframe_every=every, batch=1))
    attempts = check_all(read(sink.getvalue()))
    assert [len({entry.node for entry in some}) for some in (attempts[:6], attempts[6:])] == [3, 1]


class Teams(sdk.NodeFilter):
    """Refuses nodes that are another team's, by annotations of nodes and pods."""

    name = "Teams"
    traits = sdk.Traits(annotations=("example.com/team",))

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        team = "example.com/team"
        is_own = pod.metadata.annotations.get(team) == node.annotations.get(team)
        return sdk.SUCCESS if is_own else sdk.unresolvable("another team's node")


@pytest.mark.parametrize("every", [1, 10_000], ids=["many keyframes", "no keyframe is due"])
@pytest.mark.parametrize("batch", [1, 1000])
def test_annotations_that_a_plugin_reads_are_recorded_from_the_reload_on_that_enables_it(
    every: int, batch: int
) -> None:
    known, sink = Known(), io.BytesIO()
    recorder = Recorder(Immediately(sink), source="scenario", keyframe_every=every, batch=batch)
    teams = {"plugins": {"filter": {"enabled": [{"name": "Teams"}]}}, "schedulerName": "default-scheduler"}

    def of(obj: dict[str, Any], team: str) -> dict[str, Any]:
        obj["metadata"]["annotations"] = {"example.com/team": team, "example.com/note": "secret"}
        return obj

    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(*(of(node(f"node-{team}", cpu="8"), team) for team in "ab"))
        await cluster.create(of(pod("early", cpu="9"), "b"))
        await cluster.advance(1)
        known.scheduler.reload(config_from_dict({"profiles": [teams]}, Features()))
        await cluster.advance(30)
        await cluster.create(*(of(pod(f"p{i}", cpu="1"), "b") for i in range(4)))
        await cluster.advance(30)

    story = Scenario("teams", "", play, plugins=(Teams,))
    run_in_virtual_time(story, PlaySettings(write=lambda text: None, observers=(known, recorder)))
    recorder.close()
    record = Record(io.BytesIO(sink.getvalue()), "teams", [Teams])
    attempts = check_all(record)
    assert {entry.node for entry in attempts if entry.key != "default/early"} == {"node-b"}
    early = record.attempt(next(entry.number for entry in attempts[1:] if entry.key == "default/early"))
    assert [pod.metadata.annotations for pod in early.cluster.pending] == [{"example.com/team": "b"}]
    seen = [entry.object.metadata.annotations for _, entry in record.entries() if isinstance(entry, Put)]
    assert not any("example.com/note" in each for each in seen)
    first = [each for time, entry in record.entries(until=record.first_time + 0.5)
             if isinstance(entry, Put) for each in entry.object.metadata.annotations]  # fmt: skip
    assert not first, "they were not read then"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from("abcd"), st.sampled_from(["1", "2", "4"])),
        st.tuples(st.just("gone"), st.sampled_from("abcd"), st.just("")),
        st.tuples(st.just("cordon"), st.sampled_from("abcd"), st.just("")),
        st.tuples(st.just("pod"), st.sampled_from(["1", "2"]), st.sampled_from(["", "high", "spread"])),
        st.tuples(st.just("delete"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 12.0]), st.just("")),
    ),
    min_size=3,
    max_size=14,
)
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}


def story_of(steps: list[tuple[Any, ...]]) -> Scenario:
    async def play(cluster: ScenarioCluster) -> None:
        nodes, pods = {"a"}, 0
        await cluster.apply(node("a", cpu="2"))
        for what, one, two in steps:
            if what == "node":
                nodes.add(one)
                await cluster.apply(node(one, cpu=two))
            elif what == "gone" and one in nodes:
                nodes.discard(one)
                await cluster.delete(f"node/{one}", grace_period_s=0)
            elif what == "cordon" and one in nodes:
                await cluster.cordon(one)
            elif what == "pod":
                more: dict[str, Any] = {"topologySpreadConstraints": [SPREAD]} if two == "spread" else {}
                if two == "high":
                    more["priorityClassName"] = "system-cluster-critical"
                await cluster.create(pod(f"p{pods}", cpu=one, labels={"app": "a"}, **more))
                pods += 1
            elif what == "delete" and one < pods and await cluster.get(f"pod/p{one}"):
                await cluster.delete(f"pod/p{one}")
            elif what == "wait":
                await cluster.advance(one)
        await cluster.advance(40)

    return Scenario("random", "", play)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(STEPS)
def test_random_stories_decide_again_as_they_did(steps: list[tuple[Any, ...]]) -> None:
    check_all(played(story_of(steps)))


# ---- in real time, with a thread that writes -----------------------------------------------------------------------


def config_of(plane: ControlPlane) -> ClientConfig:
    return ClientConfig(plane.url, credentials=StaticCredentials(f"Bearer {plane.token}"))


@pytest.mark.e2e
async def test_a_live_scheduler_decides_again_as_it_did(tmp_path: Path) -> None:
    path = tmp_path / "live.mrec"
    async with ControlPlane(use_tls=False) as plane, RestClient(config_of(plane), qps=-1) as client:
        from mooring.sim.backend import Backend

        backend = Backend(client)
        for i in range(4):
            await backend.create(node(f"n{i}", cpu="2", zone=f"z{i % 2}"))
        flags = load_settings(parse_flags(["--secure-port=0", "--leader-elect=false"]))
        recorder = record_live(str(path), max_bytes=16 << 20, max_age_s=3600)
        async with running(recorder):
            process = SchedulerProcess(flags, lambda: config_of(plane), [recorder])
            task = asyncio.create_task(process.run(signals=False))
            async with asyncio.timeout(60):
                await process.ready.wait()
                for i in range(12):
                    name = "system-cluster-critical" if i > 9 else ""
                    await backend.create(pod(f"p{i}", cpu="1", **({"priorityClassName": name} if name else {})))
                while recorder.attempts < 12:  # noqa: ASYNC110 – eight fit, two wait, two evict others
                    await asyncio.sleep(0.01)
            process.stop()
            assert await task == OK
    with Record.open(path) as record:
        assert record.is_complete and record.header.source == "scheduler"
        attempts = check_all(record)
        assert any(entry.victims for entry in attempts)
    assert read(path.read_bytes()).num_attempts == len(attempts)
