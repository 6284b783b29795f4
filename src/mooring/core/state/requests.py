"""Requests of a pod: the sum over its containers, exact, rounded up once at the end; and amounts as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from mooring.api.core import Container, ContainerStatus, Pod, ResourceList
from mooring.api.errors import ParseError
from mooring.api.quantity import MILLI, NANO, WHOLE, as_int64, ceil_milli, nano_value_of, parse_quantity

Amounts = dict[str, int]  # in billionths: exact, rounded only at the end

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DEFAULT_CPU = NANO // 10  # scoring's default for containers without a request
DEFAULT_MEMORY = 200 * 1024 * 1024 * NANO
NON_ZERO: Amounts = {CPU: DEFAULT_CPU, MEMORY: DEFAULT_MEMORY}


def is_extended_name(name: str) -> bool:
    """Report whether a name is an extended resource: qualified and outside Kubernetes' own domains."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_scalar_name(name: str) -> bool:
    """Report whether a resource is counted by name beside cpu, memory and ephemeral storage."""
    return is_extended_name(name) or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name


def is_tracked(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar_name(name)


def rounded(name: str, amount: int) -> int:
    """Round up: CPU to thousandths, everything else to whole units; see ``as_int64`` for overflow."""
    return as_int64(amount, MILLI if name == CPU else WHOLE)


def milli(amount: int) -> int:
    """Round up to thousandths, in which changes of any resource are compared."""
    return -(-amount // (NANO // 1000))


def is_pod_level_name(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def parse_amounts(quantities: Mapping[str, str | int | float], where: str) -> Amounts:
    amounts: Amounts = {}
    for name, text in quantities.items():
        try:
            amounts[name] = nano_value_of(text)
        except ParseError as error:
            raise ParseError(f"{where}[{name}]: {error}") from None
    return amounts


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def held_together(containers: Iterable[Amounts], init_containers: Iterable[tuple[bool, Amounts]]) -> Amounts:
    """Return what containers hold together. Regular ones and sidecars add up; other init containers only raise the
    minimum.

    Init containers are pairs of (is sidecar, amounts), in the order in which they start.
    """
    total: Amounts = {}
    for amounts in containers:
        _add(total, amounts)
    sidecars: Amounts = {}
    floor: Amounts = {}
    for is_sidecar, amounts in init_containers:
        if is_sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise_to(floor, sidecars)
        else:
            _raise_to(floor, {name: amounts.get(name, 0) + sidecars.get(name, 0) for name in amounts | sidecars})
    _raise_to(total, floor)
    return total


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _effective(pod: Pod, spec: ResourceList, actuated: ResourceList, allocated: ResourceList, where: str) -> Amounts:
    """Return the largest of a resized pod's requested, allocated and actual resources."""
    total = {} if _is_resize_infeasible(pod) else parse_amounts(spec, where)
    _raise_to(total, parse_amounts(actuated, where))
    _raise_to(total, parse_amounts(allocated, where))
    return total


def _container_requests(
    pod: Pod, container: Container, status: ContainerStatus | None, non_missing: Amounts, where: str
) -> Amounts:
    where = f"{where}.resources.requests"
    requests = container.resources.requests
    if status is not None and status.resources is not None:
        amounts = _effective(pod, requests, status.resources.requests, status.allocated_resources, where)
    else:
        amounts = parse_amounts(requests, where)
    for name, default in non_missing.items():
        amounts.setdefault(name, default)
    return amounts


def _by_name(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses}


def container_requests(pod: Pod, non_missing: Amounts, *, use_status: bool) -> Amounts:
    """Return the total requests of a pod's containers."""
    statuses: dict[str, ContainerStatus] = {}
    if use_status:
        statuses = _by_name(pod.status.container_statuses) | _by_name(pod.status.init_container_statuses)
    regular = (
        _container_requests(pod, container, statuses.get(container.name), non_missing, f"spec.containers[{i}]")
        for i, container in enumerate(pod.spec.containers)
    )
    return held_together(regular, _init_requests(pod, statuses, non_missing))


def _init_requests(
    pod: Pod, statuses: Mapping[str, ContainerStatus], non_missing: Amounts
) -> Iterator[tuple[bool, Amounts]]:
    for i, container in enumerate(pod.spec.init_containers):
        sidecar = is_sidecar(container)
        status = statuses.get(container.name) if sidecar else None
        yield sidecar, _container_requests(pod, container, status, non_missing, f"spec.initContainers[{i}]")


def resized_requests(pod: Pod, non_missing: Amounts) -> Amounts:
    """Return what the containers hold during a resize, since 1.37: the largest of three sums.

    Requested, allocated and actual resources are each summed over the whole pod. Where the pod's own status has the
    last two, those count. An infeasible resize does not count its requests.
    """
    is_infeasible = _is_resize_infeasible(pod)
    status = pod.status
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        total = parse_amounts(status.allocated_resources, "status.allocatedResources")
        _raise_to(total, parse_amounts(status.resources.requests, "status.resources.requests"))
    else:
        total = _sum_by_status(pod, non_missing, is_infeasible, actuated=False)
        _raise_to(total, _sum_by_status(pod, non_missing, is_infeasible, actuated=True))
    if not is_infeasible:
        _raise_to(total, container_requests(pod, non_missing, use_status=False))
    return total


def _sum_by_status(pod: Pod, non_missing: Amounts, is_infeasible: bool, *, actuated: bool) -> Amounts:
    statuses = _by_name(pod.status.container_statuses) | _by_name(pod.status.init_container_statuses)

    def held(container: Container, where: str) -> Amounts:
        status = statuses.get(container.name)
        found: ResourceList = {} if is_infeasible else container.resources.requests
        if status is not None and status.allocated_resources:
            found = status.allocated_resources
        if actuated and status is not None and status.resources is not None and status.resources.requests:
            found = status.resources.requests
        amounts = parse_amounts(found, f"{where}.resources.requests")
        for name, default in non_missing.items():
            amounts.setdefault(name, default)
        return amounts

    regular = (held(container, f"spec.containers[{i}]") for i, container in enumerate(pod.spec.containers))
    starting = (
        (is_sidecar(container), held(container, f"spec.initContainers[{i}]"))
        for i, container in enumerate(pod.spec.init_containers)
    )
    return held_together(regular, starting)


def has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level_name(name) for name in resources.requests)


def pod_requests(
    pod: Pod,
    non_missing: Amounts | None = None,
    *,
    use_status: bool = True,
    pod_level: bool = True,
    whole_resizes: bool = False,
) -> Amounts:
    """Return the pod's total requests, including overhead; resources without a request are absent.

    ``whole_resizes``: while it is being resized, the pod counts as a whole (since 1.37), not container by container.
    """
    if use_status and whole_resizes:
        total = resized_requests(pod, non_missing or {})
    else:
        total = container_requests(pod, non_missing or {}, use_status=use_status)
    resources = pod.spec.resources
    if pod_level and resources is not None and has_pod_level_requests(pod):
        where = "spec.resources.requests"
        wanted = parse_amounts(resources.requests, where)
        status = pod.status.resources
        if use_status and status is not None:
            effective = _effective(pod, resources.requests, status.requests, pod.status.allocated_resources, where)
            wanted = effective if whole_resizes else {name: effective.get(name, 0) for name in wanted}
        total.update((name, amount) for name, amount in wanted.items() if is_pod_level_name(name))
    _add(total, parse_amounts(pod.spec.overhead, "spec.overhead"))
    return total


def non_zero_requests(pod: Pod, requests: Amounts, *, whole_resizes: bool = False) -> tuple[int, int]:
    """Return (cpu in thousandths, memory in bytes) with defaults for containers without a request.

    With pod-level requests a default applies only if the whole pod has no request.
    """
    non_missing = NON_ZERO
    if has_pod_level_requests(pod):
        non_missing = {name: amount for name, amount in NON_ZERO.items() if name not in requests}
    total = pod_requests(pod, non_missing, whole_resizes=whole_resizes) if non_missing else requests
    return rounded(CPU, total.get(CPU, 0)), rounded(MEMORY, total.get(MEMORY, 0))


def rounded_requests(amounts: Amounts) -> dict[str, int]:
    """Return integers for the resources that nodes are checked for."""
    return {name: rounded(name, amount) for name, amount in amounts.items() if is_tracked(name)}


# ---- amounts of resources as text. CPU is counted in thousandths, as in the columns
# ------------------------------------

_BYTES = ("memory", "ephemeral-storage")
_BINARY = ((1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def is_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def written(resource: str, amount: int) -> str:
    """Format an amount: ``200m``, ``1.5Gi``, ``3``: exact, in the largest unit that needs at most two decimals."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if is_bytes(resource):
        for size, suffix in _BINARY:
            if abs(amount) >= size and (amount * 100) % size == 0:
                return f"{amount / size:.2f}".rstrip("0").rstrip(".") + suffix
    return str(amount)


def display_name(resource: str) -> str:
    return "CPU" if resource == CPU else resource


def rounded_up(resource: str, amount: int) -> int:
    """Round a shortfall up to an amount that people would type: whole Mi for bytes."""
    if is_bytes(resource) and amount > 1 << 20:
        return -(-amount // (1 << 20)) * (1 << 20)
    return amount


# ---- reduction of a pod's requests
# -------------------------------------------------------------------------------------


def ask_for(pod: Pod, resource: str, target: int) -> None:
    """Limit the pod's total requests to this (cpu in thousandths); the largest request is reduced first."""
    goal = Fraction(target, 1000) if resource == CPU else Fraction(target)
    goal -= _amount(pod.spec.overhead, resource)
    goal = max(goal, Fraction(0))
    level = pod.spec.resources
    if level is not None and resource in level.requests and is_pod_level_name(resource):
        _set(level.requests, resource, goal)
        return
    sidecars = [c for c in pod.spec.init_containers if is_sidecar(c)]
    running = [*pod.spec.containers, *sidecars]
    surplus = sum((_amount(c.resources.requests, resource) for c in running), Fraction(0)) - goal
    for container in sorted(running, key=lambda c: -_amount(c.resources.requests, resource)):
        if surplus <= 0:
            break
        have = _amount(container.resources.requests, resource)
        cut = min(have, surplus)
        surplus -= cut
        _set(container.resources.requests, resource, have - cut)
    _cap_init_containers(pod.spec.init_containers, resource, goal)


def _cap_init_containers(containers: list[Container], resource: str, goal: Fraction) -> None:
    """Limit init containers. Each runs beside the sidecars before it; together they must stay within the goal."""
    before = Fraction(0)
    for container in containers:
        have = _amount(container.resources.requests, resource)
        if is_sidecar(container):
            before += have
        elif have + before > goal:
            _set(container.resources.requests, resource, max(goal - before, Fraction(0)))


def _amount(amounts: dict[str, str | int | float], resource: str) -> Fraction:
    return parse_quantity(amounts[resource]) if resource in amounts else Fraction(0)


def _set(amounts: dict[str, str | int | float], resource: str, amount: Fraction) -> None:
    if amount:
        amounts[resource] = written(resource, ceil_milli(amount)) if resource == CPU else str(int(amount))
    else:
        amounts.pop(resource, None)
