"""Plugins with given answers, and profiles of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.core.framework.extension_points import EXTENSION_POINTS
from mooring.core.framework.registry import Traits, resolve
from mooring.core.framework.runtime import Profile


def made(name: str = "Mine", *, traits: Traits | None = None, **answers: Any) -> Any:
    """An object of a class with these methods. An answer is returned, raised, or called with the arguments."""

    def method(answer: Any) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return call

    methods = {key: method(answer) for key, answer in answers.items()}
    for key, function in methods.items():
        function.__name__ = key
    declared = {} if traits is None else {"traits": traits}
    return type(name, (), {"name": name, **declared, **methods})()


def profile(*plugins: Any, weights: dict[str, int] | None = None) -> Profile:
    """A profile that has each plugin at all its points, in this order."""
    resolved = [resolve(plugin) for plugin in plugins]
    points = {
        point.name: [
            (plugin.name, (weights or {}).get(plugin.name, 1) if point.is_scored else 0)
            for plugin in resolved
            if point.name in plugin.points
        ]
        for point in EXTENSION_POINTS
    }
    return Profile("default-scheduler", None, {plugin.name: plugin for plugin in resolved}, points)


@pytest.fixture(name="made")
def _made() -> Callable[..., Any]:
    return made


@pytest.fixture(name="profile")
def _profile() -> Callable[..., Profile]:
    return profile
