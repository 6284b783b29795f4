"""What the queue needs to know of a profile: its gatekeepers, and which events its plugins want to hear of."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.config.profile import IN_TREE_POINTS
from mooring.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, QueueingHint, on
from mooring.framework.extender import EXTENDER_PLUGIN
from mooring.framework.extension_points import EXTENSION_POINTS
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.runtime import Profile
from mooring.queue.active import SortKey, priority_sort

EVERYTHING = tuple(
    on(resource, ActionType.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
"""Registered for those that cannot say what would help: extenders, and plugins without ``events_to_register``."""

NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
_REFUSING_POINTS = frozenset(point.name for point in EXTENSION_POINTS if point.can_refuse)


class PluginHint(msgspec.Struct, frozen=True):
    """A plugin wants to hear of an event; without a hint every such event is worth another attempt."""

    plugin: str
    event: ClusterEvent
    hint: QueueingHint | None = None


class QueueProfile(msgspec.Struct, frozen=True):
    """A profile as the queue sees it. The sort key of the first profile orders the pods of all."""

    scheduler_name: str
    pre_enqueue: tuple[ResolvedPlugin, ...] = ()
    hints: tuple[PluginHint, ...] = ()
    sort_key: SortKey = priority_sort


ABOUT_OTHERS = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN


def whose(event: ClusterEvent) -> list[ClusterEvent]:
    """A registration for events of pods, as 1.37 has it: of pods with a node, of the waiting pod itself, or of both.

    Other pods matter when they come, go, shrink or change their labels. What else changes matters to the pod itself.
    """
    if event.resource is not EventResource.POD or event.action == ActionType.ALL:
        return [event]
    parts = [(EventResource.TARGET_POD, event.action & ActionType.UPDATE)]
    if event.action & ActionType.UPDATE != ActionType.UPDATE:  # one that asks for any update asks for its own
        parts.insert(0, (EventResource.ASSIGNED_POD, event.action & ABOUT_OTHERS))
    return [ClusterEvent(resource, action) for resource, action in parts if action]


def registered_hints(
    plugin: str,
    registrations: Iterable[EventRegistration],
    *,
    implies_taints: bool = True,
    says_whose: bool = False,
) -> list[PluginHint]:
    """A plugin's registrations, and until 1.36 (``implies_taints``) what goes without saying.

    ``says_whose``: events of pods are those of assigned pods or of the pod itself, as since 1.37.

    A plugin that waits for new nodes also waits for taints to change: upstream added this
    because a tainted node that was added may have been overlooked.
    """
    hints = [
        PluginHint(plugin, event, each.hint)
        for each in registrations
        for event in (whose(each.event) if says_whose else (each.event,))
    ]
    if not implies_taints:
        return hints
    about_nodes = [hint.event.action for hint in hints if hint.event.resource is EventResource.NODE]
    hears_of_new_nodes = any(action & ActionType.ADD for action in about_nodes)
    hears_of_taints = any(action & ActionType.UPDATE_NODE_TAINT for action in about_nodes)
    if hears_of_new_nodes and not hears_of_taints:
        hints.append(PluginHint(plugin, NODE_TAINT))
    return hints


def queue_profile(
    scheduler_name: str,
    plugins: Iterable[ResolvedPlugin],
    *,
    pre_enqueue: Iterable[ResolvedPlugin] = (),
    sort_key: SortKey = priority_sort,
    has_extenders: bool = False,
    implies_taints: bool = True,
    says_whose: bool = False,
) -> QueueProfile:
    """Ask every plugin of a profile which events it wants to hear of.

    ``plugins`` are all plugin instances of the profile, each once;
    ``pre_enqueue`` those of that extension point, in configured order.
    Registrations of plugins that cannot refuse a pod are not asked for.
    """
    hints = registered_hints(EXTENDER_PLUGIN, EVERYTHING) if has_extenders else []
    for plugin in plugins:
        if plugin.points & _REFUSING_POINTS:
            wanted = EVERYTHING if plugin.events_to_register is None else plugin.events_to_register()
            hints += registered_hints(
                plugin.name,
                wanted,
                implies_taints=implies_taints,
                says_whose=says_whose and plugin.name in IN_TREE_POINTS,  # others may mean any pod
            )
    return QueueProfile(scheduler_name, tuple(pre_enqueue), tuple(hints), sort_key)


def from_runtime(
    profile: Profile, *, has_extenders: bool = False, implies_taints: bool = True, says_whose: bool = False
) -> QueueProfile:
    """The queue's view of a profile that the engine uses."""
    return queue_profile(
        profile.scheduler_name,
        profile.plugins.values(),
        pre_enqueue=profile.pre_enqueue,
        sort_key=profile.queue_sort[0].sort_key,
        has_extenders=has_extenders,
        implies_taints=implies_taints,
        says_whose=says_whose,
    )
