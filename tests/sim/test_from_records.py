"""A simulation continues from a record's moment, and plays a record's pods under another configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.errors import MooringError
from mooring.core.framework.cycle_state import CycleState
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from mooring.sdk import NodeScore, NodeView, Pod
from mooring.sim.imports.recorded import import_own_record
from mooring.sim.imports.story import story_of_files
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.simulate import run_scenario


class FirstNode(NodeScore):
    """Prefers nodes by their names, so that no two of them are equally good."""

    name = "FirstNode"

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        return 100 - int(node.name.removeprefix("node"))


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "FirstNode"}]}}}],
}
NODES = "- nodes: {count: 3, cpu: '4', zones: [a, b]}\n"


def story(steps: str) -> Scenario:
    found = parse_scenario(f"steps:\n{steps}", source="story.yaml", folder=Path(), name="story")
    return replace(found, config=CONFIG, plugins=(FirstNode,))


def recorded(steps: str, path: Path) -> Simulation:
    recorder = Recorder.to_file(path, source="simulation")
    try:
        found = run_scenario(story(steps), observers=(recorder,), keeps_placements=True)
    finally:
        recorder.close()
    assert not found.failure
    return found


def going_on(name: str, **changes: Any) -> Simulation:
    found = run_scenario(replace(story_of_files([name]), plugins=(FirstNode,), **changes), keeps_placements=True)
    assert not found.failure
    return found


def placements(found: Simulation, since_s: float = 0.0) -> dict[str, tuple[str, float, int]]:
    assert found.placements is not None
    return {
        key: (each.node, round(each.at_s - since_s, 3), each.attempts)
        for key, each in found.placements.items()
        if each.at_s > since_s
    }


# ---- the same as if nothing had been interrupted ---------------------------------------------------------------------

KINDS = st.sampled_from(
    [
        "cpu: '1', run: 70s",
        "cpu: '3', run: 45s",
        "cpu: '2', run: 100s, priority: 10, spec: {terminationGracePeriodSeconds: 7}",
        "cpu: '4', run: 33s",
        "cpu: 500m",
    ]
)
HAPPENINGS = st.sampled_from(["- cordon: node1\n", "- uncordon: node1\n", "- drain: node2\n", "- delete: node/node3\n"])


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    workloads=st.lists(st.tuples(KINDS, st.sampled_from(["7s", "11s"])), min_size=1, max_size=3),
    happenings=st.lists(HAPPENINGS, max_size=2, unique=True),
    moment_s=st.sampled_from([30, 60, 90, 120]),
)
def test_a_simulation_continues_from_a_moment_as_recorded(
    tmp_path_factory: pytest.TempPathFactory, workloads: list[tuple[str, str]], happenings: list[str], moment_s: int
) -> None:
    steps = NODES
    for i, (kind, every) in enumerate(workloads):
        steps += f"- workload: {{name: 'w{i}-{{i}}', count: 8, every: {every}, {kind}}}\n- advance: 1.37s\n"
    for what in happenings:
        steps += f"- advance: 31.9s\n{what}"
    path = tmp_path_factory.mktemp("record") / "day.mrec"
    whole = recorded(f"{steps}- advance: 3m\n- advance: end\n", path)
    rest = going_on(f"{path}@{moment_s}s")
    if whole.evicted:  # how long a victim would have run is not in the record: all before the first one is the same
        assert whole.evictions is not None
        limit_s = min(whole.evictions.values())
        if limit_s <= moment_s:
            return
        kept = {key: each for key, each in placements(whole, moment_s).items() if each[1] < limit_s - moment_s}
        assert kept.items() <= placements(rest).items()
    else:
        assert placements(rest) == placements(whole, moment_s)
        assert rest.pending.keys() == whole.pending.keys()


# ---- what the start is like ------------------------------------------------------------------------------------------


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Three nodes, one of them silent from 20 s on; a full cluster with three pods in the queue at 90 s."""
    path = tmp_path / "day.mrec"
    steps = (
        NODES + "- workload: {name: 'w-{i}', count: 10, every: 1s, cpu: '1', run: 200s}\n"
        "- advance: 20s\n- fail: node3\n- advance: 1m\n"
        "- workload: {name: 'late-{i}', count: 3, every: 1s, cpu: '3', run: 100s}\n- advance: 10m\n"
    )
    recorded(steps, path)
    return path


