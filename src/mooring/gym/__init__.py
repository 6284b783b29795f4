"""Environments for learning where pods go: an episode is a cluster and the pods that come to it.

Needs gymnasium: ``pip install 'mooring[gym]'``. Policies that were learned run as the score plugin in
:mod:`mooring.gym.plugin`, which needs nothing more than mooring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.gym.environment import SchedulingEnv as SchedulingEnv
    from mooring.gym.environment import vector_env as vector_env
    from mooring.gym.episodes import Episode as Episode
    from mooring.gym.episodes import from_files as from_files
    from mooring.gym.episodes import from_record as from_record
    from mooring.gym.episodes import generated as generated
    from mooring.gym.policy import LinearPolicy as LinearPolicy

_PLACES = {
    "SchedulingEnv": "environment",
    "vector_env": "environment",
    "Episode": "episodes",
    "from_files": "episodes",
    "from_record": "episodes",
    "generated": "episodes",
    "LinearPolicy": "policy",
}
__all__ = ["Episode", "LinearPolicy", "SchedulingEnv", "from_files", "from_record", "generated", "vector_env"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the plugin does not need gymnasium."""
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
