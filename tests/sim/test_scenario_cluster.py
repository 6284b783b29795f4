"""A cluster as a story sees it, in virtual time: writing, waiting, expecting, and what is said when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.errors import ApiError, InputError
from mooring.sim.scenario import ExpectationFailed, ScenarioCluster, node, pod
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings

Play = Callable[[ScenarioCluster], Awaitable[Any]]


def played(play: Play) -> tuple[Any, list[str]]:
    """What a story returns, and what was said and expected in it."""
    lines: list[str] = []

    async def main() -> Any:
        async with EmbeddedWorld(PlaySettings(level=0, write=lines.append)) as world:
            return await play(world.cluster)

    return run_virtual(main()), [line[10:] for line in lines]


def fails(play: Play) -> str:
    """What the expectation that does not hold says."""
    with pytest.raises(ExpectationFailed) as failed:
        played(play)
    return str(failed.value)


async def soon(cluster: ScenarioCluster, after_s: float, do: Callable[[], Awaitable[Any]]) -> None:
    async def later() -> None:
        await asyncio.sleep(after_s)
        await do()

    cluster.tasks = [*getattr(cluster, "tasks", []), asyncio.ensure_future(later())]  # type: ignore[attr-defined]


def test_until_waits_for_what_comes() -> None:
    async def play(cluster: ScenarioCluster) -> tuple[str, float]:
        began = cluster.clock.monotonic()

        async def holds() -> Any:
            passed = cluster.clock.monotonic() - began
            return {"answer": "yes"} if passed >= 30 else f"{passed:.0f}s have passed"

        found = await cluster.until("patience", holds, within_s=40)
        return found["answer"], cluster.clock.monotonic() - began

    (answer, passed), _ = played(play)
    assert answer == "yes" and 30 <= passed < 31


def test_until_says_what_and_why_not() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            return "it is asleep"

        await cluster.until("it is awake", holds, within_s=5)

    assert fails(play) == "it is awake: not within 5s; it is asleep"


def test_until_without_a_reason_says_only_what() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        async def holds() -> Any:
            return None

        await cluster.until("it is awake", holds, within_s=0)

    assert fails(play) == "it is awake: not within 0s"


def test_the_audience_receives_met_and_unmet_expectations() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        async def yes() -> Any:
            return True

        async def no() -> Any:
            return "no"

        async def refused() -> Any:
            raise ApiError("the server says no")

        await cluster.expect("first", yes)
        with pytest.raises(ExpectationFailed):
            await cluster.expect("second", no, within_s=1)
        with pytest.raises(ApiError):
            await cluster.expect("third", refused)

    assert played(play)[1] == ["expect  first", "FAILED  second: not within 1s; no", "FAILED  the server says no"]


def test_a_pod_can_be_expected_to_stay_pending() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(pod("p"))
        await cluster.expect_pod("pod/p", pending="no nodes", for_s=60)
        assert cluster.clock.monotonic() >= 60

    assert played(play)[1] == [
        'expect  pod/p is pending because "no nodes"',
        'expect  pod/p is pending because "no nodes" after another 60s',
    ]


def test_a_pod_that_does_not_stay_pending() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(pod("p"))
        await soon(cluster, 5, lambda: cluster.create(node("n")))
        await cluster.expect_pod("p", pending=True, for_s=60)

    assert fails(play) == "pod/p is pending after another 60s: not within 0s; it is on n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("p", "pod/p is on n", id="a name"),
        pytest.param("po/p", "pod/p is on n", id="with its kind"),
        pytest.param("team-a/q", "pod/team-a/q is on n", id="with its namespace"),
        pytest.param("pod/team-a/q", "pod/team-a/q is on n", id="with both"),
    ],
)
def test_how_a_pod_may_be_named(name: str, expected: str) -> None:
    async def play(cluster: ScenarioCluster) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
        await cluster.create(namespace, node("n"), pod("p"), pod("q", namespace="team-a"))
        await cluster.expect_pod(name, node="n")

    assert played(play)[1] == [f"expect  {expected}"]


def test_an_event_is_expected_by_reason_and_message() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("n"), pod("p"))
        await cluster.expect_event("pod/p", reason="Scheduled", message="to n")
        await cluster.expect_event("pod/p")

    assert played(play)[1] == ['expect  pod/p has an event Scheduled saying "to n"', "expect  pod/p has an event"]


def test_an_event_that_does_not_come() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("n"), pod("p"))
        await cluster.expect_event("pod/p", reason="Preempted", within_s=3)

    assert fails(play).startswith("pod/p has an event Preempted: not within 3s; its events are Scheduled")

    async def nothing(cluster: ScenarioCluster) -> None:
        await cluster.expect_event("node/n", reason="Odd", within_s=1)

    assert fails(nothing) == "node/n has an event Odd: not within 1s; its events are none"


@pytest.mark.parametrize(
    ("target", "condition", "says"),
    [
        pytest.param("pod/q", "Ready", "pod/q Ready: not within 2s; it does not exist", id="nothing"),
        pytest.param("pod/p", "Odd", "pod/p Odd: not within 2s; it has no such condition", id="no such condition"),
        pytest.param(
            "pod/p", "PodScheduled", "pod/p PodScheduled: not within 2s; it is False (Unschedulable)", id="it is false"
        ),
    ],
)
def test_a_condition_that_does_not_come(target: str, condition: str, says: str) -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(pod("p"))
        await cluster.wait(target, condition, within_s=2)

    assert fails(play) == says


def test_waiting_is_not_an_expectation() -> None:
    async def play(cluster: ScenarioCluster) -> str:
        await cluster.create(node("n"), pod("p", terminationGracePeriodSeconds=1))
        found = await cluster.wait("pod/p", "ready")
        assert await cluster.delete("pod/p")
        await cluster.wait_gone("pod/p")
        return str(found["spec"]["nodeName"])

    assert played(play) == ("n", [])


def test_what_does_not_go() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("n"))
        await cluster.wait_gone("node/n", within_s=1)

    assert fails(play) == "node/n gone: not within 1s; it is still there"


def test_short_ways_to_change_things() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("n"))
        await cluster.label("node/n", disk="ssd", rack="1")
        await cluster.label("node/n", rack=None)
        await cluster.annotate("node/n", {"a/b": "c"})
        await cluster.cordon("n")
        await cluster.taint("n", "a=b:NoSchedule")
        found = await cluster.get("node/n")
        assert found is not None
        assert found["metadata"]["labels"]["disk"] == "ssd" and "rack" not in found["metadata"]["labels"]
        assert found["metadata"]["annotations"]["a/b"] == "c"
        assert found["spec"]["unschedulable"] is True
        assert {"key": "a", "value": "b", "effect": "NoSchedule"} in found["spec"]["taints"]
        await cluster.cordon("n", undo=True)
        await cluster.taint("n")
        await asyncio.sleep(1)
        found = await cluster.get("node/n")
        assert found is not None and "unschedulable" not in found["spec"] and not found["spec"].get("taints")

    played(play)


def test_a_node_that_fails_and_recovers() -> None:
    async def play(cluster: ScenarioCluster) -> list[str]:
        await cluster.create(node("n"))
        await cluster.wait("node/n")
        states = []
        await cluster.fail_node("n")
        await cluster.advance(60)
        for _ in range(2):
            found = await cluster.get("node/n")
            assert found is not None
            ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
            states.append(ready["status"])
            await cluster.recover_node("n")
            await cluster.advance(60)
        return states

    assert played(play)[0] == ["Unknown", "True"]


def test_placements_and_scaling() -> None:
    async def play(cluster: ScenarioCluster) -> dict[str, str]:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await cluster.create(node("n", pods="2"))
        await cluster.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec})
        await cluster.scale("rs/web", 3)
        await cluster.advance(5)
        return await cluster.placements(labels="app=web")

    assert sorted(played(play)[0].values()) == ["", "n", "n"]


def test_mistakes_of_a_story_are_reported_with_their_place() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        with pytest.raises(InputError, match="kind/name"):
            await cluster.get("web")
        with pytest.raises(InputError, match="no kind"):
            await cluster.list("gadgets")
        with pytest.raises(InputError, match="a manifest is"):
            await cluster.create(3)
        assert not await cluster.delete("pod/nothing")

    played(play)
