"""How an author's function wants to be called: its parameters and their types say it."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from mooring.api.core import Node, Pod
from mooring.errors import PluginError
from mooring.extender.requests import prepare


@dataclass(frozen=True, slots=True)
class Shape:
    """How a filter or prioritize function wants to be called."""

    function: Callable[..., Any]
    pod_type: Any
    node_type: Any
    is_per_node: bool

    @property
    def wants_names(self) -> bool:
        return self.node_type is str


def shape_of(function: Callable[..., Any], where: str) -> Shape:
    """Read the signature; raise PluginError, in one line, if it is not one of those that can be called."""
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
    return Shape(function, pod_type, _readable("a node", _object_type(node_type, Node), where), is_per_node)


def pod_type_of(function: Callable[..., Any], parameter: str, where: str) -> Any:
    """The type that the pod is decoded into."""
    return _readable("a pod", _object_type(_hints(function, where).get(parameter), Pod), where)


def _readable(what: str, kind: Any, where: str) -> Any:
    """The type, if requests can be decoded into it."""
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
    """The X of list[X], Sequence[X] or Iterable[X]."""
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
    """A function, or a coroutine function run to its end; handlers run in threads of their own."""
    if not inspect.iscoroutinefunction(function):
        return function

    def run(*arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    return run
