"""Mistakes that an API server would have rejected: quantities, operators, selectors, effects.

An API server never shows such objects to a scheduler, but files may contain them. Each mistake is reported with its
path in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mooring.api.core import (
    Affinity,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodSpec,
    ResourceList,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from mooring.api.errors import ParseError
from mooring.api.meta import LabelSelector, Object
from mooring.api.quantity import parse_quantity
from mooring.api.selectors import requirement
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.workloads import PodDisruptionBudget, ReplicaSet, StatefulSet

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def problems_in(obj: Object) -> Iterator[str]:
    """Yield each mistake as ``path: what was found, what was expected``."""
    if not obj.metadata.name and not obj.metadata.generate_name:
        yield "metadata.name: is missing"
    match obj:
        case Pod():
            yield from _pod_spec(obj.spec)
        case Node():
            yield from _amounts(obj.status.capacity, "status.capacity")
            yield from _amounts(obj.status.allocatable, "status.allocatable")
            yield from _taints(obj.spec.taints)
        case PersistentVolume():
            yield from _amounts(obj.spec.capacity, "spec.capacity")
            if obj.spec.node_affinity is not None:
                yield from _node_selector(obj.spec.node_affinity.required, "spec.nodeAffinity.required")
        case PersistentVolumeClaim():
            yield from _resources(obj.spec.resources, "spec.resources")
            yield from _selector(obj.spec.selector, "spec.selector")
        case PodDisruptionBudget() | ReplicaSet() | StatefulSet():
            yield from _selector(obj.spec.selector, "spec.selector")


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def pod_name_problem(name: str) -> str:
    """Return why an API server rejects a pod of this name; "" if it does not."""
    if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
        return ""
    right = "lower case letters a-z, digits, '-' and '.', at most 253, that begin and end with a letter or digit"
    return f"metadata.name: an API server refuses {name!r}; expected {right}"


def _pod_spec(spec: PodSpec) -> Iterator[str]:
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            if container.resources.requests or container.resources.limits:
                yield from _resources(container.resources, f"spec.{field}[{i}].resources")
    if spec.overhead:
        yield from _amounts(spec.overhead, "spec.overhead")
    if spec.resources is not None:
        yield from _resources(spec.resources, "spec.resources")
    if spec.tolerations:
        yield from _tolerations(spec.tolerations)
    if spec.topology_spread_constraints:
        yield from _spread(spec.topology_spread_constraints)
    if spec.affinity is not None:
        yield from _affinity(spec.affinity)


def _resources(resources: ResourceRequirements, path: str) -> Iterator[str]:
    yield from _amounts(resources.requests, f"{path}.requests")
    yield from _amounts(resources.limits, f"{path}.limits")


def _amounts(amounts: ResourceList, path: str) -> Iterator[str]:
    for name, text in amounts.items():
        problem = _amount_problem(text)
        if problem:
            yield f"{path}[{name}]: {problem}"


@lru_cache(maxsize=65536)
def _amount_problem(text: str | int | float) -> str:
    """Return why a quantity is invalid; cached, because a large dump repeats few values."""
    try:
        amount = parse_quantity(text)
    except ParseError as error:
        return str(error)
    return f"{text!r} is negative; it must be 0 or more" if amount < 0 else ""


def _choice(value: str, choices: Iterable[str], path: str) -> Iterator[str]:
    choices = tuple(choices)
    if value not in choices:
        yield f"{path}: {value!r} is not known; use one of {', '.join(c for c in choices if c)}"


def _tolerations(tolerations: list[Toleration]) -> Iterator[str]:
    for i, toleration in enumerate(tolerations):
        if toleration.operator in ("Exists", "Equal", "") and toleration.effect in EFFECTS and not toleration.value:
            continue  # the usual case, and a large dump has many
        path = f"spec.tolerations[{i}]"
        yield from _choice(toleration.operator, ("Equal", "Exists", "Lt", "Gt", ""), f"{path}.operator")
        yield from _choice(toleration.effect, (*EFFECTS, ""), f"{path}.effect")
        if toleration.operator == "Exists" and toleration.value:
            yield f"{path}.value: {toleration.value!r} beside operator Exists; it must be empty then"


def _taints(taints: list[Taint]) -> Iterator[str]:
    for i, taint in enumerate(taints):
        yield from _choice(taint.effect, EFFECTS, f"spec.taints[{i}].effect")


def _spread(constraints: list[TopologySpreadConstraint]) -> Iterator[str]:
    for i, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{i}]"
        if constraint.max_skew < 1:
            yield f"{path}.maxSkew: {constraint.max_skew}, expected 1 or more"
        if not constraint.topology_key:
            yield f"{path}.topologyKey: is missing"
        yield from _choice(
            constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"), f"{path}.whenUnsatisfiable"
        )
        yield from _selector(constraint.label_selector, f"{path}.labelSelector")


def _affinity(affinity: Affinity) -> Iterator[str]:
    node = affinity.node_affinity
    if node is not None:
        yield from _node_selector(node.required, f"spec.affinity.nodeAffinity.{REQUIRED}")
        for i, preferred in enumerate(node.preferred):
            yield from _node_term(preferred.preference, f"spec.affinity.nodeAffinity.{PREFERRED}[{i}].preference")
    for field, terms in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if terms is None:
            continue
        for i, term in enumerate(terms.required):
            yield from _pod_term(term, f"spec.affinity.{field}.{REQUIRED}[{i}]")
        for i, weighted in enumerate(terms.preferred):
            yield from _pod_term(weighted.pod_affinity_term, f"spec.affinity.{field}.{PREFERRED}[{i}].podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Iterator[str]:
    if not term.topology_key:
        yield f"{path}.topologyKey: is missing"
    yield from _selector(term.label_selector, f"{path}.labelSelector")
    yield from _selector(term.namespace_selector, f"{path}.namespaceSelector")


def _node_selector(selector: NodeSelector | None, path: str) -> Iterator[str]:
    if selector is not None:
        for i, term in enumerate(selector.node_selector_terms):
            yield from _node_term(term, f"{path}.nodeSelectorTerms[{i}]")


def _node_term(term: NodeSelectorTerm, path: str) -> Iterator[str]:
    for i, expression in enumerate(term.match_expressions):
        yield from _requirement(
            expression.key, expression.operator, expression.values, f"{path}.matchExpressions[{i}]", node=True
        )


def _selector(selector: LabelSelector | None, path: str) -> Iterator[str]:
    if selector is not None:
        for i, expression in enumerate(selector.match_expressions):
            yield from _requirement(
                expression.key, expression.operator, expression.values, f"{path}.matchExpressions[{i}]", node=False
            )


def _requirement(key: str, operator: str, values: list[str], path: str, *, node: bool) -> Iterator[str]:
    try:
        requirement(key, operator, values, node=node)
    except ParseError as error:
        yield f"{path}: {error}"
