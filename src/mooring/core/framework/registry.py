"""Plugins by name: how the configuration's words become objects. What is malformed is found here, not in a cycle."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from mooring.api.errors import PluginError
from mooring.api.text import nearest
from mooring.core.framework.extension_points import EXTENSION_POINTS, METHODS, Method, has, points_of
from mooring.core.framework.handle import Handle
from mooring.core.framework.per_node import PerNodePlugin
from mooring.core.framework.resolved import DEFAULT_TRAITS, FORMER_DECLARATIONS, ResolvedPlugin, resolve, traits_of

# --------------------------------------------------------------------------------------------------------------------
# What is wrong with a plugin class, found when it is registered and said in one line.

ATTRIBUTES = ("name", "traits", "args")
"""What a class declares besides its methods."""
CLOSE = 0.8
"""How much alike two names are before one is taken for a misspelling of the other."""

# A trait says something about a method: without the method it is a mistake.
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
    yield from _wrong_constructor(plugin)
    args = getattr(plugin, "args", None)
    if args is not None and not (isinstance(args, type) and issubclass(args, msgspec.Struct)):
        yield f"args is {args!r}; the type of its arguments, a msgspec.Struct, is expected"


def is_meant_as_plugin(value: type) -> bool:
    """Report whether a class has a method of the contract, or one that its author misspelt."""
    return bool(points_of(value)) or any(
        callable(getattr(value, name)) and nearest(name, METHODS, cutoff=CLOSE) for name in _public_names(value)
    )


def _missing_methods(plugin: type, is_per_node: bool) -> Iterator[str]:
    """Methods without which the others of their point are never called, and abstract ones."""
    missing = [METHODS[name] for name in sorted(getattr(plugin, "__abstractmethods__", ()))]
    for point in EXTENSION_POINTS:
        lacking = [method for method in point.methods if not method.is_optional and not has(plugin, method.name)]
        if lacking and any(has(plugin, method.name) for method in point.methods):
            missing += lacking
    if missing:
        yield f"does not define {', '.join(method.signature(per_node=is_per_node) for method in missing)}"


def _odd_names(plugin: type) -> Iterator[str]:
    """Attributes that look like a declaration that the class does not have: nobody would read them."""
    known = {*ATTRIBUTES, *METHODS}
    # A class that has ``filter`` may have ``filters``, too. A base without a name only has defaults.
    open_ = known.difference(*(vars(base) for base in plugin.__mro__ if getattr(base, "name", "")))
    for name in _public_names(plugin):
        if name in known:
            continue
        if name in FORMER_DECLARATIONS:
            yield f"declares {name}, which is no longer read; write {FORMER_DECLARATIONS[name]}"
        near = nearest(name, sorted(open_ | FORMER_DECLARATIONS.keys()), cutoff=CLOSE)
        if near:
            meant = FORMER_DECLARATIONS.get(near, near)
            yield f"has {name}, which nobody reads; did you mean {meant}? If it is its own, call it _{name}"


def _public_names(plugin: type) -> list[str]:
    """What the class and its bases define, in order."""
    return list(dict.fromkeys(name for base in plugin.__mro__ for name in vars(base) if not name.startswith("_")))


def _wrong_method(method: Method, function: Any, is_per_node: bool) -> Iterator[str]:
    right = method.signature(per_node=is_per_node)
    if not callable(function):
        yield f"{method.name} is {function!r}; {right} is expected"
        return
    if method.is_class_method and not inspect.ismethod(function):
        yield f"{method.name} is not a class method; @classmethod {right} is expected"
        return
    if method.is_async and not inspect.iscoroutinefunction(function):
        yield f"{method.name} is not async; {right} is expected"
    if not method.is_async and inspect.iscoroutinefunction(function):
        yield f"{method.name} is async; {right} is expected"
    arguments = method.arguments if not is_per_node or method.per_node is None else method.per_node
    count = len(arguments) if inspect.ismethod(function) else 1 + len(arguments)  # a class method is bound already
    if not _can_be_called(function, count):
        yield f"{method.name}{_written(function)} cannot be called; {right} is expected"


def _wrong_traits(plugin: type) -> Iterator[str]:
    try:
        traits = traits_of(plugin)
    except PluginError as error:
        yield str(error)
        return
    for trait, method in _ABOUT.items():
        if getattr(traits, trait) != getattr(DEFAULT_TRAITS, trait) and getattr(plugin, method, None) is None:
            yield f"declares {trait} in its traits, but has no {method}"


def _wrong_constructor(plugin: type) -> Iterator[str]:
    if not _can_be_called(plugin, 2):
        yield "is made with (args, handle); def __init__(self, args, handle) is expected"


def _written(function: Callable[..., Any]) -> str:
    """Its arguments as the author wrote them, without their types."""
    found = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


def _can_be_called(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass  # built in C: nothing to look at
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
        """A registry of classes that are known to be well-formed, and to have names of their own."""
        registry = cls()
        for plugin in plugins:
            registry._classes[plugin.name] = plugin
            registry._points[plugin.name] = points_of(plugin)
        return registry

    def register(self, plugin: Any, where: str = "") -> str:
        """Add a class under its name, which is returned, or say in one line what is wrong with it.

        The same class once more is fine. ``where`` is what the message calls the place that the class comes from.
        """
        if not isinstance(plugin, type):
            expected = type(plugin).__name__
            raise PluginError(f"plugin {where or repr(plugin)}: is an object; its class {expected} is expected")
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
        """Another registry with the same classes, which have been looked at already."""
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
        """Let the classes that share something between profiles put it into the handle."""
        for plugin in self._classes.values():
            if has(plugin, "prepare"):
                plugin.prepare(handle)

    def make(self, name: str, args: Any, handle: Handle) -> ResolvedPlugin:
        """Make the plugin of this name for a profile."""
        return resolve(self._classes[name](args, handle), self._points[name])

    def points(self) -> dict[str, frozenset[str]]:
        """By name, the extension points at which each plugin can be enabled."""
        return dict(self._points)
