"""Playing stories: how they end, what is counted, that the same seed tells the same story, and that nothing stays."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from mooring import sdk
from mooring.api.errors import ConfigError, InputError, PluginError, UsageError
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient
from mooring.sim.player import PlayResult, run_in_real_time, run_in_virtual_time
from mooring.sim.scenario import NO_STORY, Scenario, ScenarioCluster, node, pod
from mooring.sim.virtual_time import NothingLeft, run_virtual
from mooring.sim.worlds import EmbeddedWorld, Listening, PlaySettings, registry_for


class Never(sdk.NodeFilter):
    name = "Never"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        return sdk.unschedulable("never")


ENABLING = {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Never"}]}}}]}


async def places_a_pod(cluster: ScenarioCluster) -> None:
    await cluster.create(node("n"), pod("p"))
    await cluster.expect_pod("p", node="n")


def run(play: Any, lines: list[str] | None = None, **scenario: Any) -> PlayResult:
    write = (lambda line: None) if lines is None else lines.append
    return run_in_virtual_time(
        Scenario("story", scenario.pop("title", ""), play, **scenario), PlaySettings(write=write)
    )


def test_a_story_that_holds() -> None:
    lines: list[str] = []
    result = run(places_a_pod, lines, title="A pod finds its node")
    assert (result.held, result.failure, result.expectations, result.scenario) == (True, "", 1, "story")
    assert result.first_placement_s == 0.0 and result.seconds < 1
    assert lines[0] == "   0.00s  say     A pod finds its node"


def test_an_expectation_that_fails_ends_the_story() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await places_a_pod(cluster)
        await cluster.expect_pod("p", node="elsewhere", within_s=10)
        cluster.say("never said")

    lines: list[str] = []
    result = run(play, lines)
    assert result.failure == "pod/p is on elsewhere: not within 10s; it is on n"
    assert result.expectations == 1 and not result.held
    assert sum("FAILED" in line for line in lines) == 1
    assert not any("never said" in line for line in lines)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        pytest.param(AssertionError("two and two"), "two and two", id="an assertion with words"),
        pytest.param(AssertionError(), "an assertion of the story does not hold", id="an assertion without"),
        pytest.param(InputError("a typing mistake"), "a typing mistake", id="a mistake of the story"),
    ],
)
def test_other_ways_to_fail(error: Exception, failure: str) -> None:
    async def play(cluster: ScenarioCluster) -> None:
        raise error

    lines: list[str] = []
    assert run(play, lines).failure == failure
    assert lines == [f"   0.00s  FAILED  {failure}"]


def test_a_bug_of_the_story_is_not_hidden() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(play)


def test_a_story_that_waits_for_nothing_is_not_endless() -> None:
    """Fake kubelets and controllers always have a timer, so that time passes; a bare loop has none."""

    async def play() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft):
        run_virtual(play())


def test_a_plugin_and_a_configuration_of_the_storys_own() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("n"), pod("p"))
        await cluster.expect_pod("p", pending="1 never")

    assert run(play, config=ENABLING, plugins=(Never,)).held
    assert not run(play).held


def test_plugins_of_a_story_are_added_to_the_in_tree_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from mooring import sdk\nclass Mine(sdk.NodeScore):\n    name = 'Mine'\n"
        "    def score(self, state, pod, node):\n        return 1\n"
    )
    registry = registry_for(Scenario("s", "", places_a_pod, plugins=(Never,), plugin_files=(str(file),)))
    assert "Never" in registry and "Mine" in registry and "NodeAffinity" in registry
    assert "Never" not in registry_for(NO_STORY)


@pytest.mark.parametrize(
    ("scenario", "error", "says"),
    [
        pytest.param({"config": ENABLING}, ConfigError, "Never", id="a plugin that is not there"),
        pytest.param({"config": {"profiles": 3}}, ConfigError, "profiles", id="a configuration that is none"),
        pytest.param({"plugin_files": ("gone.py",)}, PluginError, "there is no file", id="a file that is not there"),
    ],
)
def test_what_cannot_be_brought_up_is_an_error_of_its_own(
    scenario: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run(places_a_pod, **scenario)


def test_the_seed_decides_random_choices() -> None:
    async def play(cluster: ScenarioCluster) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await cluster.create(node("n"))
        await cluster.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w"}, "spec": spec})
        await asyncio.sleep(1)
        cluster.say(", ".join(await cluster.placements()))

    def said(seed: int) -> str:
        lines: list[str] = []
        run_in_virtual_time(Scenario("s", "", play), PlaySettings(level=0, write=lines.append, seed=seed))
        return lines[0]

    assert said(1) == said(1) != said(2)


def test_the_same_story_in_real_time() -> None:
    result = run_in_real_time(Scenario("story", "", places_a_pod), PlaySettings(write=lambda line: None))
    assert result.held and result.expectations == 1


@pytest.mark.e2e
async def test_an_open_world_can_be_reached_and_leaves_only_its_data(tmp_path: Path) -> None:
    kubeconfig, data = tmp_path / "kubeconfig", tmp_path / "data"
    data.mkdir()
    listening = Listening(kubeconfig_path=kubeconfig, data_dir=data)
    settings = PlaySettings(write=lambda line: None)
    async with EmbeddedWorld(settings, listening=listening) as world:
        assert world.plane.url.startswith("https://127.0.0.1:")
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        await world.cluster.create(node("n"))
        async with RestClient(load_kubeconfig([str(kubeconfig)])) as client:
            assert b'"n"' in (await client.get("/api/v1/nodes/n")).body
    before = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    assert not before, "every task of the world has ended"
    async with EmbeddedWorld(settings, listening=listening) as world:
        assert [each["metadata"]["name"] for each in await world.cluster.list("nodes")] == ["n"]


async def test_a_port_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
        async with EmbeddedWorld(PlaySettings(), listening=Listening(port=port)):
            pass
    server.close()
    await server.wait_closed()
