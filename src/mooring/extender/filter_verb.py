"""filter: which nodes an author's function keeps, and why not the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec

from mooring.extender.calls import Answerer, Facts, HandlerError
from mooring.extender.offered import NameOnly, OfferedNodes, pod_key
from mooring.extender.requests import Body, NodeReader, read_pod
from mooring.extender.sdk import Filtered, Refusal
from mooring.extender.signatures import called, shape_of


def filter_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, Facts]:
        nodes = OfferedNodes(body, reader, shape.node_type)
        pod = read_pod(nodes.pod, shape.pod_type)
        if shape.is_per_node:
            found = _each(run, pod, nodes)
        else:
            found = _all(run(pod, list(nodes.views)), nodes)
        data = filter_answer(found, nodes.raw, by_name=nodes.are_names)
        return data, Facts(pod_key(nodes.pod), len(nodes.names), len(list(found.keep)))

    return answer


def _each(run: Callable[..., Any], pod: Any, nodes: OfferedNodes) -> Filtered:
    verdicts = list(map(run, repeat(pod), nodes.views))
    keep: list[str] = []
    refused: dict[str, str] = {}
    for_good: dict[str, str] = {}
    for name, verdict in zip(nodes.names, verdicts, strict=True):
        if verdict is None or verdict is True:
            keep.append(name)
        elif isinstance(verdict, str):
            refused[name] = verdict
        elif isinstance(verdict, Refusal):
            if verdict.for_good:
                for_good[name] = verdict.reason
            elif verdict.reason:
                refused[name] = verdict.reason
        elif verdict is not False:
            raise HandlerError(f"filter returned {verdict!r} for {name}; expected True, False, a reason or refuse(…)")
    return Filtered(keep, refused, for_good)


def _all(answer: Any, nodes: OfferedNodes) -> Filtered:
    found = answer if isinstance(answer, Filtered) else None
    if found is None:
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            raise HandlerError(f"filter returned {answer!r}; expected the nodes to keep, or Filtered(…)")
        found = Filtered(answer)
    keep = found.keep if isinstance(found.keep, list) else list(found.keep)
    if found.otherwise:
        return _with_reason_for_others(keep, found, nodes)
    if not _are_offered(keep, nodes.names):
        keep = _names_of(keep, nodes)
    return Filtered(keep, found.refused, found.refused_for_good)


def _with_reason_for_others(keep: list[Any], found: Filtered, nodes: OfferedNodes) -> Filtered:
    refused = dict.fromkeys(nodes.names, found.otherwise)
    try:
        deque(map(refused.pop, keep), maxlen=0)
    except (KeyError, TypeError):  # not names, names of others, or some twice
        keep = _names_of(keep, nodes)
        kept = set(keep)
        refused = {name: found.otherwise for name in nodes.names if name not in kept}
    for name in found.refused_for_good:
        refused.pop(name, None)
    refused.update(found.refused)
    return Filtered(keep, refused, found.refused_for_good)


def _are_offered(keep: list[Any], names: Sequence[str]) -> bool:
    """Whether these are names, and all of nodes that were offered."""
    try:
        return not set(keep).difference(names)
    except TypeError:  # nodes, which have no hash
        return False


def _names_of(keep: list[Any], nodes: OfferedNodes) -> list[str]:
    known = set(nodes.names)
    by_identity = {id(view): name for name, view in zip(nodes.names, nodes.views, strict=True)}
    names = [item if isinstance(item, str) else by_identity.get(id(item)) or _name(item) for item in keep]
    for name in names:
        if name not in known:
            raise HandlerError(f"filter keeps {name!r}, a node that was not offered")
    return names


def _name(item: Any) -> str:
    if isinstance(item, Mapping):
        return str(item.get("metadata", {}).get("name"))
    return str(getattr(item, "name", None) or getattr(getattr(item, "metadata", None), "name", item))


def _reasons(texts: Mapping[str, str]) -> bytes:
    if not set(map(type, texts.values())) <= {str}:
        raise TypeError(next(repr(text) for text in texts.values() if not isinstance(text, str)))
    return msgspec.json.encode(texts if isinstance(texts, dict) else dict(texts))


_REST = b',"FailedNodes":%b,"FailedAndUnresolvableNodes":%b,"Error":""}'


def filter_answer(found: Filtered, raw: Mapping[str, bytes], *, by_name: bool) -> bytes:
    """ExtenderFilterResult, in the form in which nodes were offered; whole ones go back as they came."""
    try:
        rest = _REST % (_reasons(found.refused), _reasons(found.refused_for_good))
        if by_name:
            return b'{"Nodes":null,"NodeNames":%b%b' % (msgspec.json.encode(found.keep), rest)
    except (TypeError, msgspec.MsgspecError) as error:
        raise HandlerError(f"filter's reasons are not texts by node name: {error}") from None
    whole = [raw[name] for name in found.keep] or [b""]
    whole[0] = b'{"Nodes":{"metadata":{},"items":[' + whole[0]
    whole[-1] += b']},"NodeNames":null' + rest
    return b",".join(whole)  # megabytes: joined once
