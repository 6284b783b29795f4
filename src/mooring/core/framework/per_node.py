"""Adapters for plugins that look at one node at a time.

A class that derives from :class:`PerNodePlugin` is called with plain pods and node views. Its methods stay as written;
the profile calls them through the functions here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod, Taint
from mooring.api.errors import PluginError
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.interfaces import Scores
from mooring.core.framework.status import SUCCESS, NodeStatuses, PostFilterResult, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# ---- views of nodes for plugins without columns
# ------------------------------------------------------------------------


class _Columns:
    """Resource columns of some rows, read once for all views of them."""

    __slots__ = ("_allocatable", "_requested", "rows")

    def __init__(self, rows: NodeRows) -> None:
        self.rows = rows
        self._allocatable: dict[str, NDArray[np.int64]] = {}
        self._requested: dict[str, NDArray[np.int64]] = {}

    def allocatable(self, resource: str, i: int) -> int:
        column = self._allocatable.get(resource)
        if column is None:
            column = self._allocatable[resource] = self.rows.allocatable(resource)
        return int(column[i])

    def requested(self, resource: str, i: int) -> int:
        column = self._requested.get(resource)
        if column is None:
            column = self._requested[resource] = self.rows.requested(resource)
        return int(column[i])


class NodeView:
    """One node, actual or hypothetical. Its properties are computed on access."""

    __slots__ = ("_columns", "_i")

    def __init__(self, columns: _Columns, i: int) -> None:
        self._columns = columns
        self._i = i

    @property
    def node(self) -> Node:
        """The Node object."""
        node = self._columns.rows.infos[self._i].node
        assert node is not None, "rows are nodes that exist"
        return node

    @property
    def name(self) -> str:
        return self._columns.rows.infos[self._i].name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations

    @property
    def taints(self) -> Sequence[Taint]:
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.node.spec.unschedulable

    @property
    def allocatable(self) -> Mapping[str, int]:
        """Amounts by resource: cpu in thousandths, everything else in whole units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.allocatable, self._i)

    @property
    def requested(self) -> Mapping[str, int]:
        """Sum of the requests of the node's pods, in the same units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.requested, self._i)

    def free(self, resource: str) -> int:
        return self._columns.allocatable(resource, self._i) - self._columns.requested(resource, self._i)

    @property
    def pods(self) -> list[Pod]:
        """Pods counted on the node, including assumed ones."""
        return [info.pod for info in self._columns.rows.pods(self._i)]

    @property
    def allowed_pods(self) -> int:
        return int(self._columns.rows.allowed_pods[self._i])

    @property
    def images(self) -> frozenset[str]:
        """Names of the node's images."""
        return frozenset(name for image in self.node.status.images for name in image.names)

    def __repr__(self) -> str:
        return f"NodeView({self.name})"


class _Amounts(Mapping[str, int]):
    """A node's amounts by resource; a resource that no node has is missing, not 0."""

    __slots__ = ("_i", "_names", "_read")

    def __init__(self, names: Mapping[str, int], read: Callable[[str, int], int], i: int) -> None:
        self._names = names
        self._read = read
        self._i = i

    def __getitem__(self, resource: str) -> int:
        if resource not in self._names:
            raise KeyError(resource)
        return self._read(resource, self._i)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class NodeViews(Sequence[NodeView]):
    """Some nodes, in the scheduler's order."""

    __slots__ = ("_columns",)

    def __init__(self, rows: NodeRows) -> None:
        self._columns = _Columns(rows)

    @overload
    def __getitem__(self, i: int) -> NodeView: ...

    @overload
    def __getitem__(self, i: slice) -> list[NodeView]: ...

    def __getitem__(self, i: int | slice) -> NodeView | list[NodeView]:
        if isinstance(i, slice):
            return [NodeView(self._columns, position) for position in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return NodeView(self._columns, i % len(self))

    def __len__(self) -> int:
        return len(self._columns.rows)


class PerNodePlugin:
    """Marks classes whose methods take plain pods, and one node where column plugins take all."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A PostFilter's success: the pod is nominated to this node, and these pods on it are to be evicted."""

    node_name: str
    victims: tuple[Pod, ...] = ()


def in_columns(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a per-node plugin for the profile, which calls it with columns of many nodes."""
    adapt = _ADAPTERS.get(name, _with_plain_arguments)
    return functools.wraps(method)(adapt(method))


def _filter(method: Callable[..., Status]) -> Callable[..., Verdict | None]:
    def filter(state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        numbers: dict[Status, int] = {}
        ids = np.zeros(len(nodes), np.int64)
        for i, view in enumerate(NodeViews(nodes)):
            status = method(state, pod.pod, view)
            if not isinstance(status, Status):
                raise PluginError(f"filter returned {status!r}, expected a Status such as sdk.SUCCESS")
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
                raise PluginError(f"score returned {value!r} for {view.name}, expected a whole number")
            scores[i] = value
        return scores

    return score


def _normalize(method: Callable[..., Mapping[str, int]]) -> Callable[..., Scores]:
    """Wrap ``normalize``, which takes scores by node name."""

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
            raise PluginError(f"post_filter returned {answer!r}, expected a Status or an sdk.Preemption")
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
    """Wrap every other method: the same arguments, with plain pods and node views."""
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
