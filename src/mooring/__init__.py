"""mooring: a Kubernetes scheduler in Python.

    import mooring

    cluster = mooring.load("dump.json")
    decision = mooring.Scheduler(cluster).decide("shop/web-7")
    print(decision.node, decision.message)

The names in ``__all__`` are the front door; they are stable. Plugin and extender authors import :mod:`mooring.sdk`;
tests import :mod:`mooring.testing`. Nothing is imported before it is used.
"""

from __future__ import annotations

from mooring.version import __version__

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from mooring.compare.diff import Difference, diff
    from mooring.errors import MooringError
    from mooring.explanation.decision import Decision
    from mooring.explanation.why import Explanation
    from mooring.linting.findings import Findings
    from mooring.linting.lint import lint
    from mooring.record.reader import Record
    from mooring.simulation.front_door import simulate
    from mooring.simulation.result import Simulation
    from mooring.surface.cluster import Cluster
    from mooring.surface.reading import connect, load
    from mooring.surface.scheduler import Scheduler, explain
    from mooring.sweeping.sweep import sweep
    from mooring.tuning.points import Tuning
    from mooring.tuning.tune import tune
    from mooring.whatif.adding import Plan
    from mooring.whatif.capacity import Capacity, capacity
    from mooring.whatif.drill import Drill, drill
    from mooring.whatif.plan import plan, plan_removal
    from mooring.whatif.removing import Removal

__all__ = [
    "Capacity",
    "Cluster",
    "Decision",
    "Difference",
    "Drill",
    "Explanation",
    "Findings",
    "MooringError",
    "Plan",
    "Record",
    "Removal",
    "Scheduler",
    "Simulation",
    "Tuning",
    "__version__",
    "capacity",
    "connect",
    "diff",
    "drill",
    "explain",
    "lint",
    "load",
    "plan",
    "plan_removal",
    "simulate",
    "sweep",
    "tune",
]

_MODULES = {
    "Capacity": "mooring.whatif.capacity",
    "Cluster": "mooring.surface.cluster",
    "Decision": "mooring.explanation.decision",
    "Difference": "mooring.compare.diff",
    "Drill": "mooring.whatif.drill",
    "Explanation": "mooring.explanation.why",
    "Findings": "mooring.linting.findings",
    "MooringError": "mooring.errors",
    "Plan": "mooring.whatif.adding",
    "Record": "mooring.record.reader",
    "Removal": "mooring.whatif.removing",
    "Scheduler": "mooring.surface.scheduler",
    "Simulation": "mooring.simulation.result",
    "Tuning": "mooring.tuning.points",
    "capacity": "mooring.whatif.capacity",
    "connect": "mooring.surface.reading",
    "diff": "mooring.compare.diff",
    "drill": "mooring.whatif.drill",
    "explain": "mooring.surface.scheduler",
    "lint": "mooring.linting.lint",
    "load": "mooring.surface.reading",
    "plan": "mooring.whatif.plan",
    "plan_removal": "mooring.whatif.plan",
    "simulate": "mooring.simulation.front_door",
    "sweep": "mooring.sweeping.sweep",
    "tune": "mooring.tuning.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mooring' has no attribute {name!r}; it offers {', '.join(sorted(__all__))}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
