"""All extension points: names in the configuration, methods, arguments, names in metrics.

Configuration, registration, runtime, timing and SDK derive their lists from this table. It imports nothing, so that
reading a configuration stays fast. :mod:`mooring.core.framework.interfaces` documents the contract of each method.
"""

from __future__ import annotations

import msgspec


class Method(msgspec.Struct, frozen=True):
    """A method that a plugin may define."""

    name: str
    arguments: tuple[str, ...]  # in order
    metric: str = ""  # extension_point label of scheduler_plugin_execution_duration_seconds
    per_node: tuple[str, ...] | None = None  # the arguments where the plugin looks at one node at a time, if different
    is_async: bool = False
    is_optional: bool = False  # a plugin at the point may lack it
    is_class_method: bool = False  # called on the class, before there are plugins

    def signature(self, *, per_node: bool = False) -> str:
        """The method as an author writes it."""
        arguments = self.per_node if per_node and self.per_node is not None else self.arguments
        first = "cls" if self.is_class_method else "self"
        return f"{'async ' if self.is_async else ''}def {self.name}({', '.join((first, *arguments))})"


class ExtensionPoint(msgspec.Struct, frozen=True):
    """A point at which a profile runs plugins; a plugin with all its methods can be enabled there."""

    name: str  # in a configuration
    attribute: str  # the same in Python
    methods: tuple[Method, ...]
    checked: int  # upstream's order of checks; decides which of several mistakes is reported
    is_scored: bool = False  # plugins have weights there
    can_refuse: bool = False  # a plugin at it can reject a pod, so the queue asks for helpful events
    checks_removed: bool = True  # upstream looks here for removed plugins
    is_for_groups: bool = False  # about pod groups, not about one pod; the SDK has no base for it


_NODES = ("state", "pod", "nodes")
_NODE = ("state", "pod", "node")
_NODE_NAME = ("state", "pod", "node_name")


EXTENSION_POINTS: tuple[ExtensionPoint, ...] = (
    ExtensionPoint(
        "preEnqueue", "pre_enqueue", (Method("pre_enqueue", ("pod",), "PreEnqueue"),), checked=10, can_refuse=True
    ),
    ExtensionPoint("queueSort", "queue_sort", (Method("sort_key", ("priority", "timestamp")),), checked=11),
    ExtensionPoint(
        "preFilter",
        "pre_filter",
        (
            Method("pre_filter", _NODES, "PreFilter"),
            Method("add_pod", ("state", "pod", "added", "node"), "PreFilterExtensionAddPod", is_optional=True),
            Method("remove_pod", ("state", "pod", "removed", "node"), "PreFilterExtensionRemovePod", is_optional=True),
        ),
        checked=0,
        can_refuse=True,
    ),
    ExtensionPoint(
        "filter",
        "filter",
        (Method("filter", _NODES, "Filter", per_node=_NODE), Method("concerns", ("pod",), is_optional=True)),
        checked=1,
        can_refuse=True,
    ),
    ExtensionPoint(
        "postFilter", "post_filter", (Method("post_filter", (*_NODES, "statuses"), "PostFilter"),), checked=2
    ),
    ExtensionPoint("preScore", "pre_score", (Method("pre_score", _NODES, "PreScore"),), checked=4),
    ExtensionPoint(
        "score",
        "score",
        (
            Method("score", _NODES, "Score", per_node=_NODE),
            Method(
                "normalize",
                ("state", "pod", "scores", "nodes"),
                "ScoreExtensionNormalize",
                per_node=("state", "pod", "scores"),
                is_optional=True,
            ),
        ),
        checked=5,
        is_scored=True,
    ),
    ExtensionPoint(
        "reserve",
        "reserve",
        (Method("reserve", _NODE_NAME, "Reserve"), Method("unreserve", _NODE_NAME, "Unreserve")),
        checked=3,
        can_refuse=True,
    ),
    ExtensionPoint("permit", "permit", (Method("permit", _NODE_NAME, "Permit"),), checked=9, can_refuse=True),
    ExtensionPoint(
        "preBind",
        "pre_bind",
        (
            Method("pre_bind", _NODE_NAME, "PreBind", is_async=True),
            Method("pre_bind_pre_flight", _NODE_NAME, "PreBindPreFlight", is_optional=True),
        ),
        checked=6,
    ),
    ExtensionPoint("bind", "bind", (Method("bind", _NODE_NAME, "Bind", is_async=True),), checked=7),
    ExtensionPoint("postBind", "post_bind", (Method("post_bind", _NODE_NAME, "PostBind"),), checked=8),
    ExtensionPoint(
        "placementGenerate",
        "placement_generate",
        (Method("generate_placements", ("group", "nodes"), "PlacementGenerate"),),
        checked=12,
        checks_removed=False,
        is_for_groups=True,
    ),
    ExtensionPoint(
        "placementFeasible",
        "placement_feasible",
        (Method("placement_feasible", ("group", "progress"), "PlacementFeasible"),),
        checked=15,
        checks_removed=False,
        is_for_groups=True,
    ),
    ExtensionPoint(
        "placementScore",
        "placement_score",
        (
            Method("score_placement", ("group", "placement"), "PlacementScore"),
            Method("normalize_placements", ("group", "scores"), "PlacementScoreExtensionNormalize", is_optional=True),
        ),
        checked=13,
        is_scored=True,
        checks_removed=False,
        is_for_groups=True,
    ),
    ExtensionPoint(
        "podGroupPostFilter",
        "pod_group_post_filter",
        (Method("pod_group_post_filter", ("group", "tried"), "PodGroupPostFilter"),),
        checked=14,
        checks_removed=False,
        is_for_groups=True,
    ),
)
"""All extension points, in the order in which a pod passes them."""

# Methods that any plugin may have, whatever its points.
EXTENSIONS: tuple[Method, ...] = (
    Method("events_to_register", (), is_optional=True),
    Method("cache_token", (), is_optional=True),
    Method("sign", ("pod",), is_optional=True),
    Method("after_failure", ("state", "pod"), is_optional=True),
    Method("facts", _NODES, is_optional=True),
    Method("remedies", _NODES, is_optional=True),
    Method("prepare", ("handle",), is_optional=True, is_class_method=True),
)

METHODS: dict[str, Method] = {
    method.name: method for method in (*(m for point in EXTENSION_POINTS for m in point.methods), *EXTENSIONS)
}
"""Every method that mooring calls on a plugin, by name."""

METRIC_NAMES: dict[str, str] = {method.name: method.metric for method in METHODS.values() if method.metric}
"""By method, the extension point in kube-scheduler's metrics."""


def points_of(plugin: type) -> frozenset[str]:
    """Return the extension points at which a class can be enabled, by its methods."""
    return frozenset(
        point.name
        for point in EXTENSION_POINTS
        if point.methods and all(method.is_optional or has(plugin, method.name) for method in point.methods)
    )


def has(plugin: type, method: str) -> bool:
    return callable(getattr(plugin, method, None))
