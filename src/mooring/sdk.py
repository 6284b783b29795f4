"""What plugin authors import: look at one pod and one node at a time, and leave columns to mooring.

    from mooring import sdk

    class CpuLabelled(sdk.NodeFilter):
        name = "CpuLabelled"

        def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
            if node.labels.get("cpu") == "true":
                return sdk.SUCCESS
            return sdk.unschedulable(f"Node: {node.name}")

Derive from as many of the classes here as the plugin has extension points.
Load it with ``--plugin file.py`` (or ``module:Class``, or an entry point in
the group ``mooring.plugins``) and enable it by its name in a profile of a
KubeSchedulerConfiguration. Arguments from ``pluginConfig`` arrive as
``self.args`` if the class declares their type::

    class QuietArgs(sdk.Args):
        margin_seconds: int = 600          # marginSeconds in YAML

    class QuietHours(sdk.NodeFilter):
        name = "QuietHours"
        args = QuietArgs

Methods are called with the engine's own values and answer with columns; when
called with a :class:`NodeView` (in your tests) they are what you wrote.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, overload

import msgspec
import numpy as np

from mooring.api.core import Node, Pod, Taint
from mooring.errors import ConfigError, PluginError
from mooring.extender import sdk as extender
from mooring.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, Hint, on
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import MAX_NODE_SCORE, PreFilterResult, Reads, Scores
from mooring.framework.status import SKIP, SUCCESS, Code, Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "NODE_ADDED",
    "NODE_CHANGED",
    "POD_DELETED",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "Args",
    "ClusterEvent",
    "Code",
    "CycleState",
    "EventRegistration",
    "EventResource",
    "Handle",
    "Hint",
    "NodeFilter",
    "NodeScore",
    "NodeView",
    "NodeViews",
    "Permit",
    "Plugin",
    "Pod",
    "PostBind",
    "PreEnqueue",
    "PreFilter",
    "PreFilterResult",
    "PreScore",
    "Reads",
    "Reserve",
    "Status",
    "error",
    "extender",
    "on",
    "only_nodes",
    "scaled",
    "unresolvable",
    "unschedulable",
    "wait",
]

unschedulable = Status.unschedulable  # no, but removing pods might change it: preemption may try
unresolvable = Status.unresolvable  # no, and removing pods cannot change it
error = Status.error  # something broke: the attempt fails and is tried again
wait = Status.wait  # Permit only

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)
NODE_CHANGED = on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE)
POD_DELETED = on(EventResource.POD, ActionType.DELETE)


def only_nodes(*names: str) -> PreFilterResult:
    """A PreFilter's way to say that no other nodes need to be looked at."""
    return PreFilterResult(frozenset(names))


