"""Utilisation of nodes by zone and resource, and free capacity that a typical pod cannot use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from mooring.api.core import Node, Pod
from mooring.api.errors import ParseError
from mooring.api.well_known import BETA_ZONE, ZONE
from mooring.core.state.requests import is_tracked, parse_amounts, pod_requests, rounded, rounded_requests

# --------------------------------------------------------------------------------------------------------------------
# Amounts over time: their value now, and their exact mean over any span, at the cost of one multiplication a
# change.
#
# The integral of a step function up to ``t`` is ``value * t`` minus the sum of each change times the time at which it
# happened. So only that sum has to be kept.

Moment: TypeAlias = tuple[list[float], list[float]]
"""The values of some gauges, and their sums of changes times their times."""


@dataclass(slots=True)
class Gauges:
    """Step functions of time, by index. Changes are in order of time, in seconds from the start."""

    values: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)  # the sum of change * time

    def add(self, index: int, change: float, at_s: float) -> None:
        self.values[index] += change
        self.moments[index] += change * at_s

    def grow(self, size: int) -> None:
        """Grow to this size; new entries are 0."""
        more = size - len(self.values)
        if more > 0:
            self.values.extend([0.0] * more)
            self.moments.extend([0.0] * more)

    def snapshot(self) -> Moment:
        return self.values.copy(), self.moments.copy()


def integral(moment: Moment, index: int, at_s: float) -> float:
    """Return the integral of a gauge from 0 to ``at_s``, without changes since the moment."""
    values, moments = moment
    return values[index] * at_s - moments[index] if index < len(values) else 0.0


# --------------------------------------------------------------------------------------------------------------------
# Requests of pods, each distinct combination once, with the number of pods: the typical pods.

MOST_TYPICAL = 64
COVERAGE = 0.95
MOST_SHAPES = 20_000
_MOST_KEPT = 8192


class Resources:
    """Known resources, by index. ``pods`` is one of them: every pod requests one."""

    def __init__(self) -> None:
        self.names = ["cpu", "memory", "pods"]
        self._index = {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        found = self._index.get(name)
        if found is None:
            found = self._index[name] = len(self.names)
            self.names.append(name)
        return found


@dataclass(eq=False, slots=True)
class Shape:
    """Amounts as pairs of a resource's index and a number, in order of the index."""

    amounts: tuple[tuple[int, int], ...]
    count: int = 0  # number of arrived pods of this shape


