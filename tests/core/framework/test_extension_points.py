"""The table of extension points against upstream, and everything that derives from it against the table."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from typing import Any, get_type_hints

import msgspec
import pytest

from mooring import sdk
from mooring.core.config import profile as config_profile
from mooring.core.config import types as config_types
from mooring.core.config.validation import _CHECKED_POINTS
from mooring.core.engine.in_tree import IN_TREE, OPTIONAL
from mooring.core.framework import interfaces, runtime
from mooring.core.framework.extension_points import (
    EXTENSION_POINTS,
    EXTENSIONS,
    METHODS,
    METRIC_NAMES,
    ExtensionPoint,
    Method,
    points_of,
)
from mooring.core.framework.registry import ResolvedPlugin
from mooring.core.queue import profile as queue_profile
from mooring.live import time_limits

MODULE = interfaces.__name__
RUNNING = [point for point in EXTENSION_POINTS if point.methods]


def named(point: ExtensionPoint | Method) -> str:
    return point.name


# ---- upstream ----------------------------------------------------------------------------------------------------


def test_the_points_are_those_of_a_configuration_in_the_order_in_which_a_pod_meets_them() -> None:
    assert [point.name for point in EXTENSION_POINTS] == [
        "preEnqueue",
        "queueSort",
        "preFilter",
        "filter",
        "postFilter",
        "preScore",
        "score",
        "reserve",
        "permit",
        "preBind",
        "bind",
        "postBind",
        "placementGenerate",
        "placementFeasible",
        "placementScore",
        "podGroupPostFilter",
    ]


def test_mistakes_are_looked_for_in_upstreams_order() -> None:
    """pkg/scheduler/framework/runtime/framework.go, getExtensionPoints."""
    assert config_profile._CHECK_ORDER == (
        "preFilter",
        "filter",
        "postFilter",
        "reserve",
        "preScore",
        "score",
        "preBind",
        "bind",
        "postBind",
        "permit",
        "preEnqueue",
        "queueSort",
        "placementGenerate",
        "placementScore",
        "podGroupPostFilter",
        "placementFeasible",
    )


def test_metrics_call_the_points_as_upstream_does() -> None:
    """pkg/scheduler/metrics/metrics.go; it has no name for QueueSort, which is not timed."""
    assert METRIC_NAMES == {
        "pre_enqueue": "PreEnqueue",
        "pre_filter": "PreFilter",
        "add_pod": "PreFilterExtensionAddPod",
        "remove_pod": "PreFilterExtensionRemovePod",
        "filter": "Filter",
        "post_filter": "PostFilter",
        "pre_score": "PreScore",
        "score": "Score",
        "normalize": "ScoreExtensionNormalize",
        "reserve": "Reserve",
        "unreserve": "Unreserve",
        "permit": "Permit",
        "pre_bind_pre_flight": "PreBindPreFlight",
        "pre_bind": "PreBind",
        "bind": "Bind",
        "post_bind": "PostBind",
        "generate_placements": "PlacementGenerate",
        "score_placement": "PlacementScore",
        "normalize_placements": "PlacementScoreExtensionNormalize",
        "placement_feasible": "PlacementFeasible",
        "pod_group_post_filter": "PodGroupPostFilter",
    }


@pytest.mark.parametrize(
    ("column", "want"),
    [
        pytest.param("is_scored", {"score", "placementScore"}, id="where plugins have weights"),
        pytest.param(
            "can_refuse",
            {"preEnqueue", "preFilter", "filter", "reserve", "permit"},
            id="where a refusal asks for events, as EnqueueExtensions says",
        ),
        pytest.param(
            "checks_removed",
            {point.name for point in EXTENSION_POINTS if not point.is_for_groups},
            id="where upstream looks for plugins that are gone",
        ),
    ],
)
def test_what_else_the_table_says_of_points(column: str, want: set[str]) -> None:
    assert {point.name for point in EXTENSION_POINTS if getattr(point, column)} == want


# ---- the table itself --------------------------------------------------------------------------------------------


def test_every_name_is_used_once() -> None:
    methods = [method.name for point in EXTENSION_POINTS for method in point.methods]
    methods += [method.name for method in EXTENSIONS]
    assert len(set(methods)) == len(methods) == len(METHODS)
    assert len(set(METRIC_NAMES.values())) == len(METRIC_NAMES)
    for column in ("name", "attribute", "checked"):
        assert len({getattr(point, column) for point in EXTENSION_POINTS}) == len(EXTENSION_POINTS), column


def test_the_check_order_has_no_gaps() -> None:
    assert sorted(point.checked for point in EXTENSION_POINTS) == list(range(len(EXTENSION_POINTS)))


@pytest.mark.parametrize("point", EXTENSION_POINTS, ids=named)
def test_the_python_name_is_the_wire_name_in_snake_case(point: ExtensionPoint) -> None:
    assert "".join(f"_{c.lower()}" if c.isupper() else c for c in point.name) == point.attribute


@pytest.mark.parametrize(
    ("method", "per_node", "want"),
    [
        pytest.param("filter", False, "def filter(self, state, pod, nodes)", id="columns"),
        pytest.param("filter", True, "def filter(self, state, pod, node)", id="one node"),
        pytest.param("normalize", True, "def normalize(self, state, pod, scores)", id="scores by name"),
        pytest.param("permit", True, "def permit(self, state, pod, node_name)", id="no difference"),
        pytest.param("bind", False, "async def bind(self, state, pod, node_name)", id="one that waits"),
        pytest.param("prepare", False, "def prepare(cls, handle)", id="one of the class"),
        pytest.param("events_to_register", False, "def events_to_register(self)", id="no arguments"),
    ],
)
def test_a_signature_is_written_as_authors_write_it(method: str, per_node: bool, want: str) -> None:
    assert METHODS[method].signature(per_node=per_node) == want


def test_reading_the_table_loads_nothing_else() -> None:
    """A configuration is read without NumPy."""
    code = "import sys, mooring.core.framework.extension_points as it; print(*(m in sys.modules for m in sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "numpy", "mooring.core.state"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def two(self: Any) -> None: ...


@pytest.mark.parametrize(
    ("methods", "want"),
    [
        pytest.param(["filter", "score"], {"filter", "score"}, id="two points"),
        pytest.param(["pre_filter", "add_pod"], {"preFilter"}, id="an optional method more"),
        pytest.param(["pre_filter"], {"preFilter"}, id="an optional method less"),
        pytest.param(["reserve", "unreserve"], {"reserve"}, id="a point of two methods"),
        pytest.param(["reserve"], set(), id="half of a point"),
        pytest.param(["add_pod", "normalize", "sign"], set(), id="optional methods alone"),
        pytest.param([], set(), id="nothing"),
    ],
)
def test_points_are_found_by_methods(methods: list[str], want: set[str]) -> None:
    assert points_of(type("Mine", (), dict.fromkeys(methods, two))) == want


def test_an_attribute_that_cannot_be_called_is_no_method() -> None:
    assert points_of(type("Mine", (), {"filter": None, "score": 5})) == set()


# ---- what derives from it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS.values(), ids=named)
def test_a_protocol_has_the_method_with_these_arguments(method: Method) -> None:
    protocols = [each for _, each in inspect.getmembers(interfaces, inspect.isclass) if each.__module__ == MODULE]
    (owner,) = [each for each in protocols if method.name in vars(each)]
    function = inspect.getattr_static(owner, method.name)
    assert isinstance(function, classmethod) is method.is_class_method
    function = function.__func__ if isinstance(function, classmethod) else function
    assert tuple(inspect.signature(function).parameters)[1:] == method.arguments
    assert inspect.iscoroutinefunction(function) is method.is_async
    assert inspect.getdoc(function) or inspect.getdoc(owner), "a contract says who calls it and when"


@pytest.mark.parametrize("method", [m for m in METHODS.values() if not m.is_class_method], ids=named)
def test_a_resolved_plugin_has_a_field_for_the_method(method: Method) -> None:
    hint = get_type_hints(ResolvedPlugin)[method.name]
    is_optional = type(None) in getattr(hint, "__args__", ()) and "Union" in type(hint).__name__
    assert is_optional is method.is_optional


def test_a_resolved_plugin_has_no_other_methods() -> None:
    fields = {each.name for each in dataclasses.fields(ResolvedPlugin)}
    methods = {method.name for method in METHODS.values() if not method.is_class_method}
    assert fields - methods == {"plugin", "name", "traits", "points"}


def test_a_profile_has_a_list_for_every_point_that_runs() -> None:
    fields = {each.name for each in dataclasses.fields(runtime.Profile) if not each.init}
    assert {point.attribute for point in RUNNING} <= fields


def test_a_configuration_has_a_field_for_every_point() -> None:
    fields = {each.encode_name: each.name for each in msgspec.structs.fields(config_types.Plugins)}
    assert fields == {point.name: point.attribute for point in EXTENSION_POINTS} | {"multiPoint": "multi_point"}
    assert tuple(point.name for point in EXTENSION_POINTS) == config_types.EXTENSION_POINTS


def test_validation_and_queue_take_their_points_from_the_table() -> None:
    assert set(_CHECKED_POINTS) == {point.name for point in EXTENSION_POINTS if point.checks_removed}
    assert {point.name for point in EXTENSION_POINTS if point.can_refuse} == queue_profile._REFUSING_POINTS


def test_time_limits_hold_for_every_method_that_blocks() -> None:
    assert set(time_limits.PLUGIN_METHODS) == {name for name in METRIC_NAMES if not METHODS[name].is_async}


@pytest.mark.parametrize("point", [point for point in RUNNING if not point.is_for_groups], ids=named)
def test_the_sdk_has_a_base_for_every_point(point: ExtensionPoint) -> None:
    required = {method.name for method in point.methods if not method.is_optional}
    bases = [value for value in vars(sdk).values() if inspect.isclass(value) and issubclass(value, sdk.Plugin)]
    (base,) = [base for base in bases if base.__abstractmethods__ == required]
    for method in point.methods:
        function = getattr(base, method.name, None)
        if function is not None:
            arguments = method.arguments if method.per_node is None else method.per_node
            assert tuple(inspect.signature(function).parameters)[1:] == arguments
            assert inspect.iscoroutinefunction(function) is method.is_async
    assert base.__name__ in sdk.__all__


@pytest.mark.parametrize("plugin", (*IN_TREE, *OPTIONAL), ids=lambda plugin: plugin.__name__)
def test_in_tree_plugins_call_their_arguments_as_the_contract_does(plugin: type) -> None:
    for method in METHODS.values():
        function = getattr(plugin, method.name, None)
        if function is not None:
            names = tuple(inspect.signature(function).parameters)
            assert (names if method.is_class_method else names[1:]) == method.arguments, method.name
