"""Pods that ask for less than they do."""

from __future__ import annotations

from fractions import Fraction

from mooring.api.core import Container, Pod
from mooring.api.quantity import ceil_milli, parse_quantity
from mooring.state.quantity_text import written
from mooring.state.requests import CPU, is_pod_level_name, is_sidecar


def ask_for(pod: Pod, resource: str, target: int) -> None:
    """Make the pod ask for no more than this in total (cpu in thousandths); the largest request is reduced first."""
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