class Shapes:
    """Finds the shape of a pod. Copies of a pod share their lists of containers, which are cached by identity."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._by_amounts: dict[tuple[tuple[int, int], ...], Shape] = {}
        self._by_list: dict[int, tuple[object, object, object, object, Shape]] = {}
        self._asked: set[int] = set()
        self.seen = 0

    def of(self, pod: Pod) -> Shape:
        """Return the shape of an arriving pod, and count it."""
        self.seen += 1
        shape = self.now(pod)
        shape.count += 1
        return shape

    def now(self, pod: Pod) -> Shape:
        """Return the current shape of a pod, which may have been resized since it arrived."""
        spec = pod.spec
        kept = self._by_list.get(id(spec.containers))
        if (
            kept is not None
            and kept[0] is spec.containers  # the lists are held here, so an id cannot be reused
            and kept[1] is spec.init_containers
            and kept[2] is spec.overhead
            and kept[3] is spec.resources
        ):
            return kept[4]
        shape = self._find(pod)
        if len(self._by_list) >= _MOST_KEPT:
            self._by_list.clear()
        self._by_list[id(spec.containers)] = (
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            shape,
        )
        return shape

    def _find(self, pod: Pod) -> Shape:
        index = self._resources.index
        try:
            asked = rounded_requests(pod_requests(pod, use_status=False))
        except ParseError:
            asked = {}  # the scheduler reports an invalid quantity; nothing can be counted
        amounts = tuple(sorted([(index("pods"), 1), *((index(name), each) for name, each in asked.items() if each)]))
        shape = self._by_amounts.get(amounts)
        if shape is None:
            shape = Shape(amounts)
            self._asked.update(i for i, _ in amounts)
            if len(self._by_amounts) < MOST_SHAPES:
                self._by_amounts[amounts] = shape
        return shape

    def has_asked_for(self, resource: int) -> bool:
        """Report whether any pod requested a resource."""
        return resource in self._asked

    def typical(self) -> list[tuple[Shape, float]]:
        """Return the most frequent shapes that make up 95 % of all pods (64 at most), with their shares."""
        by_count = sorted(self._by_amounts.values(), key=lambda shape: (-shape.count, shape.amounts))
        taken: list[Shape] = []
        covered = 0
        for shape in by_count[:MOST_TYPICAL]:
            taken.append(shape)
            covered += shape.count
            if covered >= COVERAGE * self.seen:
                break
        return [(shape, shape.count / covered) for shape in taken] if covered else []


NO_ZONE = ""
SOME = 8  # fragmentation is recomputed when this fraction of nodes has changed
PRICE = "mooring/price-per-hour"
"""A label or an annotation of a node: its price per hour."""


@dataclass(eq=False, slots=True)
class Zone:
    """Totals of the nodes in a zone, by resource."""

    name: str
    used: Gauges = field(default_factory=Gauges)
    allocatable: Gauges = field(default_factory=Gauges)


@dataclass(eq=False, slots=True)
class NodeUse:
    """A node: its capacity and free amounts, by resource. Both lists have the same length."""

    row: int  # in the table of what is stranded
    zone: Zone
    allocatable: list[int]
    free: list[int]  # below 0 if its pods request more than it has
    price: float = 0.0
    is_there: bool = False  # false for one known only from pods
    pods: int = 0
    seen: object = None  # the source of these figures

    def widen(self, size: int) -> None:
        """Grow to this many resources."""
        more = [0] * (size - len(self.free))
        self.free += more
        self.allocatable += more


class Nodes:
    """All nodes and zones of a cluster, updated by events."""

    def __init__(self, resources: Resources, shapes: Shapes) -> None:
        self._resources, self._shapes = resources, shapes
        self._nodes: dict[str, NodeUse] = {}
        self.zones: dict[str, Zone] = {}
        self.counts = Gauges([0.0] * 3, [0.0] * 3)  # nodes, nodes with pods, price in an hour
        self._changed: set[NodeUse] = set()
        self._typical_of = 0  # number of pods when the typical ones were chosen
        self._wanted = np.zeros((0, 0))
        self._shares = np.zeros(0)
        # [node, resource]: free amounts, times the share of typical pods that do not fit on the node
        self._stranded = np.zeros((0, len(resources.names)))
        self._free_rows: list[int] = []
        self._num_rows = 0

    # ---- nodes come, change and go -------------------------------------------------------------------------------

    def put(self, node: Node, at_s: float) -> None:
        name = node.name
        use = self._nodes.get(name)
        seen = (node.labels, node.metadata.annotations, node.status.allocatable)
        if use is not None and use.seen == seen:
            return  # a heartbeat, or another irrelevant change
        zone = self._zone(_zone_of(node))
        if use is None:
            use = self._new(name, zone)
        elif use.zone is not zone:
            self._count_in_zone(use, -1, at_s)
            use.zone = zone
            self._count_in_zone(use, 1, at_s)
        use.seen = seen
        self._resize(use, self._amounts(node), at_s)
        if not use.is_there:
            use.is_there = True
            self.counts.add(0, 1, at_s)
            if use.pods:
                self.counts.add(1, 1, at_s)
        price = _price(node)
        if price != use.price:
            self.counts.add(2, price - use.price, at_s)
            use.price = price
        self._changed.add(use)

    def remove(self, name: str, at_s: float) -> None:
        use = self._nodes.get(name)
        if use is None or not use.is_there:
            return
        self._resize(use, [], at_s)
        self.counts.add(0, -1, at_s)
        if use.pods:
            self.counts.add(1, -1, at_s)
        self.counts.add(2, -use.price, at_s)
        use.is_there, use.price, use.seen = False, 0.0, None
        self._changed.add(use)
        if not use.pods:
            self._forget(name, use)

    def _new(self, name: str, zone: Zone) -> NodeUse:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row, self._num_rows = self._num_rows, self._num_rows + 1
        use = self._nodes[name] = NodeUse(row, zone, [], [])
        return use

    def _forget(self, name: str, use: NodeUse) -> None:
        del self._nodes[name]
        self._changed.discard(use)
        if use.row < len(self._stranded):
            self._stranded[use.row] = 0.0
        self._free_rows.append(use.row)

    def _resize(self, use: NodeUse, amounts: list[int], at_s: float) -> None:
        size = len(self._resources.names)
        use.widen(size)
        gauges = use.zone.allocatable
        gauges.grow(size)
        amounts = amounts + [0] * (size - len(amounts))
        for i, (old, new) in enumerate(zip(use.allocatable, amounts, strict=True)):
            if new != old:
                gauges.add(i, new - old, at_s)
                use.free[i] += new - old
        use.allocatable = amounts

    def _amounts(self, node: Node) -> list[int]:
        amounts = [0] * len(self._resources.names)
        for name, text in node.status.allocatable.items():
            amount = _amount(name, text)
            if amount is not None:
                index = self._resources.index(name)
                amounts += [0] * (index + 1 - len(amounts))
                amounts[index] = amount
        return amounts

    def _zone(self, name: str) -> Zone:
        found = self.zones.get(name)
        if found is None:
            found = self.zones[name] = Zone(name)
        return found

    @staticmethod
    def _count_in_zone(use: NodeUse, sign: int, at_s: float) -> None:
        used = [has - left for has, left in zip(use.allocatable, use.free, strict=True)]
        for gauges, amounts in ((use.zone.used, used), (use.zone.allocatable, use.allocatable)):
            gauges.grow(len(amounts))
            for i, amount in enumerate(amounts):
                if amount:
                    gauges.add(i, sign * amount, at_s)

    # ---- pods come and go ----------------------------------------------------------------------------------------

    def place(self, name: str, amounts: tuple[tuple[int, int], ...], at_s: float) -> NodeUse:
        """Count a pod on a node."""
        use = self._nodes.get(name)
        if use is None:
            use = self._new(name, self._zone(NO_ZONE))
        use.pods += 1
        if use.pods == 1 and use.is_there:
            self.counts.add(1, 1, at_s)
        free, zone = self._room(use, amounts)
        values, moments = zone.values, zone.moments
        for i, amount in amounts:
            free[i] -= amount
            values[i] += amount
            moments[i] += amount * at_s
        self._changed.add(use)
        return use

    def release(self, name: str, use: NodeUse, amounts: tuple[tuple[int, int], ...], at_s: float) -> None:
        """Stop counting a pod on the node."""
        use.pods -= 1
        free, zone = self._room(use, amounts)
        values, moments = zone.values, zone.moments
        for i, amount in amounts:
            free[i] += amount
            values[i] -= amount
            moments[i] -= amount * at_s
        self._changed.add(use)
        if not use.pods:
            if use.is_there:
                self.counts.add(1, -1, at_s)
            else:
                self._forget(name, use)

    @staticmethod
    def _room(use: NodeUse, amounts: tuple[tuple[int, int], ...]) -> tuple[list[int], Gauges]:
        """Return what is free on a node and used in its zone, extended to these resources."""
        free, zone = use.free, use.zone.used
        last = amounts[-1][0] + 1
        if len(free) < last:
            use.widen(last)
        if len(zone.values) < last:
            zone.grow(last)
        return free, zone

    # ---- fragmentation -------------------------------------------------------------------------------------------

    def stranded(self, *, is_last: bool = False) -> list[float]:
        """Return, by resource, the free amount that a typical pod cannot use, averaged over the typical pods.

        On a node where a typical pod does not fit, free capacity is of no use to it. Only requests count, not taints or
        affinity. Only changed nodes are recomputed, once there are enough of them. The typical pods are chosen again
        when twice as many pods have arrived.
        """
        if self._shapes.seen >= 2 * self._typical_of or (is_last and self._shapes.seen != self._typical_of):
            self._take_typical()
        if len(self._shares) and self._changed and (is_last or SOME * len(self._changed) >= len(self._nodes)):
            changed, self._changed = self._changed, set()
            self._count(changed)
        total: list[float] = self._stranded.sum(axis=0).tolist()
        return total

    def _take_typical(self) -> None:
        typical = self._shapes.typical()
        self._typical_of = self._shapes.seen
        self._wanted = np.zeros((len(typical), len(self._resources.names)))
        for row, (shape, _) in enumerate(typical):
            for i, amount in shape.amounts:
                self._wanted[row, i] = amount
        self._shares = np.array([share for _, share in typical])
        self._changed.update(self._nodes.values())

    def _count(self, changed: Iterable[NodeUse]) -> None:
        size = len(self._resources.names)
        uses = list(changed)
        highest = max(use.row for use in uses)
        rows, columns = self._stranded.shape
        if highest >= rows or size > columns:
            more = max(highest + 1 - rows, rows, 16) if highest >= rows else 0
            self._stranded = np.pad(self._stranded, ((0, more), (0, size - columns)))
        for use in uses:
            if len(use.free) < size:
                use.widen(size)
        free = np.array([use.free for use in uses], np.float64)
        wanted = self._wanted
        # a resource that appeared after the typical pods were chosen, which do not request it
        if wanted.shape[1] < size:
            wanted = self._wanted = np.pad(wanted, ((0, 0), (0, size - wanted.shape[1])))
        fits = (free[:, None, :] >= wanted).all(axis=2)  # [node, typical pod]
        self._stranded[[use.row for use in uses]] = np.maximum(free, 0.0) * (~fits @ self._shares)[:, None]


@lru_cache(maxsize=1024)
def _amount(name: str, text: str) -> int | None:
    """Return a node's amount of a resource; None if it is not counted. Most nodes have the same."""
    try:
        (amount,) = parse_amounts({name: text}, "").values()
    except ParseError:
        return None
    return max(0, rounded(name, amount)) if name == "pods" or is_tracked(name) else None


def _zone_of(node: Node) -> str:
    return node.labels.get(ZONE) or node.labels.get(BETA_ZONE) or NO_ZONE


def _price(node: Node) -> float:
    text = node.metadata.annotations.get(PRICE) or node.labels.get(PRICE) or ""
    try:
        price = float(text) if text else 0.0
    except ValueError:
        return 0.0
    return price if 0 <= price < 1e12 else 0.0
