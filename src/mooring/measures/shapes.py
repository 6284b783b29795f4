"""What pods ask for, each distinct combination once, and how many pods asked for it: the typical pods."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.api.core import Pod
from mooring.errors import ParseError
from mooring.state.requests import pod_requests, rounded_requests

MOST_TYPICAL = 64
COVERAGE = 0.95
MOST_SHAPES = 20_000
_MOST_KEPT = 8192


class Resources:
    """The resources that were seen, by index. ``pods`` is one: every pod asks for one of it."""

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
    count: int = 0  # how many pods of this shape have come


class Shapes:
    """Finds the shape of a pod. Copies of a pod share their lists of containers, and are found by them."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._by_amounts: dict[tuple[tuple[int, int], ...], Shape] = {}
        self._by_list: dict[int, tuple[object, object, object, object, Shape]] = {}
        self._asked: set[int] = set()
        self.seen = 0

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod that has come; it is counted."""
        self.seen += 1
        shape = self.now(pod)
        shape.count += 1
        return shape

    def now(self, pod: Pod) -> Shape:
        """The shape of a pod as it is now: it may have been resized since it came."""
        spec = pod.spec
        kept = self._by_list.get(id(spec.containers))
        if (
            kept is not None
            and kept[0] is spec.containers  # the lists are held here, so an id cannot stand for another one
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
            asked = {}  # a quantity that cannot be read: the scheduler reports it, and nothing can be counted
        amounts = tuple(sorted([(index("pods"), 1), *((index(name), each) for name, each in asked.items() if each)]))
        shape = self._by_amounts.get(amounts)
        if shape is None:
            shape = Shape(amounts)
            self._asked.update(i for i, _ in amounts)
            if len(self._by_amounts) < MOST_SHAPES:
                self._by_amounts[amounts] = shape
        return shape

    def has_asked_for(self, resource: int) -> bool:
        """Whether any pod asked for a resource."""
        return resource in self._asked

    def typical(self) -> list[tuple[Shape, float]]:
        """The most frequent shapes, as many as stand for 95 % of all pods (64 at most), with their shares."""
        by_count = sorted(self._by_amounts.values(), key=lambda shape: (-shape.count, shape.amounts))
        taken: list[Shape] = []
        covered = 0
        for shape in by_count[:MOST_TYPICAL]:
            taken.append(shape)
            covered += shape.count
            if covered >= COVERAGE * self.seen:
                break
        return [(shape, shape.count / covered) for shape in taken] if covered else []
