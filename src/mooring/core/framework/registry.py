"""Plugins by name: classes are checked here, and created for profiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cache
from typing import Any, NoReturn

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import PluginError
from mooring.api.text import hint, nearest
from mooring.core.framework.cluster_event import EventRegistration
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extension_points import EXTENSION_POINTS, METHODS, Method, has, points_of
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change, PreFilterResult, PreFlight, Remedy, Scores
from mooring.core.framework.per_node import PerNodePlugin, in_columns
from mooring.core.framework.pod_groups import (
    PlacedGroup,
    Placement,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.core.framework.status import NodeStatuses, PostFilterResult, Status, Verdict
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# ---- a plugin's declarations besides its methods: one ``traits`` per class, checked at registration
# --------------------


class Reads(IntEnum):
    """What a node's verdict or score depends on, from least to most. Less is faster: see each value.

    A wrong declaration produces stale verdicts; when in doubt, declare nothing (CLUSTER). Up to ROW a plugin is called
    for all nodes, including those that other plugins reject: it must not fail on any of them.
    """

    # Up to ROW a verdict's numbers must mean the same for all pods of one template.
    NODE = 0  # the pod's spec and the node object: computed once per template, again only for changed nodes
    RESOURCES = 1  # also the node's used resources and number of pods: nodes with equal figures share one answer
    ROW = 2  # also the pods on that node: again only for nodes with changed pods
    LOCAL = 3  # also other objects (claims, volumes), but no other node's pods: recomputed for every pod
    CLUSTER = 4  # anything, including other nodes' pods: recomputed; dry runs try one node at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties that the engine may rely on. The defaults are always right; every other value saves work.

    A class has it as ``traits = Traits(…)``. Where arguments decide, ``__init__`` sets ``self.traits``; it is read
    once, when the profile is built.
    """

    filter_reads: Reads = Reads.CLUSTER
    score_reads: Reads = Reads.CLUSTER
    uses_volumes: bool = True
    """False: answers do not depend on the pod's volumes and claims. Pods that differ only there share answers."""
    per_node: bool = False
    """True: the filter is costly per node. It is called only for nodes that earlier filters pass; nothing is cached."""
    even_normalize: bool = False
    """True: ``normalize`` turns equal scores into equal scores, and reads nothing but the scores."""
    in_range: bool = False
    """True: the final scores are from 0 to 100 by construction and need no check."""
    signs: bool = True
    """False: ``sign`` returns None for every pod and is not called."""
    annotations: tuple[str, ...] = ()
    """Names of annotations that it reads. A record keeps only their values."""

    def __new__(cls, *values: Any, **named: Any) -> Traits:
        known = [each.name for each in fields(cls)]
        for name in named:
            if name not in known:
                raise PluginError(f"Traits has no {name}; {hint(name, known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), type(each.default)
            if kind is tuple:
                if type(value) is not tuple or not all(isinstance(name, str) for name in value):
                    raise PluginError(f"Traits({each.name}={value!r}): expected a tuple of names")
            elif type(value) is not kind:
                right = "True or False" if kind is bool else ", ".join(f"Reads.{reads.name}" for reads in Reads)
                raise PluginError(f"Traits({each.name}={value!r}): expected one of {right}")


DEFAULT_TRAITS = Traits()

# Declarations before ``traits`` existed: the name of the old attribute -> the line to write.
FORMER_DECLARATIONS = {
    "filter_reads": "traits = Traits(filter_reads=Reads.…)",
    "score_reads": "traits = Traits(score_reads=Reads.…)",
    "looks_past_volumes": "traits = Traits(uses_volumes=False)",
    "per_node": "traits = Traits(per_node=True)",
    "normalizes_evenly": "traits = Traits(even_normalize=True)",
    "scores_in_range": "traits = Traits(in_range=True)",
    "never_signs": "traits = Traits(signs=False)",
    "lacks_pre_filter": 'handle.is_enabled_at("preFilter", self.name)',
    "lacks_pre_score": 'handle.is_enabled_at("preScore", self.name)',
    "flush": "after_failure(self, state, pod)",
    "normalize_scores": "normalize(self, state, pod, scores)",
}


@dataclass(slots=True, eq=False, repr=False)
class ResolvedPlugin:
    """One plugin of one profile, with the methods of the table in ``extension_points`` as fields.

    The methods of its extension points are set. An optional method that the class lacks is None. A method of a point
    that the class does not implement raises; a profile lists plugins by point, so it is never called.
    """

    plugin: Any  # instance of the author's class
    name: str
    traits: Traits
    points: frozenset[str]

    pre_enqueue: Callable[[Pod], Status]
    sort_key: Callable[[int, float], Any]
    pre_filter: Callable[[CycleState, PodInfo, NodeRows], Status | PreFilterResult]
    filter: Callable[[CycleState, PodInfo, NodeRows], Verdict | None]
    post_filter: Callable[[CycleState, PodInfo, NodeRows, NodeStatuses], PostFilterResult]
    pre_score: Callable[[CycleState, PodInfo, NodeRows], Status]
    score: Callable[[CycleState, PodInfo, NodeRows], Scores | None]
    reserve: Callable[[CycleState, PodInfo, str], Status]
    unreserve: Callable[[CycleState, PodInfo, str], None]
    permit: Callable[[CycleState, PodInfo, str], tuple[Status, float]]
    pre_bind: Callable[[CycleState, PodInfo, str], Coroutine[Any, Any, Status]]
    bind: Callable[[CycleState, PodInfo, str], Coroutine[Any, Any, Status]]
    post_bind: Callable[[CycleState, PodInfo, str], None]
    generate_placements: Callable[[PodGroupInfo, NodeRows], Sequence[Placement]]
    placement_feasible: Callable[[PodGroupInfo, Progress], Status]
    score_placement: Callable[[PodGroupInfo, PlacedGroup], int]
    pod_group_post_filter: Callable[[PodGroupInfo, Sequence[Tried]], PodGroupPostFilterResult]

    add_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], Status] | None
    remove_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], Status] | None
    concerns: Callable[[PodInfo], bool] | None
    normalize: Callable[[CycleState, PodInfo, Scores, NodeRows], Scores] | None
    pre_bind_pre_flight: Callable[[CycleState, PodInfo, str], PreFlight] | None
    events_to_register: Callable[[], Sequence[EventRegistration]] | None
    cache_token: Callable[[], Hashable] | None
    sign: Callable[[PodInfo], Hashable] | None
    after_failure: Callable[[CycleState, PodInfo], Coroutine[Any, Any, None] | None] | None
    normalize_placements: Callable[[PodGroupInfo, Sequence[int]], Sequence[int]] | None
    facts: Callable[[CycleState, PodInfo, NodeRows], Iterable[str]] | None
    remedies: Callable[[CycleState, PodInfo, NodeRows], Iterable[Change | Remedy]] | None

    def __repr__(self) -> str:
        return f"ResolvedPlugin({self.name} at {', '.join(sorted(self.points))})"

    @property
    def can_sign(self) -> bool:
        """Report whether the plugin can sign some pods."""
        return self.sign is not None and self.traits.signs

    def wrap(self, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Wrap a method, if the plugin has it."""
        if METHODS[method].is_optional and getattr(self, method) is None:
            return
        setattr(self, method, around(getattr(self, method)))


def resolve(plugin: Any, points: frozenset[str] | None = None) -> ResolvedPlugin:
    """Look up everything that a plugin declares and defines. Registration checked its class."""
    name, traits = plugin.name, traits_of(plugin)
    is_per_node = isinstance(plugin, PerNodePlugin)
    if is_per_node:
        traits = replace(traits, per_node=True)
    calls: dict[str, Any] = {}
    for method in METHODS.values():
        if method.is_class_method:
            continue
        found = getattr(plugin, method.name, None)
        if found is None:
            calls[method.name] = None if method.is_optional else _missing(name, method.name)
        else:
            calls[method.name] = in_columns(method.name, found) if is_per_node else found
    return ResolvedPlugin(plugin, name, traits, points_of(type(plugin)) if points is None else points, **calls)


def traits_of(plugin: object) -> Traits:
    """Return the traits of a plugin or its class; the defaults if there are none."""
    traits = getattr(plugin, "traits", DEFAULT_TRAITS)
    if not isinstance(traits, Traits):
        raise PluginError(f"traits is {traits!r}; expected Traits(…)")
    return traits


@cache
def _missing(plugin: str, method: str) -> Callable[..., NoReturn]:
    def missing(*arguments: Any) -> NoReturn:
        raise PluginError(f"plugin {plugin} has no {method}")

    return missing


# ---- mistakes in a plugin class, found at registration and reported in one line
# ---------------------------------------

ATTRIBUTES = ("name", "traits", "args")
"""Attributes that a class declares besides its methods."""
CLOSE = 0.8
"""Similarity from which a name counts as a misspelling of another."""

# A trait describes a method: without the method it is a mistake.
_ABOUT = {
    "filter_reads": "filter",
    "score_reads": "score",
    "even_normalize": "normalize",
    "in_range": "score",
    "signs": "sign",
}


def check(plugin: type) -> str:
    """Compare a class with the contract; return its name, or raise PluginError with the first mistake."""
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise PluginError(f'has no name; give the class a line such as name = "{plugin.__name__}"')
    problem = next(_problems(plugin), None)
    if problem is not None:
        raise PluginError(problem)
    return name


def _problems(plugin: type) -> Iterator[str]:
    is_per_node = issubclass(plugin, PerNodePlugin)
    yield from _odd_names(plugin)
    yield from _missing_methods(plugin, is_per_node)
    for method in METHODS.values():
        function = getattr(plugin, method.name, None)
        if function is not None:
            yield from _wrong_method(method, function, is_per_node)
    if not points_of(plugin):
        yield "implements no extension point; define filter, score, permit or another one"
    yield from _wrong_traits(plugin)
    if not _can_be_called(plugin, 2):
        yield "is made with (args, handle); expected def __init__(self, args, handle)"
    args = getattr(plugin, "args", None)
    if args is not None and not (isinstance(args, type) and issubclass(args, msgspec.Struct)):
        yield f"args is {args!r}; expected the type of its arguments, a msgspec.Struct"


def looks_like_plugin(value: type) -> bool:
    """Report whether a class has a method of the contract, or a misspelt one."""
    return bool(points_of(value)) or any(
        callable(getattr(value, name)) and nearest(name, METHODS, cutoff=CLOSE) for name in _public_names(value)
    )


def _missing_methods(plugin: type, is_per_node: bool) -> Iterator[str]:
    """Yield methods without which the others of their point are never called, and abstract ones."""
    missing = [METHODS[name] for name in sorted(getattr(plugin, "__abstractmethods__", ()))]
    for point in EXTENSION_POINTS:
        lacking = [method for method in point.methods if not method.is_optional and not has(plugin, method.name)]
        if lacking and any(has(plugin, method.name) for method in point.methods):
            missing += lacking
    if missing:
        yield f"does not define {', '.join(method.signature(per_node=is_per_node) for method in missing)}"


def _odd_names(plugin: type) -> Iterator[str]:
    """Yield attributes that resemble a declaration that the class lacks: they would never be read."""
    known = {*ATTRIBUTES, *METHODS}
    # A class that has ``filter`` may also have ``filters``. A base without a name only has defaults.
    open_ = known.difference(*(vars(base) for base in plugin.__mro__ if getattr(base, "name", "")))
    for name in _public_names(plugin):
        if name in known:
            continue
        if name in FORMER_DECLARATIONS:
            yield f"declares {name}, which is no longer read; write {FORMER_DECLARATIONS[name]}"
        near = nearest(name, sorted(open_ | FORMER_DECLARATIONS.keys()), cutoff=CLOSE)
        if near:
            meant = FORMER_DECLARATIONS.get(near, near)
            yield f"has {name}, which is never read; did you mean {meant}? If it is its own, call it _{name}"


def _public_names(plugin: type) -> list[str]:
    """Return the names that the class and its bases define, in order."""
    return list(dict.fromkeys(name for base in plugin.__mro__ for name in vars(base) if not name.startswith("_")))


def _wrong_method(method: Method, function: Any, is_per_node: bool) -> Iterator[str]:
    right = method.signature(per_node=is_per_node)
    if not callable(function):
        yield f"{method.name} is {function!r}; expected {right}"
        return
    if method.is_class_method and not inspect.ismethod(function):
        yield f"{method.name} is not a class method; expected @classmethod {right}"
        return
    if method.is_async and not inspect.iscoroutinefunction(function):
        yield f"{method.name} is not async; expected {right}"
    if not method.is_async and inspect.iscoroutinefunction(function):
        yield f"{method.name} is async; expected {right}"
    arguments = method.arguments if not is_per_node or method.per_node is None else method.per_node
    count = len(arguments) if inspect.ismethod(function) else 1 + len(arguments)  # a class method is bound already
    if not _can_be_called(function, count):
        yield f"{method.name}{_written(function)} cannot be called; expected {right}"


def _wrong_traits(plugin: type) -> Iterator[str]:
    try:
        traits = traits_of(plugin)
    except PluginError as error:
        yield str(error)
        return
    for trait, method in _ABOUT.items():
        if getattr(traits, trait) != getattr(DEFAULT_TRAITS, trait) and getattr(plugin, method, None) is None:
            yield f"declares {trait} in its traits, but has no {method}"


def _written(function: Callable[..., Any]) -> str:
    """Return its arguments as written, without types."""
    found = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


def _can_be_called(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass  # built in C: nothing to inspect
    return True


class Registry:
    """Plugin classes by the name that configurations use."""

    def __init__(self, plugins: Iterable[type] = ()) -> None:
        self._classes: dict[str, Any] = {}
        self._points: dict[str, frozenset[str]] = {}
        for plugin in plugins:
            self.register(plugin)

    @classmethod
    def of_checked(cls, plugins: Iterable[Any]) -> Registry:
        """A registry of well-formed classes with unique names."""
        registry = cls()
        for plugin in plugins:
            registry._classes[plugin.name] = plugin
            registry._points[plugin.name] = points_of(plugin)
        return registry

    def register(self, plugin: Any, where: str = "") -> str:
        """Add a class under its name, which is returned; raise a one-line error for an invalid one.

        Registering the same class again is allowed. ``where`` names its origin in messages.
        """
        if not isinstance(plugin, type):
            expected = type(plugin).__name__
            raise PluginError(f"plugin {where or repr(plugin)}: is an object; expected its class {expected}")
        at = f"plugin {where}: {plugin.__qualname__}" if where else f"plugin {plugin.__module__}:{plugin.__qualname__}"
        try:
            name = check(plugin)
        except PluginError as error:
            raise PluginError(f"{at}: {error}") from None
        taken_by = self._classes.setdefault(name, plugin)
        if taken_by is not plugin:
            raise PluginError(f"{at}: the name {name!r} is taken by {taken_by.__qualname__}; choose another")
        self._points[name] = points_of(plugin)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def copy(self) -> Registry:
        """Return a registry with the same classes, which are checked already."""
        copied = Registry()
        copied._classes.update(self._classes)
        copied._points.update(self._points)
        return copied

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def get(self, name: str) -> type:
        found: type = self._classes[name]
        return found

    def prepare(self, handle: Handle) -> None:
        """Let classes that share state between profiles put it into the handle."""
        for plugin in self._classes.values():
            if has(plugin, "prepare"):
                plugin.prepare(handle)

    def make(self, name: str, args: Any, handle: Handle) -> ResolvedPlugin:
        """Create the plugin of this name for a profile."""
        return resolve(self._classes[name](args, handle), self._points[name])

    def points(self) -> dict[str, frozenset[str]]:
        """Return, by name, the extension points at which each plugin can be enabled."""
        return dict(self._points)