class Args(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Base for a plugin's arguments: snake_case here, camelCase in the configuration."""


# ---- what a plugin sees of nodes ---------------------------------------------------------------------------------


class _Columns:
    """Resource columns of some rows, read once for all views of them."""

    __slots__ = ("_allocatable", "_requested", "rows")

    def __init__(self, rows: NodeRows) -> None:
        self.rows = rows
        self._allocatable: dict[str, Any] = {}
        self._requested: dict[str, Any] = {}

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
    """One node as it is, or as a hypothesis has it. Everything is read when it is asked for."""

    __slots__ = ("_columns", "_i")

    def __init__(self, columns: _Columns, i: int) -> None:
        self._columns = columns
        self._i = i

    @property
    def node(self) -> Node:
        """The object behind the view."""
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
        """By resource: cpu in thousandths, everything else in whole units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.allocatable, self._i)

    @property
    def requested(self) -> Mapping[str, int]:
        """What the pods on the node ask for together, in the same units."""
        return _Amounts(self._columns.rows.table.resources, self._columns.requested, self._i)

    def free(self, resource: str) -> int:
        return self._columns.allocatable(resource, self._i) - self._columns.requested(resource, self._i)

    @property
    def pods(self) -> list[Pod]:
        """The pods that are counted on the node, also those that are only assumed to be there."""
        return [info.pod for info in self._columns.rows.pods(self._i)]

    @property
    def allowed_pods(self) -> int:
        return int(self._columns.rows.allowed_pods[self._i])

    @property
    def images(self) -> frozenset[str]:
        """Names of the images that the node has."""
        return frozenset(name for image in self.node.status.images for name in image.names)

    def __repr__(self) -> str:
        return f"NodeView({self.name})"


class _Amounts(Mapping[str, int]):
    """A node's amounts by resource; a resource that nobody has is 0 nowhere and missing everywhere."""

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


# ---- the adapter -------------------------------------------------------------------------------------------------


def _pod(pod: PodInfo | Pod) -> Pod:
    return pod.pod if isinstance(pod, PodInfo) else pod


def _filter_column(per_node: Callable[..., Status]) -> Callable[..., Any]:
    @functools.wraps(per_node)
    def filter(self: Any, state: CycleState, pod: Any, nodes: Any) -> Any:
        if not isinstance(nodes, NodeRows):
            return per_node(self, state, pod, nodes)
        numbers: dict[Status, int] = {}
        ids = np.zeros(len(nodes), np.int64)
        inner = _pod(pod)
        for i, view in enumerate(NodeViews(nodes)):
            status = per_node(self, state, inner, view)
            if not isinstance(status, Status):
                raise PluginError(f"filter returned {status!r} where a Status such as sdk.SUCCESS would be right")
            if not status.is_success:
                ids[i] = numbers.setdefault(status, len(numbers) + 1)
        return Verdict.choose(ids, list(numbers)) if numbers else None

    return filter


def _score_column(per_node: Callable[..., int]) -> Callable[..., Any]:
    @functools.wraps(per_node)
    def score(self: Any, state: CycleState, pod: Any, nodes: Any) -> Any:
        if not isinstance(nodes, NodeRows):
            return per_node(self, state, pod, nodes)
        scores = np.zeros(len(nodes), np.int64)
        inner = _pod(pod)
        for i, view in enumerate(NodeViews(nodes)):
            value = per_node(self, state, inner, view)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise PluginError(f"score returned {value!r} for {view.name} where a whole number would be right")
            scores[i] = value
        return scores

    return score


def _with_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """pre_filter and pre_score: the plain pod, and nodes as views."""

    @functools.wraps(function)
    def adapted(self: Any, state: CycleState, pod: Any, nodes: Any) -> Any:
        return function(self, state, _pod(pod), NodeViews(nodes) if isinstance(nodes, NodeRows) else nodes)

    return adapted


def _with_pod(function: Callable[..., Any]) -> Callable[..., Any]:
    """reserve, permit and what follows: the plain pod and the node's name."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def adapted_async(self: Any, state: CycleState, pod: Any, node_name: str) -> Any:
            return await function(self, state, _pod(pod), node_name)

        return adapted_async

    @functools.wraps(function)
    def adapted(self: Any, state: CycleState, pod: Any, node_name: str) -> Any:
        return function(self, state, _pod(pod), node_name)

    return adapted


_ADAPTERS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "filter": _filter_column,
    "score": _score_column,
    "pre_filter": _with_views,
    "pre_score": _with_views,
    "reserve": _with_pod,
    "unreserve": _with_pod,
    "permit": _with_pod,
    "pre_bind": _with_pod,
    "bind": _with_pod,
    "post_bind": _with_pod,
}


# ---- bases -------------------------------------------------------------------------------------------------------


class Plugin(ABC):  # noqa: B024 - which methods there are is what the bases below say
    """Every plugin: its name, its arguments, and the handle to the cluster."""

    name: ClassVar[str] = ""
    args: Any = None  # on the class: the type of the arguments; on the plugin itself: their values
    per_node: ClassVar[bool] = True

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        self.handle = handle
        self.args = _typed_args(type(self), args)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for method, adapt in _ADAPTERS.items():
            function = cls.__dict__.get(method)
            if inspect.isfunction(function) and not getattr(function, "__isabstractmethod__", False):
                setattr(cls, method, adapt(function))

    def events_to_register(self) -> Sequence[EventRegistration]:
        """What could make a pod schedulable that this plugin refused; anything at all, unless overridden."""
        return (on(EventResource.WILDCARD, ActionType.ALL),)


class PreEnqueue(Plugin):
    """Holds pods back before any attempt."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """Success lets the pod into the queue."""


class PreFilter(Plugin):
    """Looks at the pod once per attempt, before any node."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeViews) -> Status | PreFilterResult:
        """SKIP switches this plugin's filter off for the attempt; ``only_nodes`` narrows the search."""


class NodeFilter(Plugin):
    """Says of one node whether the pod can run there. Only nodes that passed the filters before are shown."""

    filter_reads: ClassVar[Reads] = Reads.CLUSTER  # promise less and preemption can try many nodes at once

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Status:
        """SUCCESS, ``unschedulable(reason)`` or ``unresolvable(reason)``."""


class PreScore(Plugin):
    """Looks at the feasible nodes once, before they are scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeViews) -> Status:
        """SKIP leaves this plugin out of the scores."""


class NodeScore(Plugin):
    """Says how good a feasible node is: 0 to 100, or any number if ``normalize_scores`` brings it there."""

    score_reads: ClassVar[Reads] = Reads.CLUSTER

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "normalize_scores" in cls.__dict__:
            cls.normalize = _normalize  # type: ignore[attr-defined]

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Larger is better."""


def _normalize(self: Any, state: CycleState, pod: Any, scores: Scores, nodes: NodeRows) -> Scores:
    """Hand the scores by node name to ``normalize_scores`` and take them back as a column."""
    names = [info.name for info in nodes.infos]
    answer = self.normalize_scores(state, _pod(pod), dict(zip(names, scores.tolist(), strict=True)))
    return np.array([answer[name] for name in names], np.int64)


class Reserve(Plugin):
    """Keeps something for the pod once its node is chosen, and gives it back if binding fails."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status: ...

    @abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo; called also where ``reserve`` has not run. Must not fail."""


class Permit(Plugin):
    """Allows, refuses or delays the binding."""

    @abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]:
        """(SUCCESS, 0), (unschedulable(…), 0), or (wait(), seconds to wait at most)."""


