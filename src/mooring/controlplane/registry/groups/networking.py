"""The networking.k8s.io group: NetworkPolicies."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, selector_cell
from mooring.controlplane.types.kind import Column, Kind, Strategy
from mooring.controlplane.types.objects import Object


def _default_network_policy(obj: Object) -> None:
    """Nothing here enforces a policy; it is served so that manifests with one can be applied."""
    spec = obj.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


NETWORK_POLICIES = Kind(
    "NetworkPolicy",
    "networkpolicies",
    "networking.k8s.io",
    short_names=("netpol",),
    has_generation=True,
    strategy=Strategy(default=_default_network_policy),
    columns=(
        NAME,
        Column("Pod-Selector", selector_cell("spec", "podSelector")),
        AGE,
    ),
)
