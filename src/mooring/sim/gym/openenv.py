"""The environment as an OpenEnv server: remote agents play over HTTP or WebSocket, one pod per step.

    from mooring.sim.gym import generated
    from mooring.sim.gym.openenv import SchedulingEnvironment, make_app

    app = make_app(generated(nodes=20, pods=50))     # uvicorn module:app --host 127.0.0.1

Needs openenv-core: ``pip install 'mooring[openenv]'``. What is shown and what an answer means is
:mod:`mooring.sim.gym.placing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from mooring.sim.gym.placing import DEFAULT_REWARD, GPU_CONFIG, PlacementGame, Turn
from mooring.sim.gym.world import Episodes

try:
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
    from pydantic import Field
except ImportError:
    raise ImportError(
        "mooring.sim.gym.openenv needs openenv-core, which is not installed: pip install 'mooring[openenv]'",
        name="openenv",
    ) from None


class SchedulingAction(Action):
    """The node for the pod."""

    node: str = Field(default="", description="Name of a feasible node; empty leaves the pod without a node")


class SchedulingObservation(Observation):
    """The pod to be placed, and its feasible nodes. Amounts are Kubernetes quantities."""

    pod: str = Field(default="", description="namespace/name of the pod; empty at the end of the episode")
    requests: dict[str, str] = Field(default_factory=dict, description="What the pod asks for")
    gpu_milli: int = Field(default=0, description="Thousandths of GPUs that the pod asks for, all together")
    priority: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    feasible: list[str] = Field(default_factory=list, description="The nodes that the filters allow")
    nodes: list[dict[str, Any]] = Field(default_factory=list, description="What is free on the first of them")
    suggested: str = Field(default="", description="The node that the profile's score plugins choose")
    message: str = Field(default="", description="What became of the last pod")
    placed: int = 0
    refused: int = 0
    evicted: int = 0
    allocated: float = Field(default=0.0, description="Allocated GPUs, or CPU if there are none, in percent")


class SchedulingEnvironment(Environment[SchedulingAction, SchedulingObservation, State]):
    """One episode after another; each session has an environment of its own."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        episodes: Episodes,
        *,
        config: Mapping[str, Any] | None = GPU_CONFIG,
        plugins: Iterable[type] = (),
        reward: Mapping[str, float] = DEFAULT_REWARD,
    ) -> None:
        super().__init__()
        self.game = PlacementGame(episodes, config=config, plugins=plugins, reward=reward)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> SchedulingObservation:
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        turn = self.game.reset(seed)
        return self._seen(turn, None, done=not turn.pod)

    def step(self, action: SchedulingAction, timeout_s: float | None = None, **kwargs: Any) -> SchedulingObservation:
        turn, reward, done = self.game.step(action.node)
        self._state.step_count += 1
        return self._seen(turn, reward, done=done)

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="mooring",
            description="Place pods on nodes as a Kubernetes scheduler does: each step chooses a node for one pod.",
        )

    def _seen(self, turn: Turn, reward: float | None, *, done: bool) -> SchedulingObservation:
        return SchedulingObservation(**turn.to_dict(), reward=reward, done=done)


def make_app(episodes: Episodes, **options: Any) -> Any:
    """Return the FastAPI application; ``options`` are those of :class:`SchedulingEnvironment`."""
    return create_fastapi_app(
        lambda: SchedulingEnvironment(episodes, **options), SchedulingAction, SchedulingObservation
    )
