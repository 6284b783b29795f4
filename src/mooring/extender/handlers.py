"""From functions to verbs: their signatures are read once; then each request becomes an answer, bytes to bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.errors import PluginError
from mooring.extender.calls import Answerer, Facts
from mooring.extender.filter_verb import filter_verb
from mooring.extender.preempt_verb import preempt_verb
from mooring.extender.prioritize_verb import prioritize_verb
from mooring.extender.requests import BindingArgs, Body, read_request
from mooring.extender.sdk import Binding
from mooring.extender.settings import ExtenderSettings, settings_of
from mooring.extender.signatures import called, shape_of

VERBS = ("filter", "prioritize", "preempt", "bind")


@dataclass(slots=True)
class Served:
    """An extender ready to be served: an answerer per verb."""

    settings: ExtenderSettings
    verbs: dict[str, Answerer] = field(default_factory=dict)


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
    settings = settings_of(source, where)
    served = Served(settings)
    for verb, function in functions.items():
        served.verbs[verb] = _MAKERS[verb](function, f"{where}: {verb}")
    settings.node_cache_capable = _all_by_name(functions, where)
    return served


def _all_by_name(functions: Mapping[str, Callable[..., Any]], where: str) -> bool:
    lookers = [shape_of(functions[verb], where) for verb in ("filter", "prioritize") if verb in functions]
    return bool(lookers) and all(shape.wants_names for shape in lookers)
