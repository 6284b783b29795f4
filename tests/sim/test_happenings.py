"""What happens to nodes happens to the pods of a workload as to any other pods: both ways of playing a story agree."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.errors import ApiError, InputError
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import DELETED, Event
from mooring.sim.backend import Backend
from mooring.sim.player import play
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.simulate import run_scenario
from mooring.sim.simulated_world import NO_LEASES, SimulatedWorld
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings

NODES = "- nodes: {count: 2, cpu: '4', zones: [a, b]}\n"


def story(steps: str, workload: str = "count: 4, cpu: '1'") -> Scenario:
    text = f"steps:\n{NODES}- workload: {{{workload}}}\n- advance: 1s\n{steps}"
    return parse_scenario(text, source="story.yaml", folder=Path(), name="story")


def simulated(steps: str, workload: str = "count: 4, cpu: '1'", until_s: float | None = None) -> Simulation:
    return run_scenario(story(steps, workload), keeps_placements=True, until_s=until_s)


Seen = dict[str, list[tuple[str, float]]]


def quickly(scenario: Scenario, *, may_fail: bool = False) -> Seen:
    """When each pod was bound where, and when it was gone, in a simulation."""
    seen: Seen = {}

    async def main() -> None:
        async with SimulatedWorld(PlaySettings(write=lambda text: None), scenario) as world:
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
            result = await play(world, scenario)
            stop()
            assert may_fail or not result.failure, result.failure
            seen["the story"] = [("failed" if result.failure else "held", 0.0)]

    run_virtual(main())
    return seen


def slowly(scenario: Scenario, *, may_fail: bool = False) -> Seen:
    """The same on the embedded control plane."""
    seen: Seen = {}

    async def main() -> None:
        async with EmbeddedWorld(PlaySettings(write=lambda text: None), scenario, kubelets=NO_LEASES) as world:
            stop = world.plane.api.store.subscribe(PODS, lambda event: _note_event(seen, event, world))
            result = await play(world, scenario)
            stop()
            assert may_fail or not result.failure, result.failure
            seen["the story"] = [("failed" if result.failure else "held", 0.0)]
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


BUDGET = """
- apply:
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web}
    spec: {%s, selector: {matchLabels: {app: web}}}
- advance: 1s
"""
SCRATCH_CLASS = """
- apply:
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: scratch}
    provisioner: example.com/disk
    volumeBindingMode: WaitForFirstConsumer
"""
SCRATCH = (
    "spec: {volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], "
    "storageClassName: scratch, resources: {requests: {storage: 1Gi}}}}}}]}"
)
DEVICE = """
- apply:
  - apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu}
    spec: {}
  - apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: gpu}
    spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
  - apiVersion: resource.k8s.io/v1
    kind: ResourceSlice
    metadata: {name: node1}
    spec:
      driver: example.com
      nodeName: node1
      pool: {name: node1, resourceSliceCount: 1, generation: 1}
      devices: [{name: gpu0}]
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


@pytest.mark.parametrize(
    ("before", "workload", "after"),
    [
        pytest.param(
            BUDGET % "maxUnavailable: 1",
            "count: 4, every: 250ms, cpu: '1', labels: {app: web}",
            "- advance: 2s\n- drain: node1\n- advance: 3m\n",
            id="a drain continues when the budget allows it",
        ),
        pytest.param(
            BUDGET % "minAvailable: 2",
            "count: 8, every: 13s, cpu: '1', labels: {app: web}, run: 100s",
            "- advance: 30s\n- drain: node1\n- advance: 3m\n",
            id="a drain waits for pods that come",
        ),
        pytest.param(
            BUDGET % "minAvailable: 100%",
            "count: 6, every: 1s, templates: [{cpu: '2', labels: {app: web}}, {cpu: '2', weight: 2, priority: 10}]",
            "- advance: 3m\n",
            id="preemption heeds budgets as far as it can",
        ),
        pytest.param(
            SCRATCH_CLASS,
            f"count: 5, every: 7s, cpu: '2', run: 50s, {SCRATCH}",
            "- advance: 30s\n- drain: node1\n- advance: 3m\n",
            id="pods have ephemeral volumes",
        ),
        pytest.param(
            DEVICE,
            "count: 3, every: 7s, run: 50s, spec: {resourceClaims: [{name: g, resourceClaimTemplateName: gpu}]}",
            "- advance: 3m\n",
            id="claims are made of templates",
        ),
    ],
)
def test_both_ways_agree_about_what_controllers_do_for_pods_of_a_workload(
    before: str, workload: str, after: str
) -> None:
    text = f"steps:\n{NODES}{before}- workload: {{{workload}}}\n{after}"

    def scenario() -> Scenario:
        return parse_scenario(text, source="story.yaml", folder=Path(), name="story")

    quick = quickly(scenario())
    assert quick == slowly(scenario())
    assert any(node for life in quick.values() for node, _ in life if node.startswith("node"))


