"""The cloud of a simulation: its offerings and prices, launch delays, failures and interruptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mooring.api.core import Node, NodeSpec, NodeStatus, Taint
from mooring.api.errors import InputError, ParseError
from mooring.api.meta import ObjectMeta
from mooring.api.quantity import parse_quantity
from mooring.api.well_known import HOSTNAME, INSTANCE_TYPE, ZONE
from mooring.core.state.requests import PODS, parse_amounts, rounded
from mooring.record.node_measures import PRICE
from mooring.sim.catalogue import ARCHITECTURE, CAPACITY_TYPE, ON_DEMAND, SPOT, Catalogue
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts, truth
from mooring.sim.workload import Draw, draw_time

OS = "kubernetes.io/os"
DEFAULT_DELAY_S, DEFAULT_NOTICE_S = 60.0, 120.0
_FIELDS = {"delay", "startup", "failures", "interruptions", "notice", "quota", "zones"}


@dataclass(frozen=True, eq=False)
class Offering:
    """A kind of node that the cloud offers: a type in a zone, on demand or as spot."""

    type: str
    zone: str
    capacity_type: str
    price: float  # per hour
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    interruptions_per_hour: float = 0.0

    @cached_property
    def amounts(self) -> dict[str, int]:
        """Return its amounts in the units of a pod's requests."""
        return {name: rounded(name, amount) for name, amount in parse_amounts(self.allocatable, self.type).items()}

    @cached_property
    def group(self) -> tuple[str, ...]:
        """Return what the first pod of a planned node fixes: zone, architecture and the user's own labels."""
        own = sorted(f"{key}={value}" for key, value in self.labels.items() if not has_known_labels(key))
        return self.zone, self.labels.get(ARCHITECTURE, ""), *own

    def with_labels(self, labels: Mapping[str, str]) -> Offering:
        """Return the same offering with more labels."""
        return Offering(
            self.type,
            self.zone,
            self.capacity_type,
            self.price,
            self.allocatable,
            {**self.labels, **labels},
            self.interruptions_per_hour,
        )

    def holds(self, requests: Mapping[str, int]) -> bool:
        """Report whether a node has these amounts."""
        amounts = self.amounts
        return all(amount <= amounts.get(name, 0) for name, amount in requests.items() if amount)

    def node(self, name: str, taints: Sequence[Taint] = ()) -> Node:
        """Return a node of this offering as it registers."""
        labels = {HOSTNAME: name, **self.labels}
        if self.price:
            labels[PRICE] = f"{self.price:.6f}".rstrip("0").rstrip(".")  # records keep labels, not every annotation
        status = NodeStatus(allocatable=dict(self.allocatable), capacity=dict(self.allocatable))
        return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(taints=list(taints)), status=status)


def offerings_of(catalogue: Catalogue, zones: Iterable[str]) -> list[Offering]:
    """Return everything that a catalogue offers; a type without a zone is available in each of these."""
    everywhere = sorted(set(zones) | {row.zone for row in catalogue if row.zone}) or [""]
    found: list[Offering] = []
    for row in catalogue:
        for zone in [row.zone] if row.zone else everywhere:
            if not row.zone and catalogue.find(row.type, zone) is not row:
                continue  # this zone has a row of its own
            for capacity_type in (ON_DEMAND, SPOT):
                price = row.price_as(capacity_type)
                if price is None:
                    continue
                labels = {OS: "linux", **row.labels(zone, capacity_type), **_named_after(row.type)}
                rate = row.interruptions_per_hour if capacity_type == SPOT else 0.0
                found.append(Offering(row.type, zone, capacity_type, price, row.allocatable, labels, rate))
    return found


_AWS = re.compile(r"(([a-z]+)(\d+)[a-z0-9-]*)\.([a-z0-9-]+)")
_AWS_PREFIX = "karpenter.k8s.aws/instance-"


def _named_after(type_name: str) -> dict[str, str]:
    """Return the labels that follow from the name of an AWS type, as NodePools use them."""
    match = _AWS.fullmatch(type_name)
    if match is None:
        return {}
    names = ("family", "category", "generation", "size")
    return {f"{_AWS_PREFIX}{name}": value for name, value in zip(names, match.groups(), strict=True)}


def has_known_labels(key: str) -> bool:
    """Report whether offerings carry a label of their own for this key; all others are the user's."""
    return key in (INSTANCE_TYPE, ZONE, ARCHITECTURE, OS, CAPACITY_TYPE) or key.startswith(_AWS_PREFIX)


@dataclass(frozen=True)
class Cloud:
    """The cloud's behaviour. Its random numbers come from the seed of the simulation."""

    delay: Draw = lambda chance: DEFAULT_DELAY_S
    startup_s: float = 0.0  # until startup taints are removed
    failures: float = 0.0  # the share of launches that fail for lack of capacity
    interrupts: bool = True  # spot nodes, as often as the catalogue says
    notice_s: float = DEFAULT_NOTICE_S  # between an interruption's notice and the removal of the node
    quota: Mapping[str, int] = field(default_factory=dict)  # by resource, by type, or nodes
    zones: tuple[str, ...] = ()

    @staticmethod
    def read(value: Any) -> Cloud:
        """Read ``cloud`` of a step or a policy."""
        if value is None:
            return Cloud()
        fields = fields_of(value, _FIELDS)
        return Cloud(
            draw_time(fields.get("delay", DEFAULT_DELAY_S), "delay"),
            seconds(fields.get("startup", 0), "startup"),
            share(fields.get("failures", 0), "failures"),
            truth(fields.get("interruptions", True), "interruptions"),
            seconds(fields.get("notice", DEFAULT_NOTICE_S), "notice"),
            amounts_of(mapping(fields.get("quota"), "quota"), "quota"),
            tuple(texts(fields.get("zones", []), "zones")),
        )


def share(value: Any, name: str) -> float:
    """Read a share from 0 to 1, which may be written as 5 %."""
    text = str(value).replace(" ", "")
    try:
        found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        found = -1.0
    if isinstance(value, bool) or not 0 <= found <= 1:
        raise InputError(f"{name}: expected a share such as 0.05 or 5%, found {described(value)}")
    return found


def amounts_of(quantities: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return quantities in the units of a pod's requests; names that are not resources are plain numbers."""
    found: dict[str, int] = {}
    for name, value in quantities.items():
        try:
            parse_quantity(str(value))
            amount = parse_amounts({name: str(value)}, where)[name]
        except ParseError:
            raise InputError(f"{where}.{name}: expected a quantity, found {described(value)}") from None
        found[name] = rounded(name, amount)
    return found


def taint_of(value: Any) -> Taint:
    """Return a taint in its API form."""
    fields = fields_of(value, {"key", "value", "effect"}, required=("key", "effect"))
    return Taint(key=str(fields["key"]), value=str(fields.get("value") or ""), effect=str(fields["effect"]))


def plain_taint(taint: Taint) -> dict[str, str]:
    """Return a taint as in a manifest."""
    return {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}


NODES = "nodes"


def usage_of(offering: Offering) -> dict[str, int]:
    """Return what a node counts against quotas and limits."""
    used = {name: amount for name, amount in offering.amounts.items() if name != PODS}
    return {**used, NODES: 1, offering.type: 1}
