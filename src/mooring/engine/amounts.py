"""Amounts of resources as people write them, and pods that ask for less."""

from __future__ import annotations

from fractions import Fraction

from mooring.api.core import Container, Pod
from mooring.api.quantity import ceil_milli, parse_quantity
from mooring.state.requests import CPU, is_pod_level_name, is_sidecar

_BYTES = ("memory", "ephemeral-storage")
_BINARY = ((1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def is_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def written(resource: str, amount: int) -> str:
    """``200m``, ``1.5Gi``, ``3``: exact, in the largest unit that needs at most two decimals."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if is_bytes(resource):
        for size, suffix in _BINARY:
            if abs(amount) >= size and (amount * 100) % size == 0:
                return f"{amount / size:.2f}".rstrip("0").rstrip(".") + suffix
    return str(amount)


def spoken(resource: str) -> str:
    return "CPU" if resource == CPU else resource


def handy(resource: str, amount: int) -> int:
    """A lack rounded up to what somebody would type: whole Mi for bytes."""
    if is_bytes(resource) and amount > 1 << 20:
        return -(-amount // (1 << 20)) * (1 << 20)
    return amount


def ask_for(pod: Pod, resource: str, target: int) -> None:
    """Make the pod ask for no more than this in total (cpu in thousandths), taking from whoever asks for most."""
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
    """An init container runs beside the sidecars before it; together they must stay within the goal."""
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
