"""Node groups that are scaled by themselves: how large they may be, how long a node takes, and what it costs."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.errors import InputError
from mooring.controlplane.types.kind import Object
from mooring.sim.objects import node
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts, whole_number

PRICE = "mooring/price-per-hour"
_FIELDS = {"name", "min", "max", "delay", "idle", "price", "cpu", "memory", "pods", "capacity", "labels", "taints",
           "zones"}  # fmt: skip
MAX_PRICE = 10**9
DEFAULT_DELAY_S, DEFAULT_IDLE_S = 120.0, 600.0


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes of one kind. One is added ``delay_s`` after pending pods were seen, and removed after ``idle_s`` empty."""

    name: str
    least: int
    most: int
    delay_s: float
    idle_s: float
    price: float  # per node and hour
    shape: dict[str, Any]
    zones: tuple[str, ...]

    @staticmethod
    def read(value: Any) -> NodeGroup:
        """What a step says."""
        fields = fields_of(value, _FIELDS, required=("name", "max"))
        least = whole_number(fields.get("min", 0), "min", most=100_000)
        most = whole_number(fields["max"], "max", most=100_000)
        if most < least:
            raise InputError(f"max: expected at least min, which is {least}, found {most}")
        price = fields.get("price", 0)
        if not isinstance(price, int | float) or isinstance(price, bool) or not 0 <= price < MAX_PRICE:
            raise InputError(
                f"price: expected what a node costs in an hour, below {MAX_PRICE:,}, found {described(price)}"
            )
        shape: dict[str, Any] = {name: str(fields[name]) for name in ("cpu", "memory", "pods") if name in fields}
        for name in ("capacity", "labels"):
            shape[name] = {key: str(each) for key, each in mapping(fields.get(name), name).items()}
        shape["taints"] = texts(fields.get("taints", []), "taints")
        group = NodeGroup(
            str(fields["name"]),
            least,
            most,
            seconds(fields.get("delay", DEFAULT_DELAY_S)),
            seconds(fields.get("idle", DEFAULT_IDLE_S)),
            float(price),
            shape,
            tuple(texts(fields.get("zones", []), "zones")),
        )
        group.node(1)  # a taint that cannot be read is found now
        return group

    def node(self, number: int) -> Object:
        """The manifest of a node of the group."""
        zone = self.zones[(number - 1) % len(self.zones)] if self.zones else ""
        made = node(f"{self.name}-{number}", zone=zone, **self.shape)
        if self.price:
            labels = made["metadata"].setdefault("labels", {})  # records keep labels, and not every annotation
            labels[PRICE] = f"{self.price:.6f}".rstrip("0").rstrip(".")
        return made
