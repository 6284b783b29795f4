"""NodeDeclaredFeatures: some fields of a pod's spec need a node that declares support."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from mooring.api.core import Node, Pod, PodSpec
from mooring.api.meta import Object
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import PreFilterResult
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP_FOR_TEMPLATE, SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo, PodShape

MISSING = Status.unresolvable("node(s) didn't match Pod's required features")


def required_features(spec: PodSpec) -> frozenset[str]:
    """Return the node features that a spec requires."""
    needed = set()
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        needed.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return frozenset(needed)


def _required_by(shape: PodShape) -> frozenset[str]:
    """Return the features required by all pods of this shape, cached."""
    found: frozenset[str] | None = shape.kept.get(required_features)
    if found is None:
        found = shape.kept[required_features] = required_features(shape.spec)
    return found


class NodeDeclaredFeatures:
    """Rejects nodes that do not declare every feature the pod needs."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.NODE, uses_volumes=False)

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return _required_by(pod.shape)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        return SUCCESS_FOR_TEMPLATE if _required_by(pod.shape) else SKIP_FOR_TEMPLATE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        needed = _required_by(pod.shape)
        lacking = np.fromiter((not needed <= declared for declared in nodes.table.feature_sets), np.bool_)
        return Verdict.where(lacking[nodes.feature_set], MISSING) if lacking.any() else None

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE, _after_node_change),
            on(EventResource.POD, ActionType.UPDATE, _after_pod_update),
        )


def _after_node_change(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    assert isinstance(new, Node)
    same = isinstance(old, Node) and old.status.declared_features == new.status.declared_features
    return Hint.SKIP if same else Hint.QUEUE


def _after_pod_update(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    """The pod's own update counts, if it changes the required features."""
    assert isinstance(old, Pod) and isinstance(new, Pod)
    if new.uid != pod.uid or required_features(old.spec) == required_features(new.spec):
        return Hint.SKIP
    return Hint.QUEUE