def test_pods_wait_where_they_waited(day: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.mrec"
    recorder = Recorder.to_file(second, source="simulation")
    scenario = replace(story_of_files([f"{day}@90s"]), plugins=(FirstNode,))
    run_scenario(scenario, until_s=2, observers=(recorder,))
    recorder.close()
    with Record.open(day, (FirstNode,)) as before, Record.open(second, (FirstNode,)) as after:
        was, now = before.moment(before.first_time + 90), after.moment(after.first_time + 0.001)
        assert after.first_time == before.first_time + 90
        assert len(was.queue) == 3

        def waiting(moment: Any) -> dict[str, tuple[Any, ...]]:
            return {each.key: (each.place, each.tries, each.plugins, each.message, round(each.added, 3))
                    for each in moment.queue.values()}  # fmt: skip

        assert waiting(now) == waiting(was)
        assert {info.pod.key: info.pod.spec.node_name for info in now.state.pods()} == {
            info.pod.key: info.pod.spec.node_name for info in was.state.pods()
        }
        silent = now.state.table.nodes["node3"].node
        assert silent is not None and [each.key for each in silent.spec.taints] == [
            "node.kubernetes.io/unreachable", "node.kubernetes.io/unreachable"]  # fmt: skip


CLAIM = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"


@pytest.mark.parametrize(
    "volumes", ["", f"volumes: [{{name: v, ephemeral: {{volumeClaimTemplate: {{spec: {CLAIM}}}}}}}], "]
)
def test_a_gate_that_was_removed_is_removed_again(tmp_path: Path, volumes: str) -> None:
    """Also for a pod that is stored because controllers have to see it, whose volume is never bound here."""
    gated = f"{{schedulingGates: [{{name: quota}}], {volumes}containers: [{{name: c, image: i}}]}}"
    recorded(
        f"{NODES}- apply: {{apiVersion: v1, kind: Pod, metadata: {{name: gated}}, spec: {gated}}}\n"
        "- advance: 30s\n"
        "- patch: {target: pod/gated, patch: {metadata: {labels: {team: a}}, spec: {schedulingGates: []}}}\n"
        "- advance: 30s\n",
        tmp_path / "day.mrec",
    )
    found = run_scenario(replace(story_of_files([str(tmp_path / "day.mrec")]), plugins=(FirstNode,)))
    assert "scheduling gates" not in str(found.pending_reasons())
    if not volumes:
        assert going_on(str(tmp_path / "day.mrec")).waiting_s["max"] == 30


def test_a_node_that_was_silent_stays_silent(day: Path) -> None:
    found = going_on(f"{day}@90s")
    assert {each[0] for each in placements(found).values()} <= {"node1", "node2"}


def test_the_pods_of_a_record_come_to_another_cluster_or_configuration(day: Path) -> None:
    twice = f"- nodes: {{count: 6, cpu: '8'}}\n- workload: {{record: '{day}'}}\n- advance: end\n"
    found = run_scenario(story(twice), keeps_placements=True)
    assert (found.failure, found.arrived, found.nodes) == ("", 13, 6)
    assert found.ended == 11  # two were deleted while their node was silent
    at_once = {key: round(each[1] - 1) for key, each in placements(found, -1).items()}
    assert at_once == {f"default/w-{i + 1}": i for i in range(10)} | {f"default/late-{i + 1}": 80 + i for i in range(3)}


def test_a_cluster_of_a_record_is_the_start_of_another_story(day: Path) -> None:
    steps = f"- cluster: {day}@15s\n- workload: {{name: 'mine-{{i}}', count: 2, cpu: '1'}}\n- advance: end\n"
    found = run_scenario(story(steps), keeps_placements=True)
    assert (found.failure, found.arrived, found.ended, found.nodes) == ("", 12, 8, 3)
    assert set(placements(found, -1)) == {"default/mine-1", "default/mine-2"}


def test_what_a_record_has_and_a_simulation_does_not_use_is_named(day: Path) -> None:
    found = import_own_record(str(day))
    assert "13 × binding that the recorded scheduler made: the simulation decides itself" in found.not_simulated
    assert found.summary().startswith("13 pods that arrive") and found.config is not None


def test_a_truncated_record_is_imported_as_far_as_possible_with_a_warning(day: Path) -> None:
    cut = "end of the record: it was cut off, or is still being written"
    assert cut not in import_own_record(str(day)).not_simulated
    day.write_bytes(day.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="the record was cut off"):
        assert cut in import_own_record(str(day)).not_simulated


def test_a_pod_that_changes_after_its_end_is_the_same_pod(tmp_path: Path) -> None:
    template = "{metadata: {annotations: {mooring/completes-after: 10s}}, spec: {restartPolicy: Never, containers: "
    job = f"{{template: {template}[{{name: c, image: i}}]}}}}, completions: 3, parallelism: 3}}"
    recorded(
        f"{NODES}- apply: {{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {job}}}\n- advance: 1m\n"
        "- fail: {labels: kubernetes.io/os=linux}\n- advance: 10m\n",  # the remaining pods are deleted, without effect
        tmp_path / "day.mrec",
    )
    found = import_own_record(str(tmp_path / "day.mrec"))
    assert [each.run_s for each in found.arrivals] == [10, 10, 10]
    assert not any("had ended before it was seen" in each for each in found.not_simulated)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("nothing.mrec@5s", "nothing.mrec: No such file or directory", id="no such record"),
        pytest.param("day.mrec@noon", "'noon' is not a time; write 90s, from the beginning", id="not a time"),
        pytest.param("day.mrec@9h", "nothing is recorded at that time", id="after the end"),
    ],
)
def test_a_moment_that_is_not_there(day: Path, name: str, says: str) -> None:
    with pytest.raises(MooringError, match=says):
        import_own_record(str(day.parent / name))


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        pytest.param("startsAt: 2026-06-01T07:30:00Z\n", 7.5, id="a story says when it begins"),
        pytest.param("", 0, id="a story that does not begins at midnight"),
    ],
)
def test_schedules_follow_the_time_of_the_story(text: str, hour: float) -> None:
    cron_job = """
- apply:
    apiVersion: batch/v1
    kind: CronJob
    metadata: {name: morning}
    spec:
      schedule: "0 8 * * *"
      jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
"""
    scenario = parse_scenario(f"{text}steps:\n{NODES}{cron_job}", source="s.yaml", folder=Path(), name="story")
    found = run_scenario(scenario, keeps_placements=True, until_s=20 * 3600)
    assert found.placements is not None
    (placed,) = found.placements.values()
    assert round(placed.at_s / 3600, 2) == 8 - hour
