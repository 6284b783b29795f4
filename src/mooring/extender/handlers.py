"""From functions to verbs: look at their signatures once, then turn requests into answers, bytes to bytes."""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from mooring.api.core import Node, Pod
from mooring.config.duration import parse_duration
from mooring.errors import ParseError, PluginError
from mooring.extender.requests import (
    BadRequest,
    BindingArgs,
    Body,
    Entry,
    ExtenderArgs,
    NodeReader,
    PreemptionArgs,
    WrongForm,
    prepare,
    read_object,
    read_pod,
    read_request,
)
from mooring.extender.sdk import Binding, Extender, Filtered, Refusal, Victims

VERBS = ("filter", "prioritize", "preempt", "bind")


class HandlerError(Exception):
    """A handler did what no handler may; the text goes into the answer."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an access log says about a call."""

    pod: str = ""
    nodes: int = 0
    kept: int = -1


Answerer = Callable[[Body], tuple[bytes, Facts]]
"""Makes a verb's answer of a request."""


@dataclass(slots=True)
class Settings:
    """What the scheduler's configuration should say about the extender."""

    name: str = "extender"
    weight: int = 1
    ignorable: bool = False
    http_timeout: str = ""
    managed_resources: Sequence[str] = ()
    ignored_by_scheduler: bool = False
    node_cache_capable: bool = False


@dataclass(slots=True)
class Served:
    """An extender ready to be served: an answerer per verb."""

    settings: Settings
    verbs: dict[str, Answerer] = field(default_factory=dict)


# ---- signatures --------------------------------------------------------------------------------------------------


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
    """Read the signature, or say in one line what would be right."""
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
    pod_type = _readable("a pod", _object_type(hints.get(parameters[0].name), Pod), where)
    return Shape(function, pod_type, _readable("a node", _object_type(node_type, Node), where), is_per_node)


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


# ---- verbs -------------------------------------------------------------------------------------------------------


class Nodes:
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
            raise BadRequest("neither Nodes nor NodeNames is there; one of them would be right")
        raws = [bytes(raw) for raw in args.Nodes.items or ()]
        self._take([reader.decode(raw, f"Nodes.items[{i}]") for i, raw in enumerate(raws)], node_type)

    def _take(self, entries: list[Entry], node_type: Any) -> None:
        self.are_names = False
        raws, names, views = zip(*entries, strict=True) if entries else ((), (), ())
        self.names = list(names)
        self.raw = dict(zip(names, raws, strict=True))
        self.views = self.names if node_type is str else list(views)


class NameOnly(msgspec.Struct):
    """A node of which nothing but the name is wanted."""


def filter_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, Facts]:
        nodes = Nodes(body, reader, shape.node_type)
        pod = read_pod(nodes.pod, shape.pod_type)
        if shape.is_per_node:
            found = _each(run, pod, nodes)
        else:
            found = _all(run(pod, list(nodes.views)), nodes)
        data = filter_answer(found, nodes.raw, by_name=nodes.are_names)
        return data, Facts(pod_key(nodes.pod), len(nodes.names), len(list(found.keep)))

    return answer


def _each(run: Callable[..., Any], pod: Any, nodes: Nodes) -> Filtered:
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
            raise HandlerError(
                f"filter returned {verdict!r} for {name}; True, False, a reason or refuse(…) would be right"
            )
    return Filtered(keep, refused, for_good)


def _all(answer: Any, nodes: Nodes) -> Filtered:
    found = answer if isinstance(answer, Filtered) else None
    if found is None:
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            raise HandlerError(f"filter returned {answer!r}; the nodes to keep, or Filtered(…), would be right")
        found = Filtered(answer)
    keep = found.keep if isinstance(found.keep, list) else list(found.keep)
    if found.otherwise:
        return _with_reason_for_others(keep, found, nodes)
    if not _are_offered(keep, nodes.names):
        keep = _names_of(keep, nodes)
    return Filtered(keep, found.refused, found.refused_for_good)


def _with_reason_for_others(keep: list[Any], found: Filtered, nodes: Nodes) -> Filtered:
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


def _names_of(keep: list[Any], nodes: Nodes) -> list[str]:
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


def prioritize_verb(function: Callable[..., Any], where: str) -> Answerer:
    shape = shape_of(function, where)
    run = called(shape.function)
    reader = NodeReader(NameOnly if shape.wants_names else shape.node_type)

    def answer(body: Body) -> tuple[bytes, Facts]:
        nodes = Nodes(body, reader, shape.node_type)
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
        f"prioritize returned {_shortened(answer)}; a mapping from node name to score, or a list with a score for each "
        "node, would be right"
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
    raise HandlerError(f"prioritize gives {name!r} {score!r}; a whole number from 0 to 10 would be right")


