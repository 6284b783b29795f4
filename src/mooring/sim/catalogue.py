"""What nodes cost: a catalogue of instance types with prices on demand and spot, as CSV or JSON.

A row is a type in a zone; an empty zone means every zone. Quantities are Kubernetes' quantities. ``cpu`` and ``memory``
are what pods can use.

    type,cpu,memory,gpus,architecture,zone,price,spotPrice,interruptionsPerHour
    general-4,4,16Gi,0,amd64,north,0.20,0.07,0.01
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.errors import InputError
from mooring.api.manifests import read_bytes
from mooring.api.quantity import parse_quantity
from mooring.api.text import hint
from mooring.api.well_known import INSTANCE_TYPE, ZONE

GPU = "nvidia.com/gpu"
ARCHITECTURE = "kubernetes.io/arch"
CAPACITY_TYPE = "karpenter.sh/capacity-type"  # what Karpenter calls it; ON_DEMAND or SPOT
ON_DEMAND, SPOT = "on-demand", "spot"
MAX_PRICE = 10**9


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A type of node in a zone."""

    type: str
    cpu: str
    memory: str
    price: float  # on demand, per hour
    gpus: int = 0
    architecture: str = "amd64"
    zone: str = ""  # empty: every zone
    spot_price: float | None = None  # None: cannot be had as spot
    interruptions_per_hour: float = 0.0  # of a spot node, on average
    pods: int = 110

    def price_as(self, capacity_type: str) -> float | None:
        """The price per hour on demand or spot; None where it cannot be had."""
        return self.spot_price if capacity_type == SPOT else self.price

    @property
    def allocatable(self) -> dict[str, str]:
        """What pods can use of one node."""
        gpus = {GPU: str(self.gpus)} if self.gpus else {}
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **gpus}

    def labels(self, zone: str = "", capacity_type: str = ON_DEMAND) -> dict[str, str]:
        """The well-known labels of a node of this type."""
        at = zone or self.zone
        made = {INSTANCE_TYPE: self.type, ARCHITECTURE: self.architecture, CAPACITY_TYPE: capacity_type}
        return {**made, **({ZONE: at} if at else {})}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Instance types by name and zone."""

    rows: tuple[InstanceType, ...]
    source: str = "catalogue"

    def __iter__(self) -> Iterator[InstanceType]:
        return iter(self.rows)

    def find(self, name: str, zone: str = "") -> InstanceType | None:
        """The row of a type in a zone; a row without a zone holds for all others."""
        mine = [row for row in self.rows if row.type == name]
        exact = next((row for row in mine if row.zone == zone), None)
        return exact or next((row for row in mine if not row.zone), None)

    def price_of(self, labels: Mapping[str, str]) -> float | None:
        """What a node with these labels costs per hour; None if the catalogue does not say."""
        row = self.find(labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""))
        return None if row is None else row.price_as(labels.get(CAPACITY_TYPE, ON_DEMAND))


_COLUMNS = {
    "type": "type",
    "cpu": "cpu",
    "memory": "memory",
    "price": "price",
    "gpus": "gpus",
    "architecture": "architecture",
    "zone": "zone",
    "spotPrice": "spot_price",
    "interruptionsPerHour": "interruptions_per_hour",
    "pods": "pods",
}
_REQUIRED = ("type", "cpu", "memory", "price")


def read_catalogue(given: str | Path | Iterable[Mapping[str, Any]]) -> Catalogue:
    """Read a CSV or JSON file, or rows as dicts with the names of the columns."""
    if not isinstance(given, str | Path):
        return _catalogue(((f"catalogue: row {i}", row) for i, row in enumerate(given, 1)), "catalogue")
    source = str(given)
    try:
        text = read_bytes(Path(given)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{source}: cannot be read as UTF-8; expected CSV or JSON") from None
    return _catalogue(_json(text, source) if text.lstrip().startswith(("[", "{")) else _csv(text, source), source)


def _json(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"{source}: cannot be read as JSON: {error}") from None
    rows = value.get("types") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source}: expected a list of types, or an object with such a list as types")
    yield from ((f"{source}: type {i}", row) for i, row in enumerate(rows, 1))


def _csv(text: str, source: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    lines = csv.DictReader(text.splitlines(), restkey="", strict=True)
    try:
        for row in lines:
            where = f"{source}:{lines.line_num}"
            if "" in row or None in row.values():
                raise InputError(f"{where}: expected {len(lines.fieldnames or ())} columns, as in the first line")
            yield where, {name.strip(): value.strip() for name, value in row.items() if value.strip()}
    except csv.Error as error:
        raise InputError(f"{source}:{lines.line_num}: cannot be read as CSV: {error}") from None


def _catalogue(rows: Iterable[tuple[str, Mapping[str, Any]]], source: str) -> Catalogue:
    found: dict[tuple[str, str], InstanceType] = {}
    for where, row in rows:
        read = _row(where, row)
        if (read.type, read.zone) in found:
            raise InputError(f"{where}: type {read.type} in {read.zone or 'every zone'} occurs twice")
        found[read.type, read.zone] = read
    if not found:
        raise InputError(f"{source}: expected at least one type, with the columns {', '.join(_COLUMNS)}")
    return Catalogue(tuple(found.values()), source)


def _row(where: str, row: Mapping[str, Any]) -> InstanceType:
    for name in row:
        if name not in _COLUMNS:
            raise InputError(f"{where}: column {name!r} is not known; {hint(name, _COLUMNS)}")
    for name in _REQUIRED:
        if row.get(name) in (None, ""):
            raise InputError(f"{where}: {name} is missing")
    spot = row.get("spotPrice")
    return InstanceType(
        type=str(row["type"]),
        cpu=_quantity(where, "cpu", row),
        memory=_quantity(where, "memory", row),
        price=_number(where, "price", row),
        gpus=_whole(where, "gpus", row, 0),
        architecture=str(row.get("architecture") or "amd64"),
        zone=str(row.get("zone") or ""),
        spot_price=None if spot in (None, "") else _number(where, "spotPrice", row),
        interruptions_per_hour=_number(where, "interruptionsPerHour", row),
        pods=_whole(where, "pods", row, 110),
    )


def _quantity(where: str, name: str, row: Mapping[str, Any]) -> str:
    text = str(row[name])
    try:
        amount = parse_quantity(text)
    except ValueError:
        amount = None
    if amount is None or amount <= 0:
        raise InputError(f"{where}: {name}: found {text!r}; expected a quantity above 0, such as 4 or 16Gi")
    return text


def _number(where: str, name: str, row: Mapping[str, Any]) -> float:
    value = row.get(name, 0)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < MAX_PRICE:
        raise InputError(f"{where}: {name}: found {value!r}; expected a number from 0 to below {MAX_PRICE:,}")
    return number


def _whole(where: str, name: str, row: Mapping[str, Any], otherwise: int) -> int:
    if name not in row:
        return otherwise
    number = _number(where, name, row)
    if number != int(number):
        raise InputError(f"{where}: {name}: found {row[name]!r}; expected a whole number")
    return int(number)
