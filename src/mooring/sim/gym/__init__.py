"""Environments for learning where to place pods: an episode is a cluster and the pods that arrive in it.

``SchedulingEnv`` needs gymnasium: ``pip install 'mooring[gym]'``. Learned policies run as the score plugin in
:mod:`mooring.sim.gym.policy`, which needs only mooring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.sim.gym.environment import SchedulingEnv, vector_env
    from mooring.sim.gym.placing import PlacementGame
    from mooring.sim.gym.policy import LinearPolicy
    from mooring.sim.gym.world import Episode, from_files, from_record, generated

_PLACES = {
    "SchedulingEnv": "environment",
    "vector_env": "environment",
    "Episode": "world",
    "from_files": "world",
    "from_record": "world",
    "generated": "world",
    "LinearPolicy": "policy",
    "PlacementGame": "placing",
}
__all__ = [
    "Episode",
    "LinearPolicy",
    "PlacementGame",
    "SchedulingEnv",
    "from_files",
    "from_record",
    "generated",
    "vector_env",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the plugin does not need gymnasium."""
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
