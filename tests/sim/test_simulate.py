"""A simulation places pods where and when the slow way does: the same scheduler behind the embedded API server."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import Event
from mooring.core.config.versions import VERSIONS, KubernetesVersion
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.plugins.devices.allocator import ClaimWriter
from mooring.core.plugins.volumes.bind_volumes import VolumeWriter
from mooring.live.context import Tasks
from mooring.sim.result import Simulation
from mooring.sim.scenario import Scenario, ScenarioCluster, node
from mooring.sim.simulate import Arrival, simulate, story_of
from mooring.sim.simulated_world import _SplitWriter
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings
from mooring.testing import make_node, make_object, make_pod

GRACE_S = 2
BIND_IN_TIME = {
    "profiles": [{"plugins": {"bind": {"enabled": [{"name": "BindsInTime"}], "disabled": [{"name": "*"}]}}}],
}
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}


def pod(name: str, cpu: str = "1", priority: int | None = None, **more: Any) -> Any:
    spec = {"terminationGracePeriodSeconds": GRACE_S, **more.pop("spec", {})}
    return make_pod(name, cpu=cpu, priority=priority, spec=spec, **more)


def where(outcome: Simulation) -> dict[str, tuple[str, float]]:
    assert outcome.placements is not None
    return {key.partition("/")[2]: (placed.node, round(placed.at_s, 3)) for key, placed in outcome.placements.items()}


# ---- what happens --------------------------------------------------------------------------------------------------


def test_pods_wait_until_others_end() -> None:
    outcome = simulate(
        [make_node("a", cpu="2")],
        [Arrival(0, pod("first", "2"), run_s=10), Arrival(1, pod("second", "2"), run_s=5)],
    )
    assert where(outcome) == {"first": ("a", 0), "second": ("a", 10)}
    assert outcome.placements["default/second"].attempts == 2
    assert outcome.pending == {} and outcome.ended_at_s >= 15


def test_important_pods_evict_others_after_their_grace_period() -> None:
    outcome = simulate(
        [make_node("a", cpu="2")], [Arrival(0, pod("low", "2")), Arrival(1, pod("high", "2", priority=10))]
    )
    assert where(outcome)["high"] == ("a", 1 + GRACE_S)
    assert outcome.evictions == {"default/low": 1} and outcome.evicted == 1


def test_what_stays_pending_says_why() -> None:
    outcome = simulate([make_node("a", cpu="2")], [Arrival(0, pod("big", "3"))])
    assert outcome.placed == 0
    assert outcome.pending["default/big"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize("version", VERSIONS.values(), ids=str)
def test_the_words_are_those_of_the_version(version: KubernetesVersion) -> None:
    outcome = simulate([make_node("a", cpu="2")], [Arrival(0, pod("big", "3"))], kubernetes_version=str(version))
    assert ("no new claims to deallocate" in outcome.pending["default/big"]) is (str(version) not in ("1.37", "1.38"))


def test_an_end_stops_everything() -> None:
    arrivals = [Arrival(0, pod("early")), Arrival(100, pod("late"))]
    outcome = simulate([make_node("a")], arrivals, until=50)
    assert list(where(outcome)) == ["early"] and outcome.ended_at_s == pytest.approx(50)


def test_an_end_in_the_middle_of_a_story_that_waits_for_its_workload_is_no_interruption() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.finish()

    arrivals = [Arrival(0, pod("early")), Arrival(100, pod("late"))]
    story = story_of([make_node("a")], arrivals, play)
    outcome = simulate(Scenario("waits", "", story), until=50)
    assert list(where(outcome)) == ["early"] and not outcome.was_interrupted


def test_nodes_come_and_go() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.advance(5)
        await cluster.create(node("b", cpu="4"))
        await cluster.advance(15)
        await cluster.delete("node/b")

    arrivals = [Arrival(0, pod("big", "3"), run_s=1), Arrival(30, pod("late", "3"))]
    outcome = simulate(Scenario("nodes", "", story_of([make_node("a", cpu="1")], arrivals, play)))
    assert where(outcome) == {"big": ("b", 5)} and "default/late" in outcome.pending


def test_the_same_arguments_give_the_same_outcome() -> None:
    nodes = [make_node(f"n{i}", cpu="2") for i in range(5)]
    arrivals = [Arrival(i / 10, pod(f"p{i}"), run_s=3) for i in range(40)]
    assert simulate(nodes, arrivals, seed=7) == simulate(nodes, arrivals, seed=7)


def test_volumes_are_provisioned_and_bound() -> None:
    resources = {"requests": {"storage": "1Gi"}}
    wanted = {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": resources}
    claim = make_object("PersistentVolumeClaim", "data", "default", spec=wanted)
    wait = make_object("StorageClass", "slow", provisioner="x/y", volumeBindingMode="WaitForFirstConsumer")
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    outcome = simulate([make_node("a"), wait, claim], [Arrival(0, pod("p", spec={"volumes": [volume]}))])
    assert where(outcome)["p"][0] == "a"


# ---- the slow way --------------------------------------------------------------------------------------------------


def slowly(nodes: list[tuple[str, str]], arrivals: list[Arrival]) -> dict[str, tuple[str, float]]:
    """Play the same on the embedded control plane in virtual time, and note when each pod was bound."""
    bound: dict[str, tuple[str, float]] = {}

    async def play() -> None:
        loop = asyncio.get_running_loop()
        async with EmbeddedWorld(PlaySettings(write=lambda text: None)) as world:
            started = 0.0

            def note(event: Event) -> None:
                name = event.entry.key.partition("/")[2]
                node = (event.entry.fields or {}).get("spec.nodeName")
                if node and name not in bound:
                    bound[name] = (node, round(loop.time() - started, 3))

            stop = world.plane.api.store.subscribe(PODS, note)
            await world.cluster.create(HIGH)
            for name, cpu in nodes:
                await world.cluster.create(_manifest_of_node(name, cpu))
            await asyncio.sleep(1)
            started = loop.time()
            for arrival in arrivals:
                await asyncio.sleep(max(0.0, started + arrival.at_s - loop.time()))
                await world.cluster.backend.create(_manifest_of_pod(arrival))
            await asyncio.sleep(60)
            stop()

    run_virtual(play())
    return bound


def _manifest_of_node(name: str, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _manifest_of_pod(arrival: Arrival) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": arrival.pod.name, "namespace": "default"}
    if arrival.run_s is not None:
        meta["annotations"] = {"mooring/completes-after": f"{arrival.run_s}s"}
    container = arrival.pod.spec.containers[0]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            **({"priorityClassName": "high"} if arrival.pod.spec.priority_class_name else {}),
            "terminationGracePeriodSeconds": GRACE_S,
            "containers": [
                {"name": "main", "image": "app", "resources": {"requests": dict(container.resources.requests)}}
            ],
        },
    }


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["1", "2", "4"]), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 1.0, 3.0]),
            st.sampled_from(["1", "2"]),
            st.sampled_from([None, 1, 4]),
            st.booleans(),  # whether it is important enough to evict others
        ),
        max_size=8,
    ),
)
def test_the_same_pods_go_to_the_same_nodes_at_the_same_times(
    sizes: list[str], story: list[tuple[float, str, int | None, bool]]
) -> None:
    """No two things happen at one instant: which of them is seen first is chance in a real cluster, too."""
    nodes = [(f"n{i}", cpu) for i, cpu in enumerate(sizes)]
    at_s, arrivals = 0.0, []
    for i, (pause_s, cpu, run_s, is_high) in enumerate(story):
        at_s += pause_s + 0.013
        spec = {"priorityClassName": "high"} if is_high else {}
        arrivals.append(Arrival(at_s, pod(f"p{i}", cpu, spec=spec), None if run_s is None else run_s + 0.001 * (i + 1)))
    high = make_object("PriorityClass", "high", value=100)
    quick = simulate([high, *(make_node(name, cpu=cpu) for name, cpu in nodes)], arrivals, until=at_s + 60)
    assert quick.failure == ""
    assert where(quick) == slowly(nodes, arrivals)


def test_a_simulation_ends_with_its_last_pod_not_at_the_next_full_second() -> None:
    outcome = simulate([make_node("a", cpu="2")], [Arrival(0, pod("only", "2"), run_s=100.5)])
    assert outcome.ended_at_s == pytest.approx(100.5, abs=0.02)


def test_a_scheduler_that_breaks_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(self: Tasks, work: Coroutine[Any, Any, Any]) -> Any:
        work.close()
        raise TypeError("not like this")

    monkeypatch.setattr(Tasks, "spawn", spawn)
    monkeypatch.setattr(Tasks, "spawn_brief", spawn)
    with pytest.raises(TypeError, match="not like this"):
        simulate([make_node("a")], [Arrival(0, pod("p"))])


class BindsInTime:
    """A Bind plugin that limits how long it waits: ``asyncio.timeout`` needs a task from the first step on."""

    name = "BindsInTime"

    def __init__(self, args: Any, handle: Any) -> None:
        self._handle = handle

    async def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        async with asyncio.timeout(60):
            await self._handle.writer.bind(pod, node_name)
        return SUCCESS


def test_a_bind_plugin_runs_in_a_task() -> None:
    outcome = simulate([make_node("a")], [Arrival(0, pod("p"))], plugins=(BindsInTime,), config=BIND_IN_TIME)
    assert where(outcome) == {"p": ("a", 0.0)}


def test_what_writes_for_a_simulation_can_write_for_volumes_and_claims() -> None:
    """Since Python 3.12 a protocol does not see what ``__getattr__`` would offer."""
    for protocol in (VolumeWriter, ClaimWriter):
        for name in [each for each in vars(protocol) if not each.startswith("_")]:
            assert callable(inspect.getattr_static(_SplitWriter, name))


def test_a_result_is_shown_in_a_line_and_in_a_notebook() -> None:
    result = Simulation(name="day", arrived=1_200, placed=1_199, ended_at_s=90, waiting_s={"p50": 0.5})
    result.pending = {"default/<x>": "0/3 nodes are available: 3 Insufficient <cpu>."}
    assert repr(result) == "<Simulation day: 1,200 arrived, 1,199 placed, 1 pending in 1m30s>"
    page = result._repr_html_()
    assert "waiting: p50 500ms" in page and "Insufficient &lt;cpu&gt;" in page
    failed = Simulation(failure="the pod waits")
    assert repr(failed).endswith("0 placed, 0 pending in 0s, not as expected: the pod waits>")