class PostBind(Plugin):
    """Hears of pods that are bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None: ...


def scaled(scores: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """The usual normalisation: the largest becomes 100, or 0 when ``reverse``."""
    largest = max(scores.values(), default=0)
    if largest == 0:
        return dict.fromkeys(scores, MAX_NODE_SCORE) if reverse else dict(scores)
    found = {name: MAX_NODE_SCORE * score // largest for name, score in scores.items()}
    return {name: MAX_NODE_SCORE - score for name, score in found.items()} if reverse else found


# ---- arguments ---------------------------------------------------------------------------------------------------


def _typed_args(plugin: type[Plugin], args: Any) -> Any:
    """The arguments from ``pluginConfig`` as the type that the plugin declares, or one line on what is wrong."""
    kind = plugin.args
    if kind is None or (isinstance(kind, type) and isinstance(args, kind)):
        if kind is None and args:
            raise ConfigError(f"args: the plugin takes none, but there are {', '.join(map(str, args))}")
        return args
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        raise ConfigError(f"args: {plugin.__qualname__} declares {kind!r}, a msgspec.Struct type would be right")
    given = {} if args is None else args
    if not isinstance(given, Mapping):
        raise ConfigError(f"args: {given!r} where an object would be right")
    given = {key: value for key, value in given.items() if key not in ("apiVersion", "kind")}
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ConfigError(*(f'args: unknown field "{key}"{_meant(key, known)}' for key in unknown))
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as problem:
        text, _, path = str(problem).partition(" - at `$")
        raise ConfigError(f"args{path.rstrip('`')}: {text[0].lower()}{text[1:].replace('`', '')}") from None


def _meant(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; there are {', '.join(known)}" if known else "; there are none"
