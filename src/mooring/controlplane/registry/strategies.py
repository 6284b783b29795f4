"""Which strategy belongs to which kind."""

from __future__ import annotations

from mooring.controlplane.registry import pod_admission, pod_defaults, pod_validation, resources
from mooring.controlplane.registry.strategy import Strategy
from mooring.controlplane.types.kind import Kind

_DEFAULT = Strategy()
_POD = Strategy(
    default=pod_defaults.default_pod,
    admit=pod_admission.admit_pod,
    prepare_update=pod_validation.prepare_update,
    prepare_status=pod_validation.prepare_status,
    validate=pod_validation.validate,
    validate_update=pod_validation.validate_update,
    returns_deleted=True,
)
_STRATEGIES: dict[str, Strategy] = {"pods": _POD, **resources.STRATEGIES}


def strategy_of(kind: Kind) -> Strategy:
    return _STRATEGIES.get(kind.resource, _DEFAULT)
