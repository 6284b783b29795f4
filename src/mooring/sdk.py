"""For plugin authors: plugins that look at one pod and one node at a time, without columns.

    from mooring import sdk

    class CpuLabelled(sdk.NodeFilter):
        name = "CpuLabelled"

A method runs as written. In a test, call it with a pod and a node view::

Derive from as many of the classes here as the plugin has extension points. Load it with ``--plugin file.py`` (or
``module:Class``, or an entry point in the group ``mooring.plugins``) and enable it by its name in a profile of a
KubeSchedulerConfiguration. Arguments from ``pluginConfig`` arrive as ``self.args`` if the class declares their type::

A class may declare what its answers depend on, so that they are computed less often: ``traits =
sdk.Traits(filter_reads=sdk.Reads.NODE)``. Registration rejects misspelt names.

    class QuietHours(sdk.NodeFilter):
        name = "QuietHours"
        args = QuietArgs

A method is what its author wrote. In a test, call it with a pod and a node view::

    from mooring.testing import make_node_view, make_pod

    node = make_node_view("a", labels={"cpu": "true"})
    assert CpuLabelled().filter(sdk.CycleState(), make_pod(), node).is_success

A class may say what its answers depend on, so that they are computed less often: ``traits =
sdk.Traits(filter_reads=sdk.Reads.NODE)``. Registration refuses what is misspelt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import ConfigError
from mooring.api.text import hint
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Change, PreFilterResult, PreFlight
from mooring.core.framework.per_node import NodeView, NodeViews, PerNodePlugin, Preemption
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SUCCESS, Code, NodeStatuses, Status
from mooring.net.extender import sdk as extender

__all__ = [
    "MAX_NODE_SCORE",
    "NODE_ADDED",
    "NODE_CHANGED",
    "POD_DELETED",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "Args",
    "Bind",
    "Change",
    "ClusterEvent",
    "Code",
    "CycleState",
    "EventRegistration",
    "EventResource",
    "Handle",
    "Hint",
    "NodeFilter",
    "NodeScore",
    "NodeStatuses",
    "NodeView",
    "NodeViews",
    "Permit",
    "Plugin",
    "Pod",
    "PostBind",
    "PostFilter",
    "PreBind",
    "PreEnqueue",
    "PreFilter",
    "PreFilterResult",
    "PreFlight",
    "PreScore",
    "Preemption",
    "QueueSort",
    "Reads",
    "Reserve",
    "Status",
    "Traits",
    "error",
    "extender",
    "on",
    "only_nodes",
    "pending",
    "scaled",
    "unresolvable",
    "unschedulable",
    "wait",
]

unschedulable = Status.unschedulable  # rejected, but evicting pods might help: preemption may try
unresolvable = Status.unresolvable  # rejected, and evicting pods cannot help
pending = Status.pending  # rejected until something outside the scheduler has happened
error = Status.error  # an error: the attempt fails and is retried
wait = Status.wait  # Permit only

NODE_ADDED = on(EventResource.NODE, ActionType.ADD)
NODE_CHANGED = on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE)
POD_DELETED = on(EventResource.POD, ActionType.DELETE)


def only_nodes(*names: str) -> PreFilterResult:
    """Return a PreFilter result that restricts the search to these nodes."""
    return PreFilterResult(frozenset(names))


class Args(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Base class of a plugin's arguments: snake_case here, camelCase in the configuration."""


# ---- bases: mooring.core.framework.interfaces documents who calls them, and the effect of each status ----------------


class Plugin(PerNodePlugin, ABC):
    """Base class of every plugin: its name, arguments, traits, and the handle to the cluster."""

    name: ClassVar[str] = ""
    args: Any = None  # on the class: the type of the arguments; on an instance: their values
    traits: Traits = Traits()

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        self.handle = handle
        self.args = typed_args(type(self), args)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events that could make a pod schedulable that this plugin rejected; by default any event."""
        return (on(EventResource.WILDCARD, ActionType.ALL),)


class PreEnqueue(Plugin):
    """Holds pods back before any attempt."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status:
        """SUCCESS lets the pod into the queue."""


