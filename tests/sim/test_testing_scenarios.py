"""The fixtures with which users test their own manifests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.testing_scenarios import ExpectationFailed, ScenarioCluster, Story, node, play, pod, virtual_cluster

__all__ = ["virtual_cluster"]


def test_a_story_is_played_on_a_cluster_of_its_own(virtual_cluster: Callable[..., Story]) -> None:
    async def story(cluster: ScenarioCluster) -> None:
        assert await cluster.list("nodes") == []
        await cluster.create(node("a"), pod("p"))
        await cluster.expect_pod("p", node="a", phase="Running")
        assert await cluster.placements() == {"p": "a"}

    for _ in range(2):
        told = virtual_cluster(story)
        assert told.result.held and "p → a" in told.text


def test_a_red_test_tells_the_story() -> None:
    async def story(cluster: ScenarioCluster) -> None:
        await cluster.create(node("a", taints=["closed:NoSchedule"]), pod("p"))
        await cluster.expect_pod("p", node="a", within_s=600)

    with pytest.raises(ExpectationFailed) as failed:
        play(story)
    assert "not within 600s; it has no node: 0/1 nodes are available" in str(failed.value)
    assert "TaintToleration" in str(failed.value)


def test_a_mistake_in_the_story_is_the_tests_own() -> None:
    async def story(cluster: ScenarioCluster) -> None:
        assert False, "mine"  # noqa: B011

    with pytest.raises(AssertionError, match="mine"):
        play(story)
