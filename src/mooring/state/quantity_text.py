"""Amounts of resources as people write them. CPU is counted in thousandths, as in the columns."""

from __future__ import annotations

from mooring.state.requests import CPU

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
    """A lack rounded up to what a person would type: whole Mi for bytes."""
    if is_bytes(resource) and amount > 1 << 20:
        return -(-amount // (1 << 20)) * (1 << 20)
    return amount