class QueueSort(Plugin):
    """Decides which pod is tried next; a scheduler has exactly one such plugin, so disable PrioritySort."""

    @abstractmethod
    def sort_key(self, priority: int, timestamp: float) -> Any:
        """Return a key: the pod with the smallest one is next. ``timestamp`` is when it entered the queue."""


class PreFilter(Plugin):
    """Looks at the pod once per attempt, before any node."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeViews) -> Status | PreFilterResult:
        """Return SKIP to disable this plugin's filter for the attempt; ``only_nodes`` restricts the search."""


class NodeFilter(Plugin):
    """Decides whether the pod can run on one node. It is only called for nodes that earlier filters passed."""

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Status:
        """Return SUCCESS, ``unschedulable(reason)`` or ``unresolvable(reason)``."""


class PostFilter(Plugin):
    """Makes room for a pod that fits nowhere."""

    @abstractmethod
    def post_filter(self, state: CycleState, pod: Pod, nodes: NodeViews, statuses: NodeStatuses) -> Status | Preemption:
        """Return ``unschedulable(reason)`` to let the next plugin try; ``Preemption(node_name, victims)`` makes room.

        ``statuses.get(node_name)`` is why a node was rejected. Skip nodes that were rejected as unresolvable.
        """


class PreScore(Plugin):
    """Looks at the feasible nodes once, before they are scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeViews) -> Status:
        """Return SKIP to leave this plugin out of the scores."""


class NodeScore(Plugin):
    """Scores one feasible node: 0 to 100, or any number if the class also defines ``normalize``.

    ``normalize(state, pod, scores)`` gets the scores by node name and returns them from 0 to 100: see ``scaled``.
    """

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Return a score; larger is better."""


class Reserve(Plugin):
    """Reserves something for the pod once its node is chosen, and releases it if binding fails."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Reserve; anything but SUCCESS ends the attempt."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo; also called if ``reserve`` has not run. Must not fail."""


class Permit(Plugin):
    """Allows, rejects or delays the binding."""

    @abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]:
        """Return (SUCCESS, 0), (unschedulable(…), 0), or (wait(), timeout in seconds)."""


class PreBind(Plugin):
    """Prepares the pod's binding: it may wait, while other pods are tried.

    A class with nothing to do for many pods also defines ``pre_bind_pre_flight(state, pod, node_name)`` and returns
    ``PreFlight(SKIP)`` for these.
    """

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Prepare; anything but SUCCESS ends the binding."""


class Bind(Plugin):
    """Binds pods in its own way; put it before DefaultBinder."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Bind; SKIP leaves the pod to the next Bind plugin."""


class PostBind(Plugin):
    """Is called after a pod is bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up; nothing depends on it any more."""


def scaled(scores: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """Normalise: the largest score becomes 100, or 0 when ``reverse``."""
    largest = max(scores.values(), default=0)
    if largest == 0:
        return dict.fromkeys(scores, MAX_NODE_SCORE) if reverse else dict(scores)
    found = {name: MAX_NODE_SCORE * score // largest for name, score in scores.items()}
    return {name: MAX_NODE_SCORE - score for name, score in found.items()} if reverse else found


# ---- arguments ---------------------------------------------------------------------------------------------------


def typed_args(plugin: type[Any], args: Any) -> Any:
    """Return the arguments from ``pluginConfig`` as the plugin's declared type, or raise a one-line error."""
    kind = plugin.args
    if kind is None or (isinstance(kind, type) and isinstance(args, kind)):
        if kind is None and args:
            raise ConfigError(f"args: the plugin takes none, but there are {', '.join(map(str, args))}")
        return args
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        raise ConfigError(f"args: {plugin.__qualname__} declares {kind!r}, expected a msgspec.Struct type")
    given = {} if args is None else args
    if not isinstance(given, Mapping):
        raise ConfigError(f"args: {given!r}, expected an object")
    given = {key: value for key, value in given.items() if key not in ("apiVersion", "kind")}
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ConfigError(*(f'args: unknown field "{key}"; {hint(key, known)}' for key in unknown))
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as problem:
        text, _, path = str(problem).partition(" - at `$")
        raise ConfigError(f"args{path.rstrip('`')}: {text[0].lower()}{text[1:].replace('`', '')}") from None
