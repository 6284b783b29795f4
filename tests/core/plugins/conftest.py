"""Builders and a question for tests of queueing hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource, Hint
from mooring.core.framework.handle import Handle
from mooring.core.queue.profile import registered_hints
from mooring.core.state.cluster import ClusterState


def make_pod(
    name: str = "waiting",
    *,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    node: str = "",
    nominated: str = "",
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    return from_plain(
        Pod,
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
            "spec": {"nodeName": node, "containers": [container], **spec},
            "status": {"nominatedNodeName": nominated},
        },
    )


def make_node(
    name: str = "n1",
    *,
    labels: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    features: list[str] | None = None,
    **spec: Any,
) -> Node:
    return from_plain(
        Node,
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
            "spec": spec,
            "status": {"allocatable": allocatable or {}, "declaredFeatures": features or []},
        },
    )


def ask_plugin(plugin: Any, resource: str, action: str, pod: Pod, old: Object | None, new: Object | None) -> str:
    """What the queue makes of an event for a pod that only this plugin refused: ``Queue``, ``Skip`` or ``Deaf``."""
    event = ClusterEvent(EventResource[resource], ActionType[action])
    hints = [
        each.hint for each in registered_hints(plugin.name, plugin.events_to_register()) if each.event.covers(event)
    ]
    if not hints:
        return "Deaf"
    answers = [Hint.QUEUE if hint is None else hint(pod, old, new) for hint in hints]
    return "Queue" if Hint.QUEUE in answers else "Skip"


@pytest.fixture
def handle() -> Handle:
    return Handle(ClusterState(), VirtualClock())


@pytest.fixture
def pod() -> Callable[..., Pod]:
    return make_pod


@pytest.fixture
def node() -> Callable[..., Node]:
    return make_node


@pytest.fixture
def ask() -> Callable[..., str]:
    return ask_plugin
