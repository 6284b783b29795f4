"""The policy group: PodDisruptionBudgets."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at, number
from mooring.controlplane.registry.scheduling_validation import validate_label_selector
from mooring.controlplane.registry.workloads import validate_share
from mooring.controlplane.types.kind import Column, Context, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, invalid_value


def _validate_budget(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = validate_label_selector(spec.get("selector"), "spec.selector")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        found.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        found += validate_share(spec.get(name), f"spec.{name}")
    return found


def _admit_budget(obj: Object, _: Context) -> None:
    obj.setdefault("spec", {})
    obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


BUDGETS = Kind(
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    "policy",
    short_names=("pdb",),
    subresources=("status",),
    has_generation=True,
    strategy=Strategy(admit=_admit_budget, validate=_validate_budget, allows_unconditional_update=False),
    columns=(
        NAME,
        Column("Min Available", lambda obj, _: str(at("spec", "minAvailable", default="N/A")(obj, 0))),
        Column("Max Unavailable", lambda obj, _: str(at("spec", "maxUnavailable", default="N/A")(obj, 0))),
        number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
)
