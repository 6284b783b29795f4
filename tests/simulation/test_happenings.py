"""What happens to nodes happens to the pods of a workload as to any other pods: both ways of playing a story agree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import DELETED, Event
from mooring.errors import InputError
from mooring.sim.runner import EmbeddedWorld, Settings
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.virtual_time import run_virtual
from mooring.simulation.result import Simulation
from mooring.simulation.simulate import run_scenario
from mooring.simulation.world import NO_LEASES, SimulatedWorld

NODES = "- nodes: {count: 2, cpu: '4', zones: [a, b]}\n"


def story(steps: str, workload: str = "count: 4, cpu: '1'") -> Scenario:
    text = f"steps:\n{NODES}- workload: {{{workload}}}\n- advance: 1s\n{steps}"
    return parse_scenario(text, source="story.yaml", folder=Path(), name="story")


def simulated(steps: str, workload: str = "count: 4, cpu: '1'", until_s: float | None = None) -> Simulation:
    return run_scenario(story(steps, workload), keeps_placements=True, until_s=until_s)


Seen = dict[str, list[tuple[str, float]]]


def quickly(scenario: Scenario) -> Seen:
    """When each pod was bound where, and when it was gone, in a simulation."""
    seen: Seen = {}

    async def main() -> None:
        async with SimulatedWorld(Settings(write=lambda text: None), scenario) as world:
            put, delete = world.scheduler.put, world.scheduler.delete

            def note(pod: Any, what: str) -> None:
                _note(seen, pod.name, what, world.clock.monotonic())

            def told(pod: Any) -> None:
                note(pod, pod.spec.node_name)
                put(pod)

            def gone(pod: Any) -> None:
                note(pod, "gone")
                delete(pod)

            world.streamed.connect(told, gone)
            stop = world.plane.api.store.subscribe(PODS, lambda event: _note_event(seen, event, world))
            result = await world.play(scenario)
            stop()
            assert not result.failure, result.failure

    run_virtual(main())
    return seen


def slowly(scenario: Scenario) -> Seen:
    """The same on the embedded control plane."""
    seen: Seen = {}

    async def main() -> None:
        async with EmbeddedWorld(Settings(write=lambda text: None), scenario, kubelets=NO_LEASES) as world:
            stop = world.plane.api.store.subscribe(PODS, lambda event: _note_event(seen, event, world))
            result = await world.play(scenario)
            stop()
            assert not result.failure, result.failure
            await asyncio.sleep(0)

    run_virtual(main())
    return seen


def _note_event(seen: Seen, event: Event, world: EmbeddedWorld) -> None:
    name = event.entry.key.partition("/")[2]
    fields = event.entry.fields or {}
    ended = event.type == DELETED or fields.get("status.phase") in ("Succeeded", "Failed")
    what = "gone" if ended else str(fields.get("spec.nodeName", ""))
    _note(seen, name, what, world.clock.monotonic())


def _note(seen: Seen, name: str, what: str, at_s: float) -> None:
    known = seen.setdefault(name, [])
    if what and (not known or known[-1][0] != what):
        known.append((what, round(at_s, 2)))


CRON_JOB = """
- apply:
    apiVersion: batch/v1
    kind: CronJob
    metadata: {name: report}
    spec:
      schedule: "*/2 * * * *"
      concurrencyPolicy: Forbid
      jobTemplate:
        spec:
          template:
            metadata: {annotations: {mooring/completes-after: 150s}}
            spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
