"""Requests to an author's functions without HTTP: bytes in, plain data out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.sdk import Answerer, CallFacts

NODES = [make_node(i) for i in range(4)]
NAMES = [node["metadata"]["name"] for node in NODES]


def ask(answer: Answerer, *, by_name: bool = False) -> tuple[Any, CallFacts]:
    """Offer four nodes for a pod."""
    data, facts = answer(args_body(make_pod("web"), NODES, by_name=by_name))
    return json.loads(data), facts


def returning(value: Any, *, second: str = "nodes", hint: Any = None) -> Callable[..., Any]:
    """A function that returns what is given, or what the given function makes of its second argument."""

    def give(seen: Any) -> Any:
        return value(seen) if callable(value) else value

    if second == "node":

        def function(pod: Any, node: Any) -> Any:
            return give(node)
    else:

        def function(pod: Any, nodes: Any) -> Any:
            return give(nodes)

    function.__annotations__ = {second: hint} if hint is not None else {}
    return function
