"""The verbs of a served extender: turns an author's function into an answerer, bytes in and bytes out.

Signatures are read once; then each request is decoded, the function called, and its result checked and encoded.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import PluginError
from mooring.net.extender.requests import (
    BadExtenderRequest,
    BindingArgs,
    Body,
    Entry,
    ExtenderArgs,
    NodeReader,
    PreemptionArgs,
    WrongForm,
    pod_key,
    prepare,
    read_object,
    read_pod,
    read_request,
)
from mooring.net.extender.sdk import (
    Answerer,
    Binding,
    CallFacts,
    Filtered,
    HandlerError,
    Refusal,
    Victims,
    called,
    pod_type_of,
    shape_of,
)

# --------------------------------------------------------------------------------------------------------------------
# The pod and the nodes of a filter or prioritize request.


class OfferedNodes:
    """The nodes of a request: by name, or whole."""

    def __init__(self, body: Body, reader: NodeReader, node_type: Any) -> None:
        quick = reader.read(body)
        if quick is not None:
            self.pod, entries = quick
            self._take(entries, node_type)
            return
        args: ExtenderArgs = read_request(ExtenderArgs, body)
        self.pod = args.Pod
        if args.NodeNames is not None:
            if node_type is not str:
                raise WrongForm("NodeNames without Nodes: this extender reads whole nodes; set nodeCacheCapable: false")
            self.are_names = True
            self.names = args.NodeNames
            self.raw: dict[str, bytes] = {}
            self.views: Sequence[Any] = self.names
            return
        if args.Nodes is None:
            raise BadExtenderRequest("expected Nodes or NodeNames, found neither")
        raws = [bytes(raw) for raw in args.Nodes.items or ()]
        self._take([reader.decode(raw, f"Nodes.items[{i}]") for i, raw in enumerate(raws)], node_type)

    def _take(self, entries: list[Entry], node_type: Any) -> None:
        self.are_names = False
        raws, names, views = zip(*entries, strict=True) if entries else ((), (), ())
        self.names = list(names)
        self.raw = dict(zip(names, raws, strict=True))
        self.views = self.names if node_type is str else list(views)


class NameOnly(msgspec.Struct):
    """A node of which only the name is used."""


# --------------------------------------------------------------------------------------------------------------------
# filter: which nodes an author's function keeps, and why not the others.


def filter_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, CallFacts]:
        nodes = OfferedNodes(body, reader, shape.node_type)
        pod = read_pod(nodes.pod, shape.pod_type)
        if shape.is_per_node:
            found = _each(run, pod, nodes)
        else:
            found = _all(run(pod, list(nodes.views)), nodes)
        data = filter_answer(found, nodes.raw, by_name=nodes.are_names)
        return data, CallFacts(pod_key(nodes.pod), len(nodes.names), len(list(found.keep)))

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
    except (KeyError, TypeError):  # not names, unknown names, or duplicates
        keep = _names_of(keep, nodes)
        kept = set(keep)
        refused = {name: found.otherwise for name in nodes.names if name not in kept}
    for name in found.refused_for_good:
        refused.pop(name, None)
    refused.update(found.refused)
    return Filtered(keep, refused, found.refused_for_good)


def _are_offered(keep: list[Any], names: Sequence[str]) -> bool:
    """Report whether these are names of offered nodes."""
    try:
        return not set(keep).difference(names)
    except TypeError:  # nodes, which are not hashable
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
    """Encode ExtenderFilterResult in the form of the request; whole nodes are returned unchanged."""
    try:
        rest = _REST % (_reasons(found.refused), _reasons(found.refused_for_good))
        if by_name:
            return b'{"Nodes":null,"NodeNames":%b%b' % (msgspec.json.encode(found.keep), rest)
    except (TypeError, msgspec.MsgspecError) as error:
        raise HandlerError(f"filter's reasons are not strings by node name: {error}") from None
    whole = [raw[name] for name in found.keep] or [b""]
    whole[0] = b'{"Nodes":{"metadata":{},"items":[' + whole[0]
    whole[-1] += b']},"NodeNames":null' + rest
    return b",".join(whole)  # megabytes: joined only once


# --------------------------------------------------------------------------------------------------------------------
# preempt: the victims that an author's function accepts.


def preempt_verb(function: Callable[..., Any], where: str) -> Answerer:
    names = list(inspect.signature(function).parameters)
    if len(names) != 2:
        raise PluginError(f"{where}({', '.join(names)}): its parameters should be (pod, victims)")
    pod_type = pod_type_of(function, names[0], where)
    prepare(Pod)  # for the victims
    run = called(function)

    def answer(body: Body) -> tuple[bytes, CallFacts]:
        args: PreemptionArgs = read_request(PreemptionArgs, body)
        pod = read_pod(args.Pod, pod_type)
        victims = _victims(args)
        kept = run(pod, victims)
        if not isinstance(kept, Mapping):
            raise HandlerError(f"preempt returned {kept!r}; expected a mapping from node name to victims")
        meta = {str(node): _meta_victims(str(node), found, victims) for node, found in kept.items()}
        return msgspec.json.encode({"NodeNameToMetaVictims": meta}), CallFacts(
            pod_key(args.Pod), len(victims), len(meta)
        )

    return answer


def _victims(args: PreemptionArgs) -> dict[str, Victims]:
    if args.NodeNameToVictims is not None:
        found = {}
        for node, victims in args.NodeNameToVictims.items():
            pods = [
                read_object(Pod, raw, f"NodeNameToVictims[{node}].Pods[{i}]")
                for i, raw in enumerate(victims.Pods or ())
            ]
            found[node] = Victims(pods, [pod.metadata.uid for pod in pods], victims.NumPDBViolations)
        return found
    return {
        node: Victims([], [pod.UID for pod in meta.Pods or ()], meta.NumPDBViolations)
        for node, meta in (args.NodeNameToMetaVictims or {}).items()
    }


def _meta_victims(node: str, found: Any, offered: Mapping[str, Victims]) -> dict[str, Any]:
    violations = offered[node].pdb_violations if node in offered else 0
    if isinstance(found, Victims):
        uids: Iterable[Any] = found.uids
        violations = found.pdb_violations
        if found.pods and len(found.pods) != len(found.uids):
            uids = [pod.metadata.uid for pod in found.pods]
    elif isinstance(found, str) or not isinstance(found, Iterable):
        raise HandlerError(f"preempt gives {node!r} {found!r}; expected Victims or uids")
    else:
        uids = [pod.metadata.uid if isinstance(pod, Pod) else pod for pod in found]
    return {"Pods": [{"UID": str(uid)} for uid in uids], "NumPDBViolations": violations}


# --------------------------------------------------------------------------------------------------------------------
# prioritize: the scores of an author's function.


def prioritize_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, CallFacts]:
        nodes = OfferedNodes(body, reader, shape.node_type)
        pod = read_pod(nodes.pod, shape.pod_type)
        if shape.is_per_node:
            names: Collection[str] = nodes.names
            scores: Collection[Any] = list(map(run, repeat(pod), nodes.views))
        else:
            names, scores = _scores(run(pod, nodes.views), nodes.names)
        return encode_scores(names, scores), CallFacts(pod_key(nodes.pod), len(nodes.names), len(scores))

    return answer


def _scores(answer: Any, offered: Sequence[str]) -> tuple[Collection[str], Collection[Any]]:
    """Return names and their scores, from a mapping or a list as long as the nodes."""
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


class _Score(msgspec.Struct, gc=False):
    Host: str
    Score: int


def encode_scores(names: Collection[str], scores: Collection[Any]) -> bytes:
    """Encode HostPriorityList."""
    if not set(map(type, scores)) <= {int}:
        scores = [_whole(name, score) for name, score in zip(names, scores, strict=True)]
    return msgspec.json.encode(list(map(_Score, names, scores)))


def _whole(name: str, score: Any) -> int:
    try:
        if not isinstance(score, bool | str) and int(score) == score:
            return int(score)
    except (TypeError, ValueError, OverflowError):
        pass
    raise HandlerError(f"prioritize gives {name!r} {score!r}; expected a whole number from 0 to 10")


# --------------------------------------------------------------------------------------------------------------------
# bind: the author's function binds the pod itself.


def bind_verb(function: Callable[..., Any], where: str) -> Answerer:
    names = list(inspect.signature(function).parameters)
    if len(names) != 1:
        raise PluginError(f"{where}({', '.join(names)}): its parameter should be (binding)")
    run = called(function)

    def answer(body: Body) -> tuple[bytes, CallFacts]:
        args: BindingArgs = read_request(BindingArgs, body)
        run(Binding(args.PodName, args.PodNamespace, args.PodUID, args.Node))
        return b'{"Error":""}', CallFacts(f"{args.PodNamespace}/{args.PodName}", 1, 1)

    return answer
