"""Every way in which a plugin class can be wrong, and the line that says so; nothing is found out in a cycle."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import msgspec
import pytest

from mooring import sdk
from mooring.api.errors import PluginError
from mooring.core.engine.in_tree import IN_TREE, OPTIONAL
from mooring.core.framework.extension_points import METHODS
from mooring.core.framework.registry import FORMER_DECLARATIONS, Reads, Traits, check


class Base:
    """What every class here has: a constructor."""

    def __init__(self, args: Any, handle: Any) -> None: ...


def two(self: Any, a: int, b: int) -> None: ...


def three(self: Any, state: Any, pod: Any, nodes: Any) -> None: ...


def one(self: Any, pod: Any) -> None: ...


async def waits(self: Any, state: Any, pod: Any, node_name: Any) -> None: ...


def mine(base: type = Base, **members: Any) -> type:
    return type("Mine", (base,), {"name": "Mine", "filter": three, **members})


def problem(plugin: type) -> str:
    with pytest.raises(PluginError) as caught:
        check(plugin)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("plugin", (*IN_TREE, *OPTIONAL), ids=lambda plugin: plugin.__name__)
def test_in_tree_plugins_keep_the_contract(plugin: type) -> None:
    check(plugin)


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(mine(), id="a filter"),
        pytest.param(mine(traits=Traits(filter_reads=Reads.NODE)), id="with traits"),
        pytest.param(
            mine(filter=lambda self, state, pod, nodes, more=1: None), id="with an argument that has a default"
        ),
        pytest.param(mine(filter=lambda self, *arguments: None), id="with any arguments"),
        pytest.param(mine(margin_s=5, helper=three, Options=Base), id="with names of its own"),
        pytest.param(mine(_scores=(), _pre_filer=three), id="with private names that look like a declaration"),
        pytest.param(mine(filters=(), names=("a",)), id="with names like those of declarations that it has"),
        pytest.param(mine(filter=staticmethod(lambda *arguments: None)), id="with a static method"),
        pytest.param(mine(args=sdk.Args), id="with a type for its arguments"),
        pytest.param(mine(pre_bind=waits, bind=waits), id="with methods that wait"),
    ],
)
def test_what_keeps_the_contract_is_accepted(plugin: type) -> None:
    check(plugin)


def test_a_dataclass_is_accepted() -> None:
    @dataclass(frozen=True)
    class QuietHours:
        args: Any
        handle: Any
        margin_s: float = 600.0
        name: ClassVar[str] = "QuietHours"

        def filter(self, state: Any, pod: Any, nodes: Any) -> None: ...

    check(QuietHours)


# ---- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "", 5], ids=["none", "empty", "not a text"])
def test_a_plugin_without_a_name(name: Any) -> None:
    assert problem(mine(name=name)) == 'has no name; give the class a line such as name = "Mine"'


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        pytest.param("trait", "traits", id="trait"),
        pytest.param("Traits", "traits", id="Traits"),
        pytest.param("pre_filer", "pre_filter", id="pre_filer"),
        pytest.param("prefilter", "pre_filter", id="without the underscore"),
        pytest.param("pre_Score", "pre_score", id="pre_Score"),
        pytest.param("normalise", "normalize", id="British spelling"),
        pytest.param("normalize_score", "normalize(self, state, pod, scores)", id="upstream's name"),
        pytest.param("unresrve", "unreserve", id="unresrve"),
        pytest.param("permits", "permit", id="permits"),
        pytest.param("prebind", "pre_bind", id="prebind"),
        pytest.param("post_binds", "post_bind", id="post_binds"),
        pytest.param("event_to_register", "events_to_register", id="event_to_register"),
        pytest.param("cache_tokens", "cache_token", id="cache_tokens"),
        pytest.param("concern", "concerns", id="concern"),
        pytest.param("signs", "sign", id="signs"),
        pytest.param("after_failures", "after_failure", id="after_failures"),
        pytest.param("filter_read", "traits = Traits(filter_reads=Reads.…)", id="a former declaration misspelt"),
        pytest.param("arg", "args", id="arg"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    want = f"has {wrong}, which is never read; did you mean {meant}? If it is its own, call it _{wrong}"
    assert problem(mine(**{wrong: three})) == want


@pytest.mark.parametrize("former", FORMER_DECLARATIONS)
def test_a_former_declaration_is_answered_with_the_line_to_write(former: str) -> None:
    want = f"declares {former}, which is no longer read; write {FORMER_DECLARATIONS[former]}"
    assert problem(mine(**{former: True})) == want
    assert problem(mine(**{former: property(lambda self: True)})) == want


def test_a_misspelling_is_found_in_a_base_class_too() -> None:
    base = type("Common", (Base,), {"pre_filer": three})
    assert problem(mine(base)).startswith("has pre_filer, which is never read; did you mean pre_filter?")


def test_what_a_base_of_the_sdk_declares_by_default_can_be_misspelt() -> None:
    plugin = type("Mine", (sdk.NodeFilter,), {"name": "Mine", "filter": three, "trait": Traits(in_range=True)})
    assert problem(plugin).startswith("has trait, which is never read; did you mean traits?")


def test_a_misspelling_is_named_before_what_is_missing_because_of_it() -> None:
    assert problem(type("Mine", (Base,), {"name": "Mine", "fliter": three})).startswith(
        "has fliter, which is never read; did you mean filter?"
    )


# ---- methods -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param({}, "implements no extension point; define filter, score, permit or another one", id="nothing"),
        pytest.param(
            {"sign": one}, "implements no extension point; define filter, score, permit or another one", id="sign alone"
        ),
        pytest.param(
            {"reserve": three},
            "does not define def unreserve(self, state, pod, node_name)",
            id="reserve without unreserve",
        ),
        pytest.param(
            {"normalize": lambda self, state, pod, scores, nodes: scores},
            "does not define def score(self, state, pod, nodes)",
            id="normalize without score",
        ),
        pytest.param(
            {"add_pod": lambda self, a, b, c, d: None},
            "does not define def pre_filter(self, state, pod, nodes)",
            id="add_pod without pre_filter",
        ),
        pytest.param(
            {"score": lambda self, a, b, c, d: None},
            "score(self, a, b, c, d) cannot be called; expected def score(self, state, pod, nodes)",
            id="too many arguments",
        ),
        pytest.param(
            {"score": lambda self: None},
            "score(self) cannot be called; expected def score(self, state, pod, nodes)",
            id="too few arguments",
        ),
        pytest.param(
            {"score": lambda self, state, pod, *, nodes: None},
            "score(self, state, pod, *, nodes) cannot be called; expected def score(self, state, pod, nodes)",
            id="an argument by name only",
        ),
        pytest.param({"score": 5}, "score is 5; expected def score(self, state, pod, nodes)", id="not a method"),
        pytest.param(
            {"bind": three},
            "bind is not async; expected async def bind(self, state, pod, node_name)",
            id="not async",
        ),
        pytest.param(
            {"permit": waits}, "permit is async; expected def permit(self, state, pod, node_name)", id="async"
        ),
        pytest.param(
            {"score": three, "prepare": lambda self, handle: None},
            "prepare is not a class method; expected @classmethod def prepare(cls, handle)",
            id="a plain method where the class is asked",
        ),
        pytest.param(
            {"score": three, "prepare": classmethod(lambda cls: None)},
            "prepare() cannot be called; expected def prepare(cls, handle)",
            id="a class method without its argument",
        ),
    ],
)
def test_a_method_that_cannot_be_called_as_it_will_be(members: dict[str, Any], message: str) -> None:
    assert problem(type("Mine", (Base,), {"name": "Mine", **members})) == message


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_the_number_of_arguments_is_checked_for_every_method(method: Any) -> None:
    def too_many(self: Any, a: int, b: int, c: int, d: int, e: int) -> None: ...

    async def too_many_async(self: Any, a: int, b: int, c: int, d: int, e: int) -> None: ...

    function: Any = too_many_async if method.is_async else too_many
    function = classmethod(function) if method.is_class_method else function
    others = {
        "unreserve": three,
        "reserve": three,
        "pre_filter": three,
        "score": three,
        "pre_bind": waits,
        "score_placement": two,
    }
    text = problem(mine(**{**others, method.name: function}))
    assert text.startswith(method.name) and text.endswith(f"cannot be called; expected {method.signature()}")


class Waiting(sdk.NodeFilter):
    """An SDK class is called with one node."""

    name = "Waiting"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param({}, "does not define def filter(self, state, pod, node)", id="an abstract method"),
        pytest.param(
            {"filter": one},
            "filter(self, pod) cannot be called; expected def filter(self, state, pod, node)",
            id="the per-node form of the signature",
        ),
        pytest.param(
            {"filter": three, "score": three, "normalize": one},
            "normalize(self, pod) cannot be called; expected def normalize(self, state, pod, scores)",
            id="normalize takes scores by name",
        ),
        pytest.param(
            {"filter": three, "normalize_scores": three},
            "declares normalize_scores, which is no longer read; write normalize(self, state, pod, scores)",
            id="the former name of normalize",
        ),
        pytest.param(
            {"filter": three, "args": dict},
            "args is <class 'dict'>; expected the type of its arguments, a msgspec.Struct",
            id="arguments that are no struct",
        ),
        pytest.param(
            {"filter": three, "args": {"size": 3}},
            "args is {'size': 3}; expected the type of its arguments, a msgspec.Struct",
            id="values instead of a type",
        ),
    ],
)
def test_a_plugin_that_looks_at_one_node_at_a_time(members: dict[str, Any], message: str) -> None:
    assert problem(type("Mine", (Waiting,), members)) == message


def test_an_abstract_method_of_ones_own_is_missing_too() -> None:
    class Abstract(Base, abc.ABC):
        name = "Abstract"

        @abc.abstractmethod
        def filter(self, state: Any, pod: Any, nodes: Any) -> None: ...

    assert problem(Abstract) == "does not define def filter(self, state, pod, nodes)"


# ---- traits, constructor, arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traits", "message"),
    [
        pytest.param(Traits, f"traits is {Traits!r}; expected Traits(…)", id="the class"),
        pytest.param({"per_node": True}, "traits is {'per_node': True}; expected Traits(…)", id="a dictionary"),
        pytest.param(None, "traits is None; expected Traits(…)", id="nothing"),
        pytest.param(
            Traits(score_reads=Reads.NODE), "declares score_reads in its traits, but has no score", id="no score"
        ),
        pytest.param(Traits(in_range=True), "declares in_range in its traits, but has no score", id="no range"),
        pytest.param(
            Traits(even_normalize=True),
            "declares even_normalize in its traits, but has no normalize",
            id="no normalize",
        ),
        pytest.param(Traits(signs=False), "declares signs in its traits, but has no sign", id="no sign"),
    ],
)
def test_traits_that_say_nothing_true(traits: Any, message: str) -> None:
    assert problem(mine(traits=traits)) == message


def test_filter_reads_without_a_filter() -> None:
    plugin = mine(filter=None, score=three, traits=Traits(filter_reads=Reads.NODE))
    assert problem(plugin) == "declares filter_reads in its traits, but has no filter"


@pytest.mark.parametrize(
    "constructor",
    [
        pytest.param(lambda self: None, id="no arguments"),
        pytest.param(lambda self, args: None, id="one argument"),
        pytest.param(lambda self, args, handle, more: None, id="three arguments"),
    ],
)
def test_a_constructor_that_does_not_take_arguments_and_handle(constructor: Any) -> None:
    want = "is made with (args, handle); expected def __init__(self, args, handle)"
    assert problem(mine(__init__=constructor)) == want


def test_a_class_without_a_constructor() -> None:
    assert problem(mine(object)).startswith("is made with (args, handle)")


def test_a_method_without_a_signature_is_accepted() -> None:
    """Some that are written in C have no signature; they show their mistakes when they are called."""

    class Opaque(partial):  # type: ignore[type-arg]
        @property
        def __signature__(self) -> None:
            raise ValueError("no signature")

    check(mine(filter=Opaque(three)))


def test_a_struct_for_arguments_is_accepted() -> None:
    class Plain(msgspec.Struct):
        size: int = 3

    check(mine(args=Plain))
