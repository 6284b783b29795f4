"""The scheduling.x-k8s.io group, which the scheduler-plugins project defines: PodGroups."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME
from mooring.controlplane.types.kind import Kind

POD_GROUPS = Kind(
    "PodGroup",
    "podgroups",
    "scheduling.x-k8s.io",
    version="v1alpha1",
    short_names=("pg",),
    subresources=("status",),
    has_generation=True,
    columns=(NAME, AGE),
)
