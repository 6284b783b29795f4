"""ResourceQuotas and a new pod: the API server applies them, so a scheduler never sees a rejection.

A pod that a quota refuses is not pending: it does not exist. That is what makes the question worth an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction

from mooring.api.core import Container, Pod
from mooring.api.quantity import parse_quantity
from mooring.api.workloads import ResourceQuota
from mooring.core.cluster import Cluster
from mooring.core.plugins.devices.constraints import format_like

PLAIN = ("cpu", "memory", "ephemeral-storage")  # a quota may leave "requests." away
COUNTS = ("pods", "count/pods")
Amounts = Callable[[Container], Mapping[str, object]]


def quota_notes(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield one line per quota that rejects the pod: its request, what is left, and what would fit."""
    for quota in sorted(cluster.state.objects.in_namespace(ResourceQuota, pod.namespace), key=lambda each: each.name):
        if _applies(quota, pod):
            yield from _judge(quota, pod, cluster)


def _judge(quota: ResourceQuota, pod: Pod, cluster: Cluster) -> Iterator[str]:
    hard = quota.status.hard or quota.spec.hard
    asked = {name: amount for name in hard if (amount := usage(pod, name)) is not None}
    missing = [name for name in asked if name.rpartition(".")[2] in PLAIN and not asked[name]]
    where = f"quota {quota.name} of namespace {pod.namespace}: the API server refuses the pod"
    if missing:
        yield f"{where}: must specify {', '.join(missing)}"
        return
    for name, amount in asked.items():
        limit, used = parse_quantity(hard[name]), _used(quota, name, cluster)
        left = max(limit - used, Fraction(0))
        if amount > left:
            shown = [format_like(each, hard[name]) for each in (amount, used, limit, used + amount)]
            enough = f"{format_like(left, hard[name])} instead, or " if left and name not in COUNTS else ""
            said = f"{name} {shown[0]} asked, {shown[1]} of {shown[2]} used"
            yield f"{where}: {said}; {enough}a quota of {shown[3]} would do"


def usage(pod: Pod, name: str) -> Fraction | None:
    """Return a pod's use of one resource of a quota; None if the resource is not about pods."""
    if name in COUNTS:
        return Fraction(1)
    kind, dot, resource = name.partition(".")
    if name in PLAIN:
        return _total(pod, lambda container: container.resources.requests, name)
    if not dot or kind not in ("requests", "limits") or resource == "storage":
        return None
    if kind == "limits":
        return _total(pod, lambda container: container.resources.limits, resource)
    return _total(pod, lambda container: container.resources.requests, resource)


def _total(pod: Pod, amounts: Amounts, resource: str) -> Fraction:
    """Return the sum of containers and sidecars, or the largest init container beside the sidecars before it."""

    def of(container: Container) -> Fraction:
        found = amounts(container).get(resource)
        return Fraction(0) if found is None else parse_quantity(found)

    sidecars, largest = Fraction(0), Fraction(0)
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            sidecars += of(container)
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + of(container))
    running = sum(map(of, pod.spec.containers), sidecars)
    overhead = pod.spec.overhead.get(resource)
    return max(running, largest) + (parse_quantity(overhead) if overhead is not None else 0)


def _used(quota: ResourceQuota, name: str, cluster: Cluster) -> Fraction:
    """Return the quota's status, or else the requests of the namespace's pods."""
    if name in quota.status.used:
        return parse_quantity(quota.status.used[name])
    pods: Iterable[Pod] = (*cluster.pods, *cluster.pending)
    mine = (pod for pod in pods if pod.namespace == quota.namespace and not pod.is_finished and _applies(quota, pod))
    return sum((usage(pod, name) or Fraction(0) for pod in mine), Fraction(0))


def _applies(quota: ResourceQuota, pod: Pod) -> bool:
    """Report whether the pod is in all scopes of the quota."""
    selector = quota.spec.scope_selector
    wanted = [(scope, "Exists", list[str]()) for scope in quota.spec.scopes]
    wanted += [
        (each.scope_name, each.operator, each.values) for each in (selector.match_expressions if selector else ())
    ]
    return all(_in_scope(pod, *each) for each in wanted)


def _in_scope(pod: Pod, scope: str, operator: str, values: list[str]) -> bool:
    if scope == "PriorityClass":
        name = pod.spec.priority_class_name
        match operator:
            case "In":
                return name in values
            case "NotIn":
                return name not in values
            case "DoesNotExist":
                return not name
            case _:
                return bool(name)
    is_best_effort = not any(
        each.resources.requests or each.resources.limits for each in (*pod.spec.containers, *pod.spec.init_containers)
    )
    # Deadlines of pods are not read: few have one. An unknown scope never rejects.
    known = {"BestEffort": is_best_effort, "NotBestEffort": not is_best_effort, "NotTerminating": True}
    return known.get(scope, False)
