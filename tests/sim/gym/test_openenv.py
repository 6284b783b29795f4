"""OpenEnv's own server plays an episode through HTTP, with the same turns as the game that it wraps."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("openenv")

from mooring.sim.gym import PlacementGame, generated

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

    from mooring.sim.gym.openenv import SchedulingAction, SchedulingEnvironment, make_app

EPISODES = generated(nodes=3, pods=6, gpus=2)


def test_an_environment_plays_what_the_game_plays() -> None:
    env, game = SchedulingEnvironment(EPISODES), PlacementGame(EPISODES)
    seen, turn = env.reset(seed=3), game.reset(3)
    while not seen.done:
        assert {key: getattr(seen, key) for key in turn.to_dict()} == turn.to_dict()
        seen = env.step(SchedulingAction(node=seen.suggested))
        turn, reward, _ = game.step(turn.suggested)
        assert seen.reward == reward
    assert env.state.step_count == 6


@pytest.mark.filterwarnings("ignore")
def test_the_application_serves_an_episode_in_a_session() -> None:
    with TestClient(make_app(EPISODES)) as client, client.websocket_connect("/ws") as session:

        def ask(kind: str, **data: Any) -> dict[str, Any]:
            session.send_json({"type": kind, "data": data})
            return dict(session.receive_json()["data"])

        found = ask("reset", seed=3)
        while not found["done"]:
            found = ask("step", node=found["observation"]["suggested"])
        assert found["observation"]["placed"] == 6


def test_the_schema_says_what_an_answer_is() -> None:
    with TestClient(make_app(EPISODES)) as client:
        assert "node" in client.get("/schema").json()["action"]["properties"]
