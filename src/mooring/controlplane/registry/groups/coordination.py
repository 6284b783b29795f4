"""The coordination.k8s.io group: Leases."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at
from mooring.controlplane.types.kind import Column, Kind, Strategy

LEASES = Kind(
    "Lease",
    "leases",
    "coordination.k8s.io",
    strategy=Strategy(allows_unconditional_update=False, creates_on_update=True),
    columns=(NAME, Column("Holder", at("spec", "holderIdentity")), AGE),
)
