"""The structured allocator: devices for all claims of a pod, node after node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.api.resource import ResourceClaim
from mooring.devices.allocated import AllocatedState
from mooring.devices.cel import CelSelectors
from mooring.devices.counters import AvailableCounters
from mooring.devices.device_checks import DeviceChecks
from mooring.devices.pools import Inventory, Reach
from mooring.devices.requests import ClaimPlan, ClassLookup, plan_claim
from mooring.devices.results import NodeSolution, Solution
from mooring.devices.rules import FIRST_RULES, Rules
from mooring.devices.search import Search, Stage, stages_of


@dataclass(slots=True, eq=False)
class Task:
    """Claims that are to be allocated together, prepared once for all nodes."""

    plans: list[ClaimPlan]
    stages: list[Stage]
    solutions: dict[tuple[int, tuple[int, ...]], Solution | None] = field(default_factory=dict)
    """What was found, by likeness of the node's devices and positions of those that are taken."""


class Allocator:
    """Allocates for one pod. Make one per attempt: ``allocated`` must not change while it is used."""

    def __init__(
        self,
        inventory: Inventory,
        selectors: CelSelectors,
        allocated: AllocatedState,
        classes: ClassLookup,
        is_late: Callable[[], bool] = lambda: False,
        begin: Callable[[], None] = lambda: None,
        rules: Rules = FIRST_RULES,
    ) -> None:
        self.steps = 0
        """How many steps all searches took together: upstream's NumAllocateOneInvocations."""
        self._inventory = inventory
        self._allocated = allocated
        self._checks = DeviceChecks(inventory, selectors, allocated, rules)
        self._counters = AvailableCounters(allocated)
        self._classes = classes
        self._is_late = is_late
        self._begin = begin  # called before a node is searched, not where the answer is known already

    def prepare(self, claims: Sequence[ResourceClaim]) -> Task:
        plans = [plan_claim(claim, self._classes) for claim in claims]
        return Task(plans, stages_of(plans))

    def allocate(self, node_name: str, labels: Mapping[str, str], task: Task) -> NodeSolution | None:
        """Return devices for all claims of a task, or None if there is no solution on this node.

        Raises AllocationError when a claim, class or expression is wrong, which no other node would mend.
        """
        reach = self._inventory.reach_of(node_name, labels)
        key = None
        if reach.likeness is not None and not (self._allocated.capacity and self._consumes_any(reach)):
            key = (reach.likeness, self._allocated.taken(reach))
            if key in task.solutions:
                solution = task.solutions[key]
                return None if solution is None else NodeSolution(solution, node_name, reach.devices)
        self._begin()
        solution = self._search(node_name, labels, reach, task)
        if key is not None:
            task.solutions[key] = solution
        if solution is None:
            return None
        found = NodeSolution(solution, node_name, reach.devices)
        if key is None:
            found.results()  # what cannot be written down is an error of this node's search
        return found

    def _search(self, node_name: str, labels: Mapping[str, str], reach: Reach, task: Task) -> Solution | None:
        plans, stages = task.plans, task.stages
        search = Search(self._checks, self._counters, node_name, labels, reach, plans, stages, self._is_late)
        try:
            return search.run()
        finally:
            self.steps += search.steps

    def _consumes_any(self, reach: Reach) -> bool:
        """Report whether some device is partly consumed: how much is left differs from node to node."""
        capacity = self._allocated.capacity
        return any(id in capacity for id in reach.ids)
