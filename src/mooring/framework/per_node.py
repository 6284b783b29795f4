"""Plugins that look at one node at a time, called like those that answer with columns.

A class that derives from :class:`PerNodePlugin` is called with plain pods and node views. Its methods stay as their
author wrote them; the profile calls them through the functions here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.core import Pod
from mooring.errors import PluginError
from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import Scores
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.node_view import NodeViews
from mooring.framework.post_filter_result import PostFilterResult
from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


class PerNodePlugin:
    """Marks the classes whose methods take plain pods, and one node where others take all."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A PostFilter's success: the pod is nominated to this node, and these pods on it are to be evicted."""

    node_name: str
    victims: tuple[Pod, ...] = ()


def in_columns(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The bound method of a per-node plugin as a profile calls it: with the engine's values, for many nodes."""
    adapt = _ADAPTERS.get(name, _with_plain_arguments)
    return functools.wraps(method)(adapt(method))


def _filter(method: Callable[..., Status]) -> Callable[..., Verdict | None]:
    def filter(state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        numbers: dict[Status, int] = {}
        ids = np.zeros(len(nodes), np.int64)
        for i, view in enumerate(NodeViews(nodes)):
            status = method(state, pod.pod, view)
            if not isinstance(status, Status):
                raise PluginError(f"filter returned {status!r} where a Status such as sdk.SUCCESS would be right")
            if not status.is_success:
                ids[i] = numbers.setdefault(status, len(numbers) + 1)
        return Verdict.choose(ids, list(numbers)) if numbers else None

    return filter


def _score(method: Callable[..., int]) -> Callable[..., Scores]:
    def score(state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        scores = np.zeros(len(nodes), np.int64)
        for i, view in enumerate(NodeViews(nodes)):
            value = method(state, pod.pod, view)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise PluginError(f"score returned {value!r} for {view.name} where a whole number would be right")
            scores[i] = value
        return scores

    return score


def _normalize(method: Callable[..., Mapping[str, int]]) -> Callable[..., Scores]:
    """Scores by node name there and back."""

    def normalize(state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        names = [info.name for info in nodes.infos]
        answer = method(state, pod.pod, dict(zip(names, scores.tolist(), strict=True)))
        missing = next((name for name in names if name not in answer), None)
        if missing is not None:
            raise PluginError(f"normalize returned no score for {missing}")
        return np.array([answer[name] for name in names], np.int64)

    return normalize


def _post_filter(method: Callable[..., Status | Preemption]) -> Callable[..., PostFilterResult]:
    def post_filter(state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        answer = method(state, pod.pod, NodeViews(nodes), statuses)
        if isinstance(answer, Status):
            return PostFilterResult(answer)
        if not isinstance(answer, Preemption):
            raise PluginError(f"post_filter returned {answer!r} where a Status or an sdk.Preemption would be right")
        position = next((i for i, info in enumerate(nodes.infos) if info.name == answer.node_name), None)
        if position is None:
            raise PluginError(f"post_filter nominated {answer.node_name!r}, which is not a node")
        on_node = {info.uid: info for info in nodes.pods(position)}
        stranger = next((victim for victim in answer.victims if victim.uid not in on_node), None)
        if stranger is not None:
            raise PluginError(f"post_filter names {stranger.key} as a victim, which is not on node {answer.node_name}")
        return PostFilterResult(SUCCESS, answer.node_name, tuple(on_node[victim.uid] for victim in answer.victims))

    return post_filter


def _with_plain_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    """Every other method: the same arguments, with plain pods and with node views."""
    if inspect.iscoroutinefunction(method):

        async def call_async(*arguments: Any) -> Any:
            return await method(*map(_plain, arguments))

        return call_async

    def call(*arguments: Any) -> Any:
        return method(*map(_plain, arguments))

    return call


def _plain(value: Any) -> Any:
    if isinstance(value, PodInfo):
        return value.pod
    return NodeViews(value) if isinstance(value, NodeRows) else value


_ADAPTERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "filter": _filter,
    "score": _score,
    "normalize": _normalize,
    "post_filter": _post_filter,
}
