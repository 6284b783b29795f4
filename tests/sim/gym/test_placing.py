"""The environment for agents that read names: what they see is the cluster, and their answer is a placement."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mooring.api.errors import UsageError
from mooring.core.plugins.gpus.requests import COUNT, MILLI
from mooring.sim.gym import Episode, PlacementGame, generated
from mooring.sim.workload import Arrival
from mooring.testing import make_node, make_pod


def game_of(*pods: Any, nodes: Any = None, **more: Any) -> PlacementGame:
    nodes = nodes or [make_node("a", cpu="8", allocatable={COUNT: "2"}), make_node("b", cpu="4")]
    episode = Episode(list(nodes), [Arrival(float(i), pod) for i, pod in enumerate(pods)])
    game = PlacementGame(lambda rng: episode, **more)
    game.reset(1)
    return game


def gpu_pod(name: str, milli: int) -> Any:
    return make_pod(name, cpu="1", metadata={"annotations": {MILLI: str(milli)}})


def test_a_turn_shows_the_pod_and_its_nodes() -> None:
    turn = game_of(gpu_pod("p", 500)).reset(1)
    assert (turn.pod, turn.gpu_milli, turn.requests) == ("default/p", 500, {"cpu": "1"})
    assert (turn.feasible, turn.suggested) == (["a"], "a")
    assert turn.nodes == [{"name": "a", "freeCpu": "8", "freeMemory": "8Gi", "freeGpuMilli": [1000, 1000], "pods": 0}]


def test_an_answer_places_the_pod() -> None:
    game = game_of(gpu_pod("p", 500), make_pod("q", cpu="6"))
    turn, reward, done = game.step("a")
    assert (turn.message, reward, done) == ("default/p runs on a", 25.0, False)
    assert (turn.pod, turn.feasible, turn.placed) == ("default/q", ["a"], 1)
    turn, _, done = game.step("a")
    assert (turn.pod, turn.feasible, turn.placed, done) == ("", [], 2, True)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        pytest.param("", "default/p is left without a node", id="nothing"),
        pytest.param("b", "default/p is left without a node: b is not feasible", id="a node that the filters refuse"),
        pytest.param("zzz", "default/p is left without a node: zzz is not feasible", id="a node that does not exist"),
    ],
)
def test_other_answers_leave_the_pod_without_a_node(node: str, said: str) -> None:
    turn, reward, done = game_of(gpu_pod("p", 500)).step(node)
    assert (turn.message, turn.refused, reward, done) == (said, 1, 0.0, True)


def test_the_same_seed_is_the_same_episode() -> None:
    game = PlacementGame(generated(nodes=3, pods=5))
    assert game.reset(7) == game.reset(7) != game.reset(8)


def test_mistakes_say_what_is_right() -> None:
    with pytest.raises(UsageError, match="call reset first"):
        PlacementGame(generated(nodes=1, pods=1)).step("a")
    game = game_of(gpu_pod("p", 500))
    game.step("a")
    with pytest.raises(UsageError, match="the episode is over: call reset"):
        game.step("a")


def test_without_openenv_the_install_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openenv", None)
    monkeypatch.delitem(sys.modules, "mooring.sim.gym.openenv", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'mooring\[openenv\]'"):
        import mooring.sim.gym.openenv  # noqa: F401
