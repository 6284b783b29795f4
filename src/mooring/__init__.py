"""mooring: a Kubernetes scheduler in Python.

    import mooring

    cluster = mooring.load("dump.json")
    decision = mooring.Scheduler(cluster).decide("shop/web-7")
    print(decision.node, decision.message)

The names in ``__all__`` are the front door; they are stable. Plugin and extender authors import :mod:`mooring.sdk`;
tests import :mod:`mooring.testing`. Nothing is imported before it is used.
"""

from __future__ import annotations

from mooring.api.version import __version__

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the time that importing typing takes
if TYPE_CHECKING:
    from typing import Any

    from mooring.api.errors import MooringError
    from mooring.ask.capacity import Capacity, capacity
    from mooring.ask.consolidate import Consolidation, consolidate
    from mooring.ask.deschedule import Descheduling, deschedule
    from mooring.ask.diff import Difference, diff
    from mooring.ask.drill import Drill, drill
    from mooring.ask.lint.findings import Findings
    from mooring.ask.lint.lint import lint
    from mooring.ask.optimise import Optimisation, optimise
    from mooring.ask.pareto import Tuning
    from mooring.ask.plan import Plan, plan
    from mooring.ask.scheduler import Scheduler, connect, explain, load
    from mooring.ask.sweep import sweep
    from mooring.ask.tune import tune
    from mooring.core.cluster import Cluster
    from mooring.core.explain.decision import Decision
    from mooring.core.explain.why import Explanation
    from mooring.record.reader import Record
    from mooring.show.report import report
    from mooring.sim.result import Simulation
    from mooring.sim.simulate import simulate

__all__ = [
    "Capacity",
    "Cluster",
    "Consolidation",
    "Decision",
    "Descheduling",
    "Difference",
    "Drill",
    "Explanation",
    "Findings",
    "MooringError",
    "Optimisation",
    "Plan",
    "Record",
    "Scheduler",
    "Simulation",
    "Tuning",
    "__version__",
    "capacity",
    "connect",
    "consolidate",
    "deschedule",
    "diff",
    "drill",
    "explain",
    "lint",
    "load",
    "optimise",
    "plan",
    "report",
    "simulate",
    "sweep",
    "tune",
]

_MODULES = {
    "Capacity": "mooring.ask.capacity",
    "Cluster": "mooring.core.cluster",
    "Consolidation": "mooring.ask.consolidate",
    "Decision": "mooring.core.explain.decision",
    "Descheduling": "mooring.ask.deschedule",
    "Difference": "mooring.ask.diff",
    "Drill": "mooring.ask.drill",
    "Explanation": "mooring.core.explain.why",
    "Findings": "mooring.ask.lint.findings",
    "MooringError": "mooring.api.errors",
    "Optimisation": "mooring.ask.optimise",
    "Plan": "mooring.ask.plan",
    "Record": "mooring.record.reader",
    "Scheduler": "mooring.ask.scheduler",
    "Simulation": "mooring.sim.result",
    "Tuning": "mooring.ask.pareto",
    "capacity": "mooring.ask.capacity",
    "connect": "mooring.ask.scheduler",
    "consolidate": "mooring.ask.consolidate",
    "deschedule": "mooring.ask.deschedule",
    "diff": "mooring.ask.diff",
    "drill": "mooring.ask.drill",
    "explain": "mooring.ask.scheduler",
    "lint": "mooring.ask.lint.lint",
    "load": "mooring.ask.scheduler",
    "optimise": "mooring.ask.optimise",
    "plan": "mooring.ask.plan",
    "report": "mooring.show.report",
    "simulate": "mooring.sim.simulate",
    "sweep": "mooring.ask.sweep",
    "tune": "mooring.ask.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'mooring' has no attribute {name!r}; it offers {', '.join(sorted(__all__))}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
