"""prioritize: the scores that an author's function gives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from typing import Any

import msgspec

from mooring.extender.calls import Answerer, Facts, HandlerError
from mooring.extender.offered import NameOnly, OfferedNodes, pod_key
from mooring.extender.requests import Body, NodeReader, read_pod
from mooring.extender.signatures import called, shape_of


def prioritize_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, Facts]:
        nodes = OfferedNodes(body, reader, shape.node_type)
        pod = read_pod(nodes.pod, shape.pod_type)
        if shape.is_per_node:
            names: Collection[str] = nodes.names
            scores: Collection[Any] = list(map(run, repeat(pod), nodes.views))
        else:
            names, scores = _scores(run(pod, nodes.views), nodes.names)
        return encode_scores(names, scores), Facts(pod_key(nodes.pod), len(nodes.names), len(scores))

    return answer


def _scores(answer: Any, offered: Sequence[str]) -> tuple[Collection[str], Collection[Any]]:
    """Names and their scores, from a mapping or a list as long as the nodes."""
    try:
        if not isinstance(answer, list) or (answer and isinstance(answer[0], tuple)):
            answer = answer if isinstance(answer, dict) else dict(answer)
            return answer.keys(), answer.values()
        if len(answer) == len(offered):
            return offered, answer
    except (TypeError, ValueError):
        pass
    raise HandlerError(
        f"prioritize returned {_shortened(answer)}; expected a mapping from node name to score, or a list with a score "
        "for each node"
    )


def _shortened(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:200]


class _HostPriority(msgspec.Struct, gc=False):
    Host: str
    Score: int


def encode_scores(names: Collection[str], scores: Collection[Any]) -> bytes:
    """HostPriorityList."""
    if not set(map(type, scores)) <= {int}:
        scores = [_whole(name, score) for name, score in zip(names, scores, strict=True)]
    return msgspec.json.encode(list(map(_HostPriority, names, scores)))


def _whole(name: str, score: Any) -> int:
    try:
        if not isinstance(score, bool | str) and int(score) == score:
            return int(score)
    except (TypeError, ValueError, OverflowError):
        pass
    raise HandlerError(f"prioritize gives {name!r} {score!r}; expected a whole number from 0 to 10")