- advance: 9m
- delete: cronjob/report
- advance: 1m
"""


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(CRON_JOB, id="Jobs are made by a schedule"),
        pytest.param("- fail: node1\n- advance: 10m\n- recover: node1\n- advance: 10m\n", id="a node fails for long"),
        pytest.param("- fail: node1\n- advance: 20s\n- recover: node1\n- advance: 10m\n", id="a node fails shortly"),
        pytest.param("- fail: {zone: b}\n- advance: 10m\n", id="a zone goes"),
        pytest.param("- delete: node/node2\n- advance: 5m\n", id="a node is deleted"),
        pytest.param("- cordon: node1\n- advance: 1m\n- uncordon: node1\n- advance: 1m\n", id="a node is cordoned"),
        pytest.param("- drain: node1\n- advance: 2m\n", id="a node is drained"),
        pytest.param(
            "- patch: {target: node/node1, patch: {spec: {taints: [{key: x, effect: NoExecute}]}}}\n- advance: 2m\n",
            id="a node is tainted",
        ),
    ],
)
@pytest.mark.parametrize(
    "workload",
    [
        pytest.param("count: 4, every: 250ms, cpu: '1'", id="pods run for ever"),
        pytest.param("count: 8, every: 17s, cpu: '1', run: 70s", id="pods end"),
        pytest.param(
            "count: 5, every: 31s, cpu: '1', "
            "spec: {tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 33}]}",
            id="pods are patient",
        ),
    ],
)
def test_both_ways_agree(steps: str, workload: str) -> None:
    assert quickly(story(steps, workload)) == slowly(story(steps, workload))


def test_pods_of_a_lost_node_come_again_where_they_are_recreated() -> None:
    lost = "- fail: node1\n- advance: 10m\n"
    gone, back = (simulated(lost, f"count: 4, cpu: '1', recreate: {again}") for again in ("false", "true"))
    assert (gone.running, gone.placed) == (4, 4)  # two hang on the silent node, as a real cluster would show them
    assert (back.placed, len(back.pending)) == (4, 0)
    drained = simulated("- drain: node1\n", "count: 4, cpu: '1', recreate: true")
    assert (drained.running, drained.placed) == (4, 6)
    assert drained.placements is not None and {each.node for each in drained.placements.values()} == {"node2"}


def test_a_drain_keeps_disruption_budgets() -> None:
    manifest = """
- apply:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: c, image: i}], nodeSelector: {kubernetes.io/hostname: node1}}
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web}
    spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
- wait: {for: deployment/web, condition: Available}
- drain: node1
"""
    failure = simulated(manifest, "count: 1").failure
    assert "node/node1 is not drained within 600s" in failure and "disruption budget" in failure


def test_deployments_are_kept_at_their_number_and_scale() -> None:
    manifest = """
- apply:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
- wait: {for: deployment/web, condition: Available}
- delete: node/node1
- scale: {target: deployment/web, replicas: 5}
- advance: 2m
- expect: {count: pods, labels: app=web, phase: Running, is: 5}
"""
    assert simulated(manifest, "count: 1").failure == ""


@pytest.mark.parametrize(
    ("step", "says"),
    [
        pytest.param("- fail: {zone: a, labels: x=y}\n", "a list of names, zone or labels", id="zone and labels"),
        pytest.param("- drain: {node: a}\n", "unknown field 'node'", id="a field that is not there"),
        pytest.param("- cordon: {}\n", "a list of names, zone or labels", id="nothing"),
    ],
)
def test_nodes_that_are_not_named_rightly(step: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        story(step)


def test_a_zone_without_nodes_is_a_mistake() -> None:
    assert "no node has the label topology.kubernetes.io/zone=c" in simulated("- fail: {zone: c}\n").failure


def test_the_end_of_a_story_does_not_wait_for_schedules() -> None:
    forever = CRON_JOB.partition("- advance")[0].replace("Forbid", "Allow").replace("150s", "1h")
    found = simulated(forever, "count: 3, every: 100s, cpu: '100m', run: 250s")
    assert (found.failure, found.arrived, found.ended) == ("", 3, 3)
    assert found.placed == 3 + 2 and found.ended_at_s < 2 * 3600  # two Jobs until the last pod of the workload came


def test_jobs_of_a_schedule_come_until_the_given_end() -> None:
    found = simulated(CRON_JOB.partition("- advance")[0].replace("150s", "30s"), "count: 1", until_s=3600)
    assert found.placed == 1 + 29
