"""Scenarios feed the scheduler as a cluster does: every kind its plugins want, through its one way in."""

from __future__ import annotations

import pytest

from mooring.sim.narration import Told
from mooring.sim.player import run_in_real_time, run_in_virtual_time
from mooring.sim.scenario import Scenario, node, pod
from mooring.sim.worlds import PlaySettings
from mooring.testing import make_node, make_object

GANG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
        }
    ],
}
GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "gang", "namespace": "default"},
    "spec": {"minMember": 2},
}
LABELS = {"scheduling.x-k8s.io/pod-group": "gang"}


async def gang_of_two(cluster) -> None:
    await cluster.create(GROUP, node("a", cpu="4"))
    await cluster.create(pod("first", cpu="1", labels=LABELS))
    await cluster.create(pod("loner", cpu="1"))
    await cluster.expect_pod("loner", node="a")
    assert not (await cluster.placements()).get("first"), "it waits for the second"
    await cluster.create(pod("second", cpu="1", labels=LABELS))
    for name in ("first", "second"):
        await cluster.expect_pod(name, node="a")


@pytest.mark.parametrize("run", [run_in_virtual_time, run_in_real_time], ids=["in virtual time", "as time passes"])
def test_a_story_sees_the_pod_groups_that_its_plugin_wants(run):
    lines: list[str] = []
    story = Scenario("gang", "", gang_of_two, config=GANG)
    result = run(story, PlaySettings(write=lines.append))
    assert result.held, "\n".join(lines)
    assert any("podgroup gang" in line for line in lines)
    assert any('first is held back: pod group "gang" has 1 of the 2 pods it needs' in line for line in lines)


class Heard:
    """A narrator, or a scheduler, that records its calls."""

    def __init__(self, story: list[str], name: str) -> None:
        self.story, self.name = story, name

    def __getattr__(self, what: str):
        def told(*objects: object) -> None:
            self.story.append(f"{self.name} {what} {' '.join(getattr(each, 'name', '-') for each in objects)}")

        return told


def test_the_narrator_sees_a_change_before_the_scheduler():
    story: list[str] = []
    told = Told(Heard(story, "scheduler"), Heard(story, "narrator"))
    told.put(make_node("a"))
    told.update(make_node("a"), make_node("a", cpu="9"))
    told.delete(make_node("a"))
    assert story == [
        "narrator came a",
        "scheduler put a",
        "narrator changed a a",
        "scheduler put a",
        "narrator left a",
        "scheduler delete a",
    ]


def test_some_kinds_are_not_worth_telling():
    story: list[str] = []
    told = Told(Heard(story, "scheduler"), Heard(story, "narrator"))
    told.put(make_object("Namespace", "x"))
    told.delete(make_object("Namespace", "x"))
    told.put(make_object("CSINode", "y"))
    assert story == ["scheduler put x", "scheduler delete x", "scheduler put y"]
