"""What extender authors import: functions that say whether a pod may go to a node, and how good the node is.

    from mooring.net.extender.sdk import Node, Pod, refuse

``mooring extender serve my_ext.py`` serves it to any kube-scheduler, and ``mooring extender config my_ext.py`` prints
the scheduler configuration for it. Write functions, or a class derived from :class:`Extender` with methods of the same
names; any of ``filter``, ``prioritize``, ``preempt`` and ``bind``, plain or ``async``.

The name of the second parameter decides how often a function is called: ``node`` for every node, ``nodes`` once with
all of them. Its type decides the form: ``Node``, ``dict`` (the whole object), a msgspec Struct of your own with just
the fields you read (the fastest), or ``str``: names only; then kube-scheduler need not send nodes at all
(``nodeCacheCapable``).

``mooring extender serve my_ext.py`` makes a server of it that any kube-scheduler can call, ``mooring extender config
my_ext.py`` prints what to put into its configuration. Functions or a class derived from :class:`Extender` with methods
of the same names; any of ``filter``, ``prioritize``, ``preempt`` and ``bind``, plain or ``async``.

The second parameter decides what comes: ``node`` is called for every node, ``nodes`` once with all of them. Its type
says how a node comes: ``Node``, ``dict`` (the whole object), a msgspec Struct of your own with just the fields you read
(the fastest), or ``str``: names only; then kube-scheduler need not send nodes at all (``nodeCacheCapable``).
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from mooring.api.core import Node, Pod
from mooring.api.errors import PluginError
from mooring.net.extender.requests import Body, prepare

__all__ = ["MAX_SCORE", "Binding", "Extender", "Filtered", "Node", "Pod", "Refusal", "Victims", "refuse"]


MAX_SCORE = 10
"""Highest score of an extender; kube-scheduler multiplies it by the weight and by ten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rejection and its reason. ``for_good``: evicting pods from the node would not help, so preemption skips it."""

    reason: str = ""
    for_good: bool = False


@lru_cache(maxsize=1024)  # few rejections, repeated for thousands of nodes
def refuse(reason: str = "", *, for_good: bool = False) -> Refusal:
    """Reject a node. Give a reason: users see it in the pod's event."""
    return Refusal(reason, for_good)


@dataclass(slots=True)
class Filtered:
    """A filter's answer for all nodes: which to keep, in any order, and why not the others.

    ``otherwise`` is the reason for every node that is neither kept nor rejected with a reason.
    """

    keep: Iterable[Any] = ()  # names or nodes
    refused: Mapping[str, str] = field(default_factory=dict)  # name -> reason
    refused_for_good: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = ""


@dataclass(slots=True)
class Victims:
    """The pods that preemption would evict from a node: pods, or just their uids if nodes are sent by name."""

    pods: Sequence[Pod]
    uids: Sequence[str]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """A pod that the extender is to bind to a node."""

    name: str
    namespace: str
    uid: str
    node: str


class Extender:
    """Base for an extender with state. Define any of the four methods; attributes go into the configuration.

    ``filter(pod, node)`` returns None or True to keep, False, a reason, or :func:`refuse` to refuse; ``filter(pod,
    nodes)`` returns the nodes or names to keep, or :class:`Filtered`.

    ``prioritize(pod, node)`` returns 0 to 10; ``prioritize(pod, nodes)`` a mapping from name to score, or a list with a
    score for each node.

    ``preempt(pod, victims)`` gets :class:`Victims` by node name and returns the remaining ones: fewer nodes, or fewer
    or other victims (a mapping from node name to Victims or to uids).

    ``bind(binding)`` binds the pod itself; users see the message of an exception.
    """

    name: ClassVar[str] = ""
    weight: ClassVar[int] = 1
    ignorable: ClassVar[bool] = False
    http_timeout: ClassVar[str] = ""  # such as "2s"; kube-scheduler's default is 5s
    managed_resources: ClassVar[Sequence[str]] = ()  # only pods that request one of these are sent
    ignored_by_scheduler: ClassVar[bool] = False  # the scheduler itself then does not check these


# --------------------------------------------------------------------------------------------------------------------
# The calling convention of an author's function, taken from its parameters and their types.


@dataclass(frozen=True, slots=True)
class HandlerShape:
    """Calling convention of a filter or prioritize function."""

    function: Callable[..., Any]
    pod_type: Any
    node_type: Any
    is_per_node: bool

    @property
    def wants_names(self) -> bool:
        return self.node_type is str


def shape_of(function: Callable[..., Any], where: str) -> HandlerShape:
    """Read the signature; raise PluginError, in one line, if it is not supported."""
    parameters = list(inspect.signature(function).parameters.values())
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    shown = ", ".join(parameter.name for parameter in parameters)
    second = parameters[1].name if len(parameters) > 1 else ""
    if len(required) > 2 or second not in ("node", "nodes"):
        raise PluginError(f"{where}({shown}): its parameters should be (pod, node) or (pod, nodes)")
    hints = _hints(function, where)
    is_per_node = second == "node"
    node_type = hints.get(second, Node)
    if not is_per_node:
        node_type = _element(node_type)
    pod_type = pod_type_of(function, parameters[0].name, where)
    return HandlerShape(function, pod_type, _readable("a node", _object_type(node_type, Node), where), is_per_node)


def pod_type_of(function: Callable[..., Any], parameter: str, where: str) -> Any:
    """Return the type that the pod is decoded into."""
    return _readable("a pod", _object_type(_hints(function, where).get(parameter), Pod), where)


def _readable(what: str, kind: Any, where: str) -> Any:
    """Return the type if requests can be decoded into it."""
    try:
        prepare(kind)
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise PluginError(f"{where}: {what} cannot be read as {kind!r}: {text}") from None
    return kind


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception as error:
        raise PluginError(f"{where}: its type hints cannot be read: {error}") from None


def _element(hint: Any) -> Any:
    """Return X of list[X], Sequence[X] or Iterable[X]."""
    if hint is Node:
        return Node
    arguments = get_args(hint)
    return arguments[0] if arguments else Node


def _object_type(hint: Any, default: Any) -> Any:
    if hint in (None, Any, inspect.Parameter.empty):
        return default
    origin = get_origin(hint) or hint
    if origin in (dict, Mapping, typing.Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return dict[str, Any]
    return hint


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function, or a coroutine function wrapped to run to its end; handlers run in their own threads."""
    if not inspect.iscoroutinefunction(function):
        return function

    def run(*arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    return run


# --------------------------------------------------------------------------------------------------------------------
# A verb's handler: bytes in, bytes out, and facts for the log.


class HandlerError(Exception):
    """A handler broke its contract; the text goes into the answer."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Facts about a call for the access log."""

    pod: str = ""
    nodes: int = 0
    kept: int = -1


Answerer = Callable[[Body], tuple[bytes, CallFacts]]
"""Turns a request of a verb into its answer."""