def preempt_verb(function: Callable[..., Any], where: str) -> Answerer:
    names = list(inspect.signature(function).parameters)
    if len(names) != 2:
        raise PluginError(f"{where}({', '.join(names)}): its parameters should be (pod, victims)")
    pod_type = _readable("a pod", _object_type(_hints(function, where).get(names[0]), Pod), where)
    prepare(Pod)  # for the victims
    run = called(function)

    def answer(body: Body) -> tuple[bytes, Facts]:
        args: PreemptionArgs = read_request(PreemptionArgs, body)
        pod = read_pod(args.Pod, pod_type)
        victims = _victims(args)
        kept = run(pod, victims)
        if not isinstance(kept, Mapping):
            raise HandlerError(f"preempt returned {kept!r}; a mapping from node name to victims would be right")
        meta = {str(node): _meta_victims(str(node), found, victims) for node, found in kept.items()}
        return msgspec.json.encode({"NodeNameToMetaVictims": meta}), Facts(pod_key(args.Pod), len(victims), len(meta))

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
        raise HandlerError(f"preempt gives {node!r} {found!r}; Victims or uids would be right")
    else:
        uids = [pod.metadata.uid if isinstance(pod, Pod) else pod for pod in found]
    return {"Pods": [{"UID": str(uid)} for uid in uids], "NumPDBViolations": violations}


def bind_verb(function: Callable[..., Any], where: str) -> Answerer:
    names = list(inspect.signature(function).parameters)
    if len(names) != 1:
        raise PluginError(f"{where}({', '.join(names)}): its parameter should be (binding)")
    run = called(function)

    def answer(body: Body) -> tuple[bytes, Facts]:
        args: BindingArgs = read_request(BindingArgs, body)
        run(Binding(args.PodName, args.PodNamespace, args.PodUID, args.Node))
        return b'{"Error":""}', Facts(f"{args.PodNamespace}/{args.PodName}", 1, 1)

    return answer


class _KeyMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Keyed(msgspec.Struct):
    metadata: _KeyMeta = msgspec.field(default_factory=_KeyMeta)


_keyed = msgspec.json.Decoder(_Keyed)


def pod_key(raw: msgspec.Raw) -> str:
    """namespace/name, for logs."""
    try:
        meta = _keyed.decode(raw).metadata
    except msgspec.MsgspecError:
        return ""
    return f"{meta.namespace}/{meta.name}"


_MAKERS = {"filter": filter_verb, "prioritize": prioritize_verb, "preempt": preempt_verb, "bind": bind_verb}


def serve_object(source: Any, where: str) -> Served:
    """Make verbs of a module with functions, of an Extender class, or of one of its instances."""
    if isinstance(source, type):
        try:
            source = source()
        except TypeError as error:
            raise PluginError(f"{where}: {source.__qualname__} is made without arguments, but: {error}") from None
    functions = {verb: function for verb in VERBS if callable(function := getattr(source, verb, None))}
    if not functions:
        raise PluginError(f"{where}: defines none of {', '.join(VERBS)}; filter(pod, node) would be a beginning")
    settings = _settings(source, where)
    served = Served(settings)
    for verb, function in functions.items():
        served.verbs[verb] = _MAKERS[verb](function, f"{where}: {verb}")
    settings.node_cache_capable = _all_by_name(functions, where)
    return served


def _all_by_name(functions: Mapping[str, Callable[..., Any]], where: str) -> bool:
    lookers = [shape_of(functions[verb], where) for verb in ("filter", "prioritize") if verb in functions]
    return bool(lookers) and all(shape.wants_names for shape in lookers)


def _settings(source: Any, where: str) -> Settings:
    is_module = isinstance(source, types.ModuleType)
    default = source.__name__.rpartition(".")[2] if is_module else type(source).__name__
    name = getattr(source, "name", "")
    settings = Settings(name if isinstance(name, str) and name else default)
    for field_, kind, right in (
        ("weight", int, "a number above 0"),
        ("ignorable", bool, "True or False"),
        ("http_timeout", str, 'a duration such as "2s"'),
        ("ignored_by_scheduler", bool, "True or False"),
    ):
        value = getattr(source, field_, getattr(Extender, field_))
        fits = isinstance(value, kind) and not (kind is int and (isinstance(value, bool) or int(value) < 1))
        if not fits:
            raise PluginError(f"{where}: {field_} is {value!r}; {right} would be right")
        setattr(settings, field_, value)
    _check_timeout(settings.http_timeout, where)
    resources = getattr(source, "managed_resources", ())
    if isinstance(resources, str) or not all(isinstance(resource, str) for resource in resources):
        raise PluginError(f"{where}: managed_resources is {resources!r}; a list of resource names would be right")
    settings.managed_resources = tuple(resources)
    return settings


def _check_timeout(text: str, where: str) -> None:
    try:
        if not text or parse_duration(text) > 0:
            return
    except ParseError:
        pass
    raise PluginError(f'{where}: http_timeout is {text!r}; a duration such as "2s" would be right')