BUDGETS = st.sampled_from(["", "maxUnavailable: 1", "minAvailable: 50%", "minAvailable: 1"])
HAPPENINGS = st.sampled_from(
    [
        "- drain: node1\n",
        "- drain: node2\n",
        "- fail: node1\n",
        "- recover: node1\n",
        "- cordon: node2\n",
        "- uncordon: node2\n",
        "- delete: node/node1\n",
    ]
)
KINDS_OF_PODS = st.sampled_from(
    [
        "cpu: '1', labels: {app: web}",
        "cpu: '2', labels: {app: web}, run: 71s",
        f"cpu: '1', labels: {{app: web}}, run: 37s, {SCRATCH}",
        "cpu: '3', priority: 10, run: 53s",
        "cpu: '1'",
    ]
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    budget=BUDGETS,
    has_cron_job=st.booleans(),
    workloads=st.lists(st.tuples(KINDS_OF_PODS, st.sampled_from(["7s", "19s"])), min_size=1, max_size=3),
    happenings=st.lists(HAPPENINGS, max_size=3, unique=True),
)
def test_both_ways_agree_about_random_stories(
    budget: str, has_cron_job: bool, workloads: list[tuple[str, str]], happenings: list[str]
) -> None:
    """No two things happen at one instant, as far as the story can help it."""
    steps = NODES + SCRATCH_CLASS + (BUDGET % budget if budget else "")
    steps += CRON_JOB.partition("- advance")[0] if has_cron_job else ""
    for i, (kind, every) in enumerate(workloads):
        steps += f"- workload: {{name: 'w{i}-{{i}}', count: 3, every: {every}, {kind}}}\n- advance: 1.37s\n"
    for what in happenings:
        steps += f"- advance: 20.9s\n{what}"

    def scenario() -> Scenario:
        return parse_scenario(f"steps:\n{steps}- advance: 4m\n", source="s.yaml", folder=Path(), name="story")

    assert quickly(scenario(), may_fail=True) == slowly(scenario(), may_fail=True)


def test_a_budget_that_is_broken_by_preemption_is_counted() -> None:
    pods = "- workload: {name: 'big-{i}', count: 2, cpu: '4', priority: 10}\n- advance: 2m\n"
    found = simulated((BUDGET % "minAvailable: 2") + pods, "count: 4, cpu: '2', labels: {app: web}")
    assert found.failure == "" and found.measures is not None
    assert (found.measures.row["victims"], found.measures.row["budgetBreaches"]) == (4, 2)


def test_a_drain_says_which_budget_of_a_workload_is_in_its_way() -> None:
    failure = simulated(
        (BUDGET % "minAvailable: 4") + "- drain: node1\n", "count: 4, cpu: '1', labels: {app: web}"
    ).failure
    assert "node/node1 is not drained within 600s" in failure and "disruption budget" in failure


def test_ephemeral_volumes_come_and_go_with_the_pods_of_a_workload() -> None:
    steps = "- advance: 40s\n- drain: node1\n- advance: 2m\n"
    expected = "- expect:\n  - {count: persistentvolumeclaims, is: %d}\n  - {measure: pods.running, is: %d}\n"
    text = f"steps:\n{NODES}{SCRATCH_CLASS}- workload: {{count: 4, cpu: '1', %s{SCRATCH}}}\n{steps}{expected}"
    for fields, left in (("", 2), ("recreate: true, ", 4), ("run: 30s, ", 0)):
        scenario = parse_scenario(text % (fields, left, left), source="s.yaml", folder=Path(), name="story")
        found = run_scenario(scenario)
        assert found.failure == "", fields
        assert (found.arrived, found.ended) == (4, 4 if "run" in fields else 0)


def test_a_pod_that_cannot_be_recreated_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be missing, and nothing would say so."""
    create, created = Backend.create, Counter[str]()

    async def once(self: Backend, manifest: Any) -> Any:
        created[manifest["metadata"]["name"]] += 1
        if created[manifest["metadata"]["name"]] > 1:
            raise ApiError("exceeded quota", code=403)
        return await create(self, manifest)

    monkeypatch.setattr(Backend, "create", once)
    steps = "- advance: 40s\n- drain: node1\n- advance: 2m\n"
    text = f"steps:\n{NODES}{SCRATCH_CLASS}- workload: {{count: 2, cpu: '1', recreate: true, {SCRATCH}}}\n{steps}"
    found = run_scenario(parse_scenario(text, source="s.yaml", folder=Path(), name="story"))
    assert re.search(r"pod default/\S+ cannot be recreated: exceeded quota", found.failure)


def test_pods_of_a_lost_node_are_recreated() -> None:
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
    assert found.placed == 3 + 1 and found.ended_at_s < 2 * 3600  # one Job until the last pod of the workload came


def test_a_schedule_that_was_due_after_the_end_of_a_story_starts_no_job() -> None:
    ends_soon = CRON_JOB.partition("- delete")[0].replace("9m", "6m")  # Jobs run from 2:00 and from 4:30, to 7:00
    found = simulated(ends_soon, "count: 1, run: 1s")
    assert (found.placed, found.running) == (1 + 2, 0)


def test_a_cluster_without_nodes_ends_immediately() -> None:
    found = run_scenario(parse_scenario("steps: [{workload: {count: 3}}]", source="s", folder=Path(), name="s"))
    assert len(found.pending) == 3 and found.ended_at_s < 60


def test_jobs_of_a_schedule_come_until_the_given_end() -> None:
    found = simulated(CRON_JOB.partition("- advance")[0].replace("150s", "30s"), "count: 1", until_s=3600)
    assert found.placed == 1 + 29
    at_the_end = CRON_JOB.partition("- advance")[0].replace("150s", "30s") + "- advance: end\n"
    assert simulated(at_the_end, "count: 1", until_s=3600).placed == 1 + 29
